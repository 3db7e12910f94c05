// A configuration file, read field by field. What nobody read, and what is not known to change
// nothing, is found at the end: a field that is not understood is an error, never ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::import::hf {

// Throws Error(kInvalidModel): "hf: <file>: <problem>".
[[noreturn]] void fail(const std::string& file, const std::string& problem);
// Throws Error(kUnsupported) in the same form.
[[noreturn]] void unsupported(const std::string& file, const std::string& problem);

// Sizes above this are no model's; below it, no product of two overflows.
inline constexpr int64_t kMaxSize = 1 << 26;

// One JSON object of the file. Copies share what was read. A field that is null counts as absent; a
// field of another type than asked for throws Error(kInvalidModel) naming it.
class Config {
 public:
  // `text`: the file's bytes, an object. `file`: as messages name it.
  static Config parse(std::string_view text, const std::string& file);

  bool has(const std::string& key) const;  // and is not null
  bool is_null(const std::string& key) const;
  std::optional<int64_t> find_integer(const std::string& key) const;
  std::optional<double> find_real(const std::string& key) const;  // finite; integers are taken too
  std::optional<bool> find_bool(const std::string& key) const;
  std::optional<std::string> find_string(const std::string& key) const;
  std::optional<std::vector<int64_t>> find_integers(
      const std::string& key) const;  // or one of them
  // Finite numbers; none where the field is absent.
  std::vector<double> reals(const std::string& key) const;
  std::optional<std::vector<std::string>> find_strings(const std::string& key) const;
  std::optional<Config> find_object(const std::string& key) const;

  // 1 to `largest`.
  int64_t size(const std::string& key, int64_t largest = kMaxSize) const;
  int64_t size_or(const std::string& key, int64_t otherwise, int64_t largest = kMaxSize) const;
  // Above zero, and of a size that f32 holds.
  double positive(const std::string& key) const;
  double positive_or(const std::string& key, double otherwise) const;
  bool bool_or(const std::string& key, bool otherwise) const;
  std::string string_or(const std::string& key, const std::string& otherwise) const;

  // These change nothing in this family, whatever they say.
  void ignore(std::initializer_list<const char*> keys) const;
  // Throws Error(kUnsupported) unless the field is absent or `wanted`; `why` says what else means.
  void must_be(const std::string& key, bool wanted, const char* why) const;

  // Fields of this object and of those below it that were neither read nor are known to change
  // nothing: throws Error(kUnsupported) naming them.
  void refuse_unread() const;

  [[noreturn]] void fail_field(const std::string& key, const std::string& problem) const;
  [[noreturn]] void unsupported_field(const std::string& key, const std::string& problem) const;

  const std::string& file() const;

 private:
  struct Node;
  explicit Config(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  const nlohmann::ordered_json* find(const std::string& key) const;

  std::shared_ptr<Node> node_;
};

}  // namespace kvern::import::hf
