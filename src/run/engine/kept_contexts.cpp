#include "run/engine/kept_contexts.h"

#include <algorithm>

#include "base/check.h"

namespace kvern::engine {

ExportedContext export_context(StepLoop& loop, const ContextShape& shape, kv::SeqId seq,
                               std::span<const int32_t> ids) {
  ExportedContext out;
  const sched::KeptContext* kept = loop.scheduler().kept(seq);
  if (kept == nullptr) return out;
  const auto held = std::span(kept->ids).first(static_cast<size_t>(kept->computed));
  const int64_t common =
      std::mismatch(held.begin(), held.end(), ids.begin(), ids.end()).first - held.begin();
  const std::optional<kv::Prefix> prefix = loop.pages().prefix_of(seq, common);
  if (!prefix) return out;
  out.computed = common;
  const std::vector<SavedContext::Pages> wanted = pages_of(shape, common);
  size_t size = 0;
  for (size_t g = 0; g < wanted.size(); ++g) {
    size += static_cast<size_t>(wanted[g].num_pages * shape.page_bytes[g]);
  }
  out.bytes.resize(size);
  std::span<std::byte> rest = out.bytes;
  for (size_t g = 0; g < wanted.size(); ++g) {
    const auto page_bytes = static_cast<size_t>(shape.page_bytes[g]);
    const kv::GroupConfig& group = shape.groups[g];
    const int64_t first_seen = group.first_token_seen(common);
    for (int64_t i = wanted[g].first_page; i < wanted[g].first_page + wanted[g].num_pages; ++i) {
      const int64_t start = i * group.page_tokens;
      const exec::PageTokens tokens{
          static_cast<int32_t>(std::max<int64_t>(0, first_seen - start)),
          static_cast<int32_t>(std::min<int64_t>(group.page_tokens, common - start))};
      loop.executor().export_page(g, prefix->pages[g][static_cast<size_t>(i)], tokens,
                                  rest.first(page_bytes));
      rest = rest.subspan(page_bytes);
    }
  }
  return out;
}

bool import_context(StepLoop& loop, kv::SeqId seq, const SavedContext& context) {
  kv::PagePool& pages = loop.pages();
  const std::vector<int32_t> available = pages.available();
  kv::Need need{seq, {}};
  // Not in_tree: nobody has computed these pages here. They serve this context and its forks, never
  // the prefix cache and so no other request, whatever the file says they hold.
  need.begins.emplace();
  for (size_t g = 0; g < context.pages.size(); ++g) {
    const SavedContext::Pages& saved = context.pages[g];
    if (saved.num_pages > available[g]) return false;
    need.pages.push_back(static_cast<int32_t>(saved.num_pages));
    need.begins->pages.emplace_back(static_cast<size_t>(saved.first_page));
  }
  kv::Lease lease = pages.exchange({}, {&need, 1});
  const kv::PageTable& table = lease.table(seq);
  for (size_t g = 0; g < context.pages.size(); ++g) {
    const SavedContext::Pages& saved = context.pages[g];
    if (saved.num_pages == 0) continue;
    const size_t page_bytes = saved.bytes.size() / static_cast<size_t>(saved.num_pages);
    for (int64_t i = 0; i < saved.num_pages; ++i) {
      loop.executor().import_page(
          g, table.groups[g][static_cast<size_t>(saved.first_page + i)],
          saved.bytes.subspan(static_cast<size_t>(i) * page_bytes, page_bytes));
    }
  }
  loop.scheduler().keep({seq, context.ids, static_cast<int32_t>(context.computed)});
  lease.commit();
  return true;
}

}  // namespace kvern::engine
