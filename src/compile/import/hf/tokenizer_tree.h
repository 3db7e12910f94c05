// A JSON file as a tree whose objects keep their order and take a quarter of a million keys without
// searching them: a vocabulary is one object.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvern::import::hf {

struct Tree {
  enum class Kind : uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  double number = 0;  // of a bool: 0 or 1
  std::string text{};
  std::vector<Tree> items{};        // of an array or an object
  std::vector<std::string> keys{};  // of an object, one per item

  bool is_null() const { return kind == Kind::kNull; }
  // The first of that name; nothing for what is no object.
  const Tree* find(std::string_view key) const;
};

// Throws Error(kInvalidModel) naming `file`.
Tree parse_tree(std::string_view text, const std::string& file);

// A node with the words to complain about it. Fields that are null count as absent; a field of
// another type than asked for throws Error(kInvalidModel).
class TreeView {
 public:
  TreeView(const Tree& tree, const std::string& file, std::string path)
      : tree_(&tree), file_(&file), path_(std::move(path)) {}

  const Tree& tree() const { return *tree_; }
  const std::string& file() const { return *file_; }
  bool has(std::string_view key) const;
  TreeView at(std::string_view key) const;  // must be there
  TreeView item(size_t index) const;
  size_t size() const { return tree_->items.size(); }

  std::string string(std::string_view key) const;
  std::string string_or(std::string_view key, std::string otherwise) const;
  bool bool_or(std::string_view key, bool otherwise) const;
  int32_t integer(std::string_view key) const;
  int32_t integer_or(std::string_view key, int32_t otherwise) const;

  // This node itself.
  std::string as_string() const;
  int32_t as_integer() const;
  double as_number() const;
  void expect(Tree::Kind kind, const char* what) const;
  // Throws Error(kUnsupported) for a field that is none of these.
  void only(std::initializer_list<std::string_view> keys) const;

  [[noreturn]] void fail(const std::string& problem) const;
  [[noreturn]] void unsupported(const std::string& problem) const;

 private:
  const Tree* tree_;
  const std::string* file_;
  std::string path_;
};

}  // namespace kvern::import::hf
