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
  int64_t common =
      std::mismatch(held.begin(), held.end(), ids.begin(), ids.end()).first - held.begin();
  // Of a context that was rewound only whole pages: what it forgot is nobody's business.
  const int32_t block = loop.pages().block_tokens();
  if (common < kept->computed) common = block > 0 ? common / block * block : 0;
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
    for (int64_t i = 0; i < wanted[g].num_pages; ++i) {
      const auto page = prefix->pages[g][static_cast<size_t>(wanted[g].first_page + i)];
      loop.executor().export_page(g, page, rest.first(page_bytes));
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
