// The pages of one KV group and who holds them: free, cached (in the prefix cache alone) or leased
// (by at least one sequence or context; counted once however many share it). Allocates nothing
// after construction, so that transactions can be undone when memory is short.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "run/kv/ids.h"

namespace kvern::kv {

struct GroupConfig {
  int32_t num_pages = 0;
  int32_t page_tokens = 0;
  int32_t window_tokens = 0;  // a token sees itself and window_tokens - 1 before; 0: all are kept

  // The first position that a token behind `tokens` others sees, and the page that holds it.
  int64_t first_token_seen(int64_t tokens) const {
    return window_tokens == 0 ? 0 : std::max<int64_t>(0, tokens - window_tokens + 1);
  }
  int64_t first_page_seen(int64_t tokens) const { return first_token_seen(tokens) / page_tokens; }
};

class GroupPages {
 public:
  explicit GroupPages(int32_t num_pages);

  int32_t total() const { return static_cast<int32_t>(states_.size()); }
  int32_t free() const { return num_free_; }
  int32_t cached() const { return num_cached_; }
  int32_t leased() const { return total() - num_free_ - num_cached_; }
  bool exists(PageId page) const { return page.value >= 0 && page.value < total(); }
  int32_t refs(PageId page) const { return state(page).refs; }
  int32_t node(PageId page) const { return state(page).node; }  // of the prefix cache; -1: none

  PageId first_free() const { return first_of(free_list()); }
  // The one that went longest without a holder.
  PageId oldest_cached() const { return first_of(cached_list()); }

  void add_ref(PageId page) noexcept;
  void drop_ref(PageId page) noexcept;
  void set_node(PageId page, int32_t node) noexcept;
  void check() const;  // throws InternalError: lists and counts against states

 private:
  struct State {
    int32_t refs = 0;
    int32_t node = -1;
  };
  struct Link {
    int32_t prev = -1, next = -1;
  };
  // Both lists are rings through links_; their heads come after the pages.
  int32_t free_list() const { return total(); }
  int32_t cached_list() const { return total() + 1; }
  const State& state(PageId page) const { return states_[static_cast<size_t>(page.value)]; }
  Link& link(int32_t at) { return links_[static_cast<size_t>(at)]; }
  const Link& link(int32_t at) const { return links_[static_cast<size_t>(at)]; }
  PageId first_of(int32_t list) const;
  void enlist(int32_t page) noexcept;
  void delist(int32_t page) noexcept;
  void insert_after(int32_t page, int32_t at) noexcept;
  void check_list(int32_t list, int32_t count, bool cached) const;

  std::vector<State> states_;
  std::vector<Link> links_;
  int32_t num_free_ = 0, num_cached_ = 0;
};

}  // namespace kvern::kv
