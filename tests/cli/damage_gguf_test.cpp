// Fifty damaged GGUF files: each is refused with exit code 3 and words, within a second, and
// without an allocation that its size does not justify.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/cli/damage.h"
#include "tests/cli/process.h"
#include "tests/cli/tiny_gguf.h"

namespace kvern::cli_test {
namespace {

struct Damage {
  const char* what;
  std::function<void(TinyGguf&)> apply;
};

void set_meta(TinyGguf& gguf, const char* key, const std::string& value) {
  gguf.meta(key).value = value;
}

const std::vector<Damage>& header_damages() {
  static const std::vector<Damage> damages{
      {"wrong magic", [](TinyGguf& g) { g.magic = 0x46554748; }},
      {"version 0", [](TinyGguf& g) { g.version = 0; }},
      {"version 99", [](TinyGguf& g) { g.version = 99; }},
      {"big-endian version", [](TinyGguf& g) { g.version = 0x03000000; }},
      {"one tensor too many", [](TinyGguf& g) { g.tensor_count_added = 1; }},
      {"2^60 tensors", [](TinyGguf& g) { g.tensor_count_added = int64_t{1} << 60; }},
      {"-1 tensors", [](TinyGguf& g) { g.tensor_count_added = -1 - int64_t(g.tensors.size()); }},
      {"one entry too many", [](TinyGguf& g) { g.meta_count_added = 1; }},
      {"2^60 entries", [](TinyGguf& g) { g.meta_count_added = int64_t{1} << 60; }},
      {"an entry too few", [](TinyGguf& g) { g.meta_count_added = -1; }},
      {"no tensors", [](TinyGguf& g) { g.tensors.clear(); }},
      {"no metadata", [](TinyGguf& g) { g.metas.clear(); }},
  };
  return damages;
}

const std::vector<Damage>& metadata_damages() {
  static const std::vector<Damage> damages{
      {"unknown value type", [](TinyGguf& g) { g.meta("general.name").type = 77; }},
      {"endless string",
       [](TinyGguf& g) { set_meta(g, "general.name", encode_u64(~uint64_t{0}) + "x"); }},
      {"string of 4 GB",
       [](TinyGguf& g) { set_meta(g, "general.name", encode_u64(uint64_t{1} << 32) + "x"); }},
      {"array of 2^61 strings",
       [](TinyGguf& g) {
         set_meta(g, "tokenizer.ggml.merges", encode_u32(8) + encode_u64(uint64_t{1} << 61));
       }},
      {"array of an unknown type",
       [](TinyGguf& g) { set_meta(g, "tokenizer.ggml.merges", encode_u32(55) + encode_u64(1)); }},
      {"array of arrays of arrays",
       [](TinyGguf& g) {
         std::string value;
         for (int i = 0; i < 2000; ++i) value += encode_u32(9) + encode_u64(1);
         set_meta(g, "tokenizer.ggml.merges", value);
       }},
      {"alignment 0", [](TinyGguf& g) { set_meta(g, "general.alignment", encode_u32(0)); }},
      {"alignment 33", [](TinyGguf& g) { set_meta(g, "general.alignment", encode_u32(33)); }},
      {"unknown architecture",
       [](TinyGguf& g) { set_meta(g, "general.architecture", encode_string("lama")); }},
      {"no layers", [](TinyGguf& g) { set_meta(g, "llama.block_count", encode_u32(0)); }},
      {"a billion layers",
       [](TinyGguf& g) { set_meta(g, "llama.block_count", encode_u32(1000000000)); }},
      {"a layer too many", [](TinyGguf& g) { set_meta(g, "llama.block_count", encode_u32(3)); }},
      {"no heads", [](TinyGguf& g) { set_meta(g, "llama.attention.head_count", encode_u32(0)); }},
      {"heads that do not divide",
       [](TinyGguf& g) { set_meta(g, "llama.attention.head_count", encode_u32(7)); }},
      {"more KV heads than heads",
       [](TinyGguf& g) { set_meta(g, "llama.attention.head_count_kv", encode_u32(64)); }},
      {"a width of zero",
       [](TinyGguf& g) { set_meta(g, "llama.embedding_length", encode_u32(0)); }},
      {"another width", [](TinyGguf& g) { set_meta(g, "llama.embedding_length", encode_u32(96)); }},
      {"a context of zero",
       [](TinyGguf& g) { set_meta(g, "llama.context_length", encode_u32(0)); }},
      {"an eps that is no number",
       [](TinyGguf& g) {
         set_meta(g, "llama.attention.layer_norm_rms_epsilon", encode_u32(0x7fc00000));
       }},
      {"a stop token outside the vocabulary",
       [](TinyGguf& g) { set_meta(g, "tokenizer.ggml.eos_token_id", encode_u32(4000000)); }},
      {"a merge of tokens that do not exist",
       [](TinyGguf& g) {
         set_meta(g, "tokenizer.ggml.merges",
                  encode_u32(8) + encode_u64(1) + encode_string("nope"));
       }},
      {"half a vocabulary",
       [](TinyGguf& g) {
         set_meta(g, "tokenizer.ggml.tokens",
                  encode_u32(8) + encode_u64(2) + encode_string("a") + encode_string("b"));
       }},
      {"a key given twice", [](TinyGguf& g) { g.metas.push_back(g.meta("llama.block_count")); }},
  };
  return damages;
}

const std::vector<Damage>& tensor_damages() {
  static const std::vector<Damage> damages{
      {"unknown tensor type", [](TinyGguf& g) { g.tensors[1].type = 200; }},
      {"no dimensions", [](TinyGguf& g) { g.tensors[1].dims.clear(); }},
      {"forty dimensions", [](TinyGguf& g) { g.tensors[1].dims.assign(40, 1); }},
      {"a dimension of zero", [](TinyGguf& g) { g.tensors[2].dims[0] = 0; }},
      {"dimensions whose product wraps",
       [](TinyGguf& g) {
         g.tensors[2].dims = {uint64_t{1} << 33, uint64_t{1} << 33};
       }},
      {"a huge row", [](TinyGguf& g) { g.tensors[2].dims[0] = uint64_t{1} << 40; }},
      {"another shape",
       [](TinyGguf& g) {
         g.tensors[2].dims = {32, 128};
       }},
      {"data beyond the end", [](TinyGguf& g) { g.tensors.back().offset += 4096; }},
      {"an offset that wraps", [](TinyGguf& g) { g.tensors.back().offset = ~uint64_t{31}; }},
      {"an unaligned offset", [](TinyGguf& g) { g.tensors[3].offset += 1; }},
      {"a name twice", [](TinyGguf& g) { g.tensors[3].name = g.tensors[2].name; }},
      {"a missing tensor",
       [](TinyGguf& g) { g.tensor("blk.1.ffn_down.weight").name = "blk.1.ffn_dawn.weight"; }},
      {"a surplus tensor",
       [](TinyGguf& g) {
         Tensor extra = g.tensors.back();
         extra.name = "blk.0.mystery.weight";
         g.tensors.push_back(extra);
       }},
  };
  return damages;
}

void expect_all_refused(const std::vector<Damage>& damages) {
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.what);
    TinyGguf gguf = make_tiny_gguf();
    damage.apply(gguf);
    const std::string path = temp_path("damaged.gguf");
    write_file(path, gguf.bytes());
    expect_refused_in_bounds({"build", path, "-o", temp_path("damaged.plan")});
  }
}

TEST(CliDamagedGguf, Header) {
  expect_all_refused(header_damages());
}
TEST(CliDamagedGguf, Metadata) {
  expect_all_refused(metadata_damages());
}
TEST(CliDamagedGguf, TensorTable) {
  expect_all_refused(tensor_damages());
}

TEST(CliDamagedGguf, CutShort) {
  const std::string whole = make_tiny_gguf().bytes();
  const std::string path = temp_path("short.gguf");
  for (size_t keep : {size_t{1}, size_t{4}, size_t{7}, size_t{23}, size_t{24}, size_t{60},
                      size_t{1000}, whole.size() / 50, whole.size() / 20, whole.size() / 4,
                      whole.size() / 2, whole.size() - 4096, whole.size() - 1}) {
    SCOPED_TRACE(keep);
    write_file(path, whole.substr(0, keep));
    expect_refused_in_bounds({"run", path, "-p", "hello", "-n", "1"});
  }
}

TEST(CliDamagedGguf, ThereAreFiftyAndMore) {
  EXPECT_GE(header_damages().size() + metadata_damages().size() + tensor_damages().size() + 13,
            50u);
}

// Bytes changed at random anywhere before the data: refused or, where a name or a number that
// decides nothing was hit, built; never a crash, a hang or memory out of proportion.
TEST(CliDamagedGguf, RandomBytesNeverCrash) {
  const TinyGguf gguf = make_tiny_gguf();
  const std::string whole = gguf.bytes();
  size_t data_bytes = 0;
  for (const Tensor& tensor : gguf.tensors) data_bytes += (tensor.data.size() + 31) / 32 * 32;
  Random random(11);
  const std::string path = temp_path("random.gguf");
  for (int i = 0; i < 40; ++i) {
    std::string bytes = whole;
    const size_t at = random.below(whole.size() - data_bytes);
    bytes[at] = static_cast<char>(bytes[at] ^ (1 + random.below(255)));
    write_file(path, bytes);
    SCOPED_TRACE(at);
    expect_refused_or_fine({"build", path, "-o", temp_path("random.plan")});
  }
}

}  // namespace
}  // namespace kvern::cli_test
