// Which pages hold which prefix: a tree of blocks of tokens, found by a chain of hashes and
// believed only after an exact comparison of the tokens, so that a collision costs time and never
// an answer.
//
// A block is the least number of tokens that fills whole pages in every KV group. Groups that keep
// everything have pages in every block of the tree; a window group may have lost them, and a prefix
// can be taken only where the pages of its last window are still there. Knows ids, counts no
// holder.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "run/kv/group_pages.h"
#include "run/kv/ids.h"

namespace kvern::kv {

// Of a block, from the hash of all tokens before it.
using BlockHash = uint64_t (*)(uint64_t parent, std::span<const int32_t> tokens);
uint64_t hash_block(uint64_t parent, std::span<const int32_t> tokens);

// A place in the tree: behind the tokens of one block and its ancestors. A block that went leaves
// marks of it that are not alive.
struct CacheMark {
  int32_t node = -1;  // -1: the root
  uint32_t serial = 0;
};

// Pages that hold the first `tokens` tokens of a sequence.
struct Prefix {
  int64_t tokens = 0;
  std::vector<std::vector<PageId>> pages;  // by KV group, logical order; invalid behind a window
  CacheMark mark;                          // of its whole blocks, where they are in the tree
  std::vector<int32_t> pending;            // tokens behind them
  bool in_tree = false;                    // mark and pending hold
};

class PrefixCache {
 public:
  PrefixCache(const std::vector<GroupConfig>& groups, BlockHash hash);

  int32_t block_tokens() const { return block_tokens_; }
  int32_t pages_per_block(size_t group) const { return shapes_[group].pages; }
  bool alive(CacheMark mark) const;
  // The longest prefix of `ids` that can be taken, at most max_tokens of it.
  Prefix find(std::span<const int32_t> ids, int64_t max_tokens) const;

  // The block behind `parent`, made where it is not there yet; an invalid page in every place. The
  // root when there are too many blocks.
  CacheMark add(CacheMark parent, std::span<const int32_t> tokens);
  CacheMark parent(CacheMark mark) const;
  const std::vector<int32_t>& tokens(CacheMark mark) const;
  PageId page(int32_t node, size_t group, int32_t index) const;
  void set_page(int32_t node, size_t group, int32_t index, PageId page);

  // Called for every page that leaves the tree.
  using OnPage = std::function<void(size_t group, PageId page)>;
  // The page goes; in a group that keeps everything its block and all that follow go with it.
  void remove_page(int32_t node, size_t group, PageId page, const OnPage& on_page);
  // A block that holds no page and leads nowhere.
  bool remove_if_empty(int32_t node);
  void clear(const OnPage& on_page);

  int32_t num_blocks() const { return num_blocks_; }
  void check() const;  // throws InternalError

 private:
  struct Shape {
    GroupConfig group;
    int32_t pages = 0;        // per block
    int32_t first_place = 0;  // in Node::pages
  };
  struct Node {
    uint64_t hash = 0;
    int32_t parent = -1, first_child = -1, next = -1, prev = -1;  // next, prev: siblings
    uint32_t serial = 0;
    bool used = false;
    std::vector<int32_t> tokens;
    std::vector<PageId> pages;
  };
  Node& at(int32_t node) { return nodes_[static_cast<size_t>(node)]; }
  const Node& at(int32_t node) const { return nodes_[static_cast<size_t>(node)]; }
  int32_t& first_child_of(int32_t node) { return node < 0 ? first_root_ : at(node).first_child; }
  uint64_t hash_of(int32_t node) const { return node < 0 ? kRootHash : at(node).hash; }
  int32_t child(int32_t parent, std::span<const int32_t> tokens, uint64_t hash) const;
  int32_t new_node();
  void link(int32_t node, int32_t parent);
  void remove_leaf(int32_t node, const OnPage& on_page);
  void remove_subtree(int32_t node, const OnPage& on_page);
  bool bare(int32_t node) const;
  void take_pages(Prefix& prefix, const std::vector<int32_t>& path) const;

  static constexpr uint64_t kRootHash = 0x6b7665726e2d6b76;  // "kvern-kv"

  const BlockHash hash_;
  int32_t block_tokens_ = 0;
  std::vector<Shape> shapes_;
  int32_t places_per_block_ = 0;
  int64_t max_blocks_ = 0;
  std::vector<Node> nodes_;
  std::vector<int32_t> unused_;
  std::unordered_multimap<uint64_t, int32_t> index_;
  int32_t first_root_ = -1;
  int32_t num_blocks_ = 0;
};

}  // namespace kvern::kv
