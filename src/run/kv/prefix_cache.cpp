#include "run/kv/prefix_cache.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/checked.h"
#include "base/hash.h"

namespace kvern::kv {
namespace {

// Page lengths without a sensible common multiple: no cache.
constexpr int64_t kMaxBlockTokens = 1 << 16;
// A block may outlive its pages as the ancestor of others; so many per page are let grow.
constexpr int64_t kBlocksPerPage = 8;

}  // namespace

uint64_t hash_block(uint64_t parent, std::span<const int32_t> tokens) {
  return hash64(std::as_bytes(tokens), parent);
}

PrefixCache::PrefixCache(const std::vector<GroupConfig>& groups, BlockHash hash) : hash_(hash) {
  int64_t block = groups.empty() ? 0 : 1;
  for (const GroupConfig& group : groups) {
    if (block <= kMaxBlockTokens) block = std::lcm(block, int64_t{group.page_tokens});
    max_blocks_ += kBlocksPerPage * group.num_pages;
  }
  block_tokens_ = block <= kMaxBlockTokens ? static_cast<int32_t>(block) : 0;
  for (const GroupConfig& group : groups) {
    const int32_t pages = block_tokens_ / group.page_tokens;
    shapes_.push_back({group, pages, places_per_block_});
    places_per_block_ += pages;
  }
}

bool PrefixCache::alive(CacheMark mark) const {
  return mark.node < 0 || (at(mark.node).used && at(mark.node).serial == mark.serial);
}

CacheMark PrefixCache::parent(CacheMark mark) const {
  const int32_t node = at(mark.node).parent;
  return node < 0 ? CacheMark() : CacheMark{node, at(node).serial};
}

const std::vector<int32_t>& PrefixCache::tokens(CacheMark mark) const {
  return at(mark.node).tokens;
}

int32_t PrefixCache::child(int32_t parent, std::span<const int32_t> tokens, uint64_t hash) const {
  const auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Node& node = at(it->second);
    if (node.parent == parent && std::equal(tokens.begin(), tokens.end(), node.tokens.begin())) {
      return it->second;
    }
  }
  return -1;
}

Prefix PrefixCache::find(std::span<const int32_t> ids, int64_t max_tokens) const {
  Prefix prefix;
  if (block_tokens_ == 0) return prefix;
  const int64_t most = std::min(static_cast<int64_t>(ids.size()), max_tokens);
  // How many blocks in a row, the last one of the path included, have the window groups' pages.
  std::vector<int64_t> run(shapes_.size(), 0);
  std::vector<int32_t> path;
  size_t good = 0;
  int32_t node = -1;
  for (int64_t end = block_tokens_; end <= most; end += block_tokens_) {
    const auto tokens =
        ids.subspan(static_cast<size_t>(end - block_tokens_), static_cast<size_t>(block_tokens_));
    node = child(node, tokens, hash_(hash_of(node), tokens));
    if (node < 0) break;
    path.push_back(node);
    bool whole = true;
    for (size_t g = 0; g < shapes_.size(); ++g) {
      const auto first = at(node).pages.begin() + shapes_[g].first_place;
      const bool there =
          std::all_of(first, first + shapes_[g].pages, [](PageId page) { return page.valid(); });
      run[g] = there ? run[g] + 1 : 0;
      const int64_t seen = shapes_[g].group.window_tokens == 0
                               ? end
                               : std::min<int64_t>(end, shapes_[g].group.window_tokens - 1);
      whole &= run[g] * block_tokens_ >= seen;
    }
    if (whole) good = path.size();
  }
  path.resize(good);
  if (good > 0) take_pages(prefix, path);
  return prefix;
}

void PrefixCache::take_pages(Prefix& prefix, const std::vector<int32_t>& path) const {
  prefix.tokens = static_cast<int64_t>(path.size()) * block_tokens_;
  prefix.mark = {path.back(), at(path.back()).serial};
  prefix.in_tree = true;
  for (const Shape& shape : shapes_) {
    std::vector<PageId>& pages = prefix.pages.emplace_back();
    for (const int32_t node : path) {
      const auto first = at(node).pages.begin() + shape.first_place;
      pages.insert(pages.end(), first, first + shape.pages);
    }
    std::fill_n(pages.begin(), shape.group.first_page_seen(prefix.tokens), PageId());
  }
}

CacheMark PrefixCache::add(CacheMark parent, std::span<const int32_t> tokens) {
  KVERN_CHECK(static_cast<int64_t>(tokens.size()) == block_tokens_ && alive(parent));
  const uint64_t hash = hash_(hash_of(parent.node), tokens);
  int32_t node = child(parent.node, tokens, hash);
  if (node < 0) {
    if (num_blocks_ >= max_blocks_) return {};
    node = new_node();
    Node& made = at(node);
    made.tokens.assign(tokens.begin(), tokens.end());
    made.pages.assign(static_cast<size_t>(places_per_block_), PageId());
    made.hash = hash;
    index_.emplace(hash, node);
    unused_.pop_back();  // from here on nothing fails
    link(node, parent.node);
  }
  return {node, at(node).serial};
}

// On top of unused_, which has room for every node: removing allocates nothing.
int32_t PrefixCache::new_node() {
  if (unused_.empty()) {
    if (unused_.capacity() <= nodes_.size()) unused_.reserve(2 * nodes_.size() + 64);
    nodes_.emplace_back();
    unused_.push_back(static_cast<int32_t>(nodes_.size() - 1));
  }
  return unused_.back();
}

void PrefixCache::link(int32_t node, int32_t parent) {
  int32_t& first = first_child_of(parent);
  Node& made = at(node);
  made.used = true;
  made.parent = parent;
  made.first_child = made.prev = -1;
  made.next = first;
  if (first >= 0) at(first).prev = node;
  first = node;
  ++num_blocks_;
}

PageId PrefixCache::page(int32_t node, size_t group, int32_t index) const {
  return at(node).pages[static_cast<size_t>(shapes_[group].first_place + index)];
}

void PrefixCache::set_page(int32_t node, size_t group, int32_t index, PageId page) {
  at(node).pages[static_cast<size_t>(shapes_[group].first_place + index)] = page;
}

void PrefixCache::remove_page(int32_t node, size_t group, PageId page, const OnPage& on_page) {
  const Shape& shape = shapes_[group];
  if (shape.group.window_tokens == 0) return remove_subtree(node, on_page);
  const auto first = at(node).pages.begin() + shape.first_place;
  const auto place = std::find(first, first + shape.pages, page);
  KVERN_CHECK(place != first + shape.pages, "page {} is not where it says", page.value);
  *place = PageId();
  on_page(group, page);
  // Blocks that hold nothing and lead nowhere.
  while (node >= 0 && at(node).first_child < 0 && bare(node)) {
    const int32_t parent = at(node).parent;
    remove_leaf(node, on_page);
    node = parent;
  }
}

bool PrefixCache::remove_if_empty(int32_t node) {
  if (at(node).first_child >= 0 || !bare(node)) return false;
  remove_leaf(node, {});
  return true;
}

bool PrefixCache::bare(int32_t node) const {
  const std::vector<PageId>& pages = at(node).pages;
  return std::none_of(pages.begin(), pages.end(), [](PageId page) { return page.valid(); });
}

void PrefixCache::remove_leaf(int32_t node, const OnPage& on_page) {
  Node& gone = at(node);
  const auto [begin, end] = index_.equal_range(gone.hash);
  index_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second == node; }));
  for (size_t g = 0; g < shapes_.size(); ++g) {
    for (int32_t i = 0; i < shapes_[g].pages; ++i) {
      const PageId held = page(node, g, i);
      if (held.valid()) on_page(g, held);
    }
  }
  (gone.prev < 0 ? first_child_of(gone.parent) : at(gone.prev).next) = gone.next;
  if (gone.next >= 0) at(gone.next).prev = gone.prev;
  gone.used = false;
  ++gone.serial;
  gone.tokens.clear();
  gone.pages.clear();
  unused_.push_back(node);
  --num_blocks_;
}

void PrefixCache::remove_subtree(int32_t node, const OnPage& on_page) {
  for (int32_t leaf = node;;) {
    while (at(leaf).first_child >= 0) leaf = at(leaf).first_child;
    const int32_t parent = at(leaf).parent;
    remove_leaf(leaf, on_page);
    if (leaf == node) return;
    leaf = parent;
  }
}

void PrefixCache::clear(const OnPage& on_page) {
  while (first_root_ >= 0) remove_subtree(first_root_, on_page);
}

void PrefixCache::check() const {
  int32_t used = 0;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    if (!node.used) continue;
    ++used;
    KVERN_CHECK(node.parent < 0 || at(node.parent).used, "block {} has no parent", n);
    KVERN_CHECK(node.next < 0 || at(node.next).prev == static_cast<int32_t>(n));
    for (const Shape& shape : shapes_) {
      const auto first = node.pages.begin() + shape.first_place;
      KVERN_CHECK(shape.group.window_tokens > 0 ||
                      std::all_of(first, first + shape.pages, [](PageId p) { return p.valid(); }),
                  "block {} has lost a page that it keeps", n);
    }
  }
  KVERN_CHECK(used == num_blocks_ && index_.size() == static_cast<size_t>(used),
              "{} blocks, {} counted, {} found by hash", used, num_blocks_, index_.size());
}

}  // namespace kvern::kv
