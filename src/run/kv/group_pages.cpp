#include "run/kv/group_pages.h"

#include "base/check.h"

namespace kvern::kv {

GroupPages::GroupPages(int32_t num_pages)
    : states_(static_cast<size_t>(num_pages)), links_(static_cast<size_t>(num_pages) + 2) {
  for (const int32_t list : {free_list(), cached_list()}) link(list) = {list, list};
  // The lowest id first: memory that was never touched stays untouched.
  for (int32_t page = num_pages; page-- > 0;) enlist(page);
}

PageId GroupPages::first_of(int32_t list) const {
  const int32_t first = link(list).next;
  return first == list ? PageId() : PageId(first);
}

// Free pages are a stack, cached ones a queue.
void GroupPages::enlist(int32_t page) noexcept {
  if (states_[static_cast<size_t>(page)].node < 0) {
    ++num_free_;
    insert_after(page, free_list());
  } else {
    ++num_cached_;
    insert_after(page, link(cached_list()).prev);
  }
}

void GroupPages::insert_after(int32_t page, int32_t at) noexcept {
  const int32_t next = link(at).next;
  link(page) = {at, next};
  link(at).next = page;
  link(next).prev = page;
}

void GroupPages::delist(int32_t page) noexcept {
  --(states_[static_cast<size_t>(page)].node < 0 ? num_free_ : num_cached_);
  const Link at = link(page);
  link(at.prev).next = at.next;
  link(at.next).prev = at.prev;
  link(page) = {};
}

void GroupPages::add_ref(PageId page) noexcept {
  if (state(page).refs == 0) delist(page.value);
  ++states_[static_cast<size_t>(page.value)].refs;
}

void GroupPages::drop_ref(PageId page) noexcept {
  if (--states_[static_cast<size_t>(page.value)].refs == 0) enlist(page.value);
}

void GroupPages::set_node(PageId page, int32_t node) noexcept {
  const bool listed = state(page).refs == 0;
  if (listed) delist(page.value);
  states_[static_cast<size_t>(page.value)].node = node;
  if (listed) enlist(page.value);
}

void GroupPages::check() const {
  check_list(free_list(), num_free_, /*cached=*/false);
  check_list(cached_list(), num_cached_, /*cached=*/true);
  int32_t unheld = 0;
  for (const State& s : states_) {
    KVERN_CHECK(s.refs >= 0, "a page has {} holders", s.refs);
    unheld += s.refs == 0 ? 1 : 0;
  }
  KVERN_CHECK(unheld == num_free_ + num_cached_, "free {} + cached {}, but {} pages have no holder",
              num_free_, num_cached_, unheld);
}

void GroupPages::check_list(int32_t list, int32_t count, bool cached) const {
  int32_t seen = 0;
  for (int32_t page = link(list).next; page != list; page = link(page).next) {
    KVERN_CHECK(seen++ < count, "a list of {} pages goes on", count);
    const State& s = state(PageId(page));
    KVERN_CHECK(s.refs == 0 && (s.node >= 0) == cached, "page {} is in the wrong list", page);
  }
  KVERN_CHECK(seen == count, "{} of {} pages in a list", seen, count);
}

}  // namespace kvern::kv
