#include "compile/import/hf/tokenizer_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "compile/import/hf/config.h"

namespace kvern::import::hf {
namespace {

constexpr size_t kMaxDepth = 64;

class TreeBuilder : public Json::json_sax_t {
 public:
  TreeBuilder(Tree& root, const std::string& file) : root_(root), file_(file) {}

  bool null() override { return add({}); }
  bool boolean(bool value) override {
    return add({.kind = Tree::Kind::kBool, .number = value ? 1.0 : 0.0});
  }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return number(value);
  }
  bool string(string_t& value) override {
    return add({.kind = Tree::Kind::kString, .text = std::move(value)});
  }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override { return open(Tree::Kind::kObject); }
  bool start_array(size_t /*size*/) override { return open(Tree::Kind::kArray); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    open_.back()->keys.push_back(std::move(value));
    return true;
  }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    fail(file_, fmt::format("not valid JSON at byte {}", position));
  }

 private:
  bool number(double value) { return add({.kind = Tree::Kind::kNumber, .number = value}); }
  bool add(Tree&& tree) {
    if (open_.empty()) {
      root_ = std::move(tree);
    } else {
      open_.back()->items.push_back(std::move(tree));
    }
    return true;
  }
  bool open(Tree::Kind kind) {
    if (open_.size() >= kMaxDepth) {
      fail(file_, fmt::format("JSON nested deeper than {}", kMaxDepth));
    }
    add({.kind = kind});
    open_.push_back(open_.empty() ? &root_ : &open_.back()->items.back());
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Tree& root_;
  const std::string& file_;
  std::vector<Tree*> open_;  // an open node's siblings are complete, so that it stays in its place
};

}  // namespace

const Tree* Tree::find(std::string_view key) const {
  const auto found = std::ranges::find(keys, key);
  return found == keys.end() ? nullptr : &items[static_cast<size_t>(found - keys.begin())];
}

Tree parse_tree(std::string_view text, const std::string& file) {
  Tree root;
  TreeBuilder builder(root, file);
  try {
    if (!Json::sax_parse(text.begin(), text.end(), &builder)) fail(file, "not valid JSON");
  } catch (const Json::exception&) {
    fail(file, "not valid JSON");
  }
  return root;
}

void TreeView::fail(const std::string& problem) const {
  hf::fail(*file_, fmt::format("{}: {}", path_.empty() ? "the file" : path_, problem));
}

void TreeView::unsupported(const std::string& problem) const {
  hf::unsupported(*file_, fmt::format("{}: {}", path_.empty() ? "the file" : path_, problem));
}

void TreeView::expect(Tree::Kind kind, const char* what) const {
  if (tree_->kind != kind) fail(fmt::format("must be {}", what));
}

bool TreeView::has(std::string_view key) const {
  const Tree* found = tree_->find(key);
  return found != nullptr && !found->is_null();
}

TreeView TreeView::at(std::string_view key) const {
  const Tree* found = tree_->find(key);
  if (found == nullptr || found->is_null()) fail(fmt::format("'{}' is missing", key));
  return {*found, *file_, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key)};
}

TreeView TreeView::item(size_t index) const {
  return {tree_->items[index], *file_, fmt::format("{}[{}]", path_, index)};
}

std::string TreeView::as_string() const {
  expect(Tree::Kind::kString, "a string");
  return tree_->text;
}

double TreeView::as_number() const {
  expect(Tree::Kind::kNumber, "a number");
  return tree_->number;
}

int32_t TreeView::as_integer() const {
  const double value = as_number();
  if (!(std::abs(value) <= INT32_MAX) || std::trunc(value) != value) fail("must be an integer");
  return static_cast<int32_t>(value);
}

std::string TreeView::string(std::string_view key) const {
  return at(key).as_string();
}

std::string TreeView::string_or(std::string_view key, std::string otherwise) const {
  return has(key) ? string(key) : otherwise;
}

bool TreeView::bool_or(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const TreeView field = at(key);
  field.expect(Tree::Kind::kBool, "true or false");
  return field.tree().number != 0;
}

int32_t TreeView::integer(std::string_view key) const {
  return at(key).as_integer();
}

int32_t TreeView::integer_or(std::string_view key, int32_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
}

void TreeView::only(std::initializer_list<std::string_view> keys) const {
  for (const std::string& key : tree_->keys) {
    if (std::ranges::find(keys, key) == keys.end()) {
      unsupported(fmt::format("the field '{}' is not understood, and may change the ids", key));
    }
  }
}

}  // namespace kvern::import::hf
