// Metadata of one architecture in a GGUF file, read key by key. What nobody read may change the
// result, so it is refused at the end.
#pragma once

#include <set>

#include "compile/import/families/decoder.h"
#include "compile/import/gguf/reader.h"

namespace kvern::import {

class GgufFields {
 public:
  explicit GgufFields(const gguf::File& file);

  // Keys are given without the architecture: "block_count".
  bool has(const std::string& key) const;
  int64_t size(const std::string& key, int64_t largest = int64_t{1} << 26) const;
  int64_t size_or(const std::string& key, int64_t otherwise) const;
  double positive(const std::string& key) const;
  double positive_or(const std::string& key, double otherwise) const;
  bool bool_or(const std::string& key, bool otherwise) const;
  std::string string_or(const std::string& key, const std::string& otherwise) const;
  int64_t count_or(const std::string& key, int64_t otherwise) const;  // 0 is possible

  // These change nothing in this architecture.
  void ignore(std::initializer_list<const char*> keys) const;
  void refuse_unread() const;

  const gguf::File& file() const { return file_; }
  const std::string& name() const { return file_.name; }

 private:
  std::string full(const std::string& key) const;

  const gguf::File& file_;
  std::string prefix_;  // "llama."
  mutable std::set<std::string> read_;
};

// "gguf: file 'x.gguf'", as messages begin.
std::string gguf_who(const gguf::File& file);

// Sizes, head counts and norm epsilon (`attention.layer_norm_rms_epsilon`, or
// `attention.layer_norm_epsilon` where `norm` is kLayer). head_dim is key_length, or hidden /
// heads.
DecoderConfig read_gguf_sizes(const GgufFields& fields, const char* family,
                              NormKind norm = NormKind::kRms);

// One rope for all layers from rope.freq_base, rope.dimension_count, rope.scaling.* and the tensor
// rope_freqs.weight.
void read_gguf_rope(const GgufFields& fields, WeightSet& weights, DecoderConfig& config,
                    double base = 10000.0);

// LongRoPE, where the file has its factors as the tensors rope_factors_{short,long}.weight: the
// short ones, up to the original context length. False where it has none.
bool read_gguf_longrope(const GgufFields& fields, WeightSet& weights, DecoderConfig& config,
                        std::vector<std::string>& warnings);

// Refuses a rope over a part of a head: rows that lie in pairs are sorted by whole heads.
void require_whole_heads(const GgufFields& fields, const DecoderConfig& config);

}  // namespace kvern::import
