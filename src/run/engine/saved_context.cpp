#include "run/engine/saved_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/checked.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/wire.h"

namespace kvern::engine {
namespace {

// Of tokens and names; contexts of a million tokens have 4 MB.
constexpr uint64_t kMaxHeaderBytes = uint64_t{64} << 20;

struct Start {
  char magic[8];
  uint32_t version;
  uint32_t reserved;  // 0
  uint64_t header_bytes;
  uint64_t page_bytes;
  uint64_t header_sum;
  uint64_t page_sum;
};
static_assert(sizeof(Start) == 48);

[[noreturn]] void damaged(const std::string& file, const std::string& what) {
  throw Error(Code::kInvalidPlan, fmt::format("context '{}': {}", file, what));
}

WireWriter header_of(const ContextShape& shape, const SavedContext& context) {
  WireWriter out;
  out.number<uint64_t>(shape.plan_fingerprint);
  out.string(shape.plan_name);
  out.number<uint64_t>(shape.layout_hash);
  out.number<uint64_t>(shape.numerics_hash);
  out.number<uint32_t>(static_cast<uint32_t>(context.ids.size()));
  for (const int32_t id : context.ids) out.number<int32_t>(id);
  out.number<int64_t>(context.computed);
  out.number<uint32_t>(static_cast<uint32_t>(context.pages.size()));
  for (const SavedContext::Pages& pages : context.pages) {
    out.number<int64_t>(pages.first_page);
    out.number<int64_t>(pages.num_pages);
  }
  return out;
}

void check_plan(WireReader& in, const std::string& file, const ContextShape& shape) {
  const auto fingerprint = in.number<uint64_t>("plan fingerprint");
  const std::string name = in.string("plan name");
  const auto layout = in.number<uint64_t>("layout hash");
  if (fingerprint == shape.plan_fingerprint && layout == shape.layout_hash) return;
  throw Error(
      Code::kInvalidArgument,
      fmt::format("context '{}' was saved with plan {} ('{}', KV layout {}); the loaded plan "
                  "is {} ('{}', KV layout {}). Load that plan, or begin anew from the text",
                  file, hex64(fingerprint), name, hex64(layout), hex64(shape.plan_fingerprint),
                  shape.plan_name, hex64(shape.layout_hash)));
}

// The sizes are those of a file of `file_bytes`.
Start read_start(std::span<const std::byte> bytes, uint64_t file_bytes, const std::string& file) {
  Start start{};
  if (bytes.size() < sizeof(start)) damaged(file, "it is shorter than a header");
  std::memcpy(&start, bytes.data(), sizeof(start));
  if (std::memcmp(start.magic, kContextMagic, sizeof(start.magic)) != 0) {
    damaged(file, "this is no saved context");
  }
  if (start.version != kContextVersion) {
    throw Error(Code::kUnsupported,
                fmt::format("context '{}' has format version {}; this Kvern reads {}", file,
                            start.version, kContextVersion));
  }
  const uint64_t rest = file_bytes - sizeof(start);
  if (start.reserved != 0 || start.header_bytes > rest ||
      start.page_bytes != rest - start.header_bytes) {
    damaged(file, fmt::format("its parts have {} and {} bytes, behind its header there are {}",
                              start.header_bytes, start.page_bytes, rest));
  }
  return start;
}

void read_ids(WireReader& in, const ContextShape& shape, SavedContext& context) {
  const uint32_t num_ids = in.count(sizeof(int32_t), "number of tokens");
  if (num_ids < 1 || num_ids > shape.max_context_length) {
    in.fail("number of tokens",
            fmt::format("{} tokens; 1 to {} are possible", num_ids, shape.max_context_length));
  }
  context.ids.reserve(num_ids);
  for (uint32_t i = 0; i < num_ids; ++i) {
    const auto id = in.number<int32_t>("token");
    if (id < 0 || id >= shape.vocabulary_size) {
      in.fail("token",
              fmt::format("id {} is outside the vocabulary [0, {})", id, shape.vocabulary_size));
    }
    context.ids.push_back(id);
  }
  context.computed = in.number<int64_t>("computed tokens");
  if (context.computed < 0 || context.computed > num_ids) {
    in.fail("computed tokens", fmt::format("{} of {} tokens", context.computed, num_ids));
  }
}

// The spans of the pages, which must fill `bytes`.
void read_pages(WireReader& in, const ContextShape& shape, std::span<const std::byte> bytes,
                SavedContext& context) {
  const uint32_t num_groups = in.count(16, "number of KV groups");
  context.pages = pages_of(shape, context.computed);
  if (num_groups != context.pages.size()) {
    in.fail("number of KV groups", fmt::format("{} of {}", num_groups, context.pages.size()));
  }
  for (size_t g = 0; g < context.pages.size(); ++g) {
    SavedContext::Pages& pages = context.pages[g];
    const auto first = in.number<int64_t>("first page");
    const auto count = in.number<int64_t>("number of pages");
    if (first != pages.first_page || count != pages.num_pages) {
      in.fail("pages", fmt::format("pages {} + {} of KV group {}; {} tokens have {} + {}", first,
                                   count, g, context.computed, pages.first_page, pages.num_pages));
    }
    const auto size =
        checked_mul(static_cast<uint64_t>(count), static_cast<uint64_t>(shape.page_bytes[g]));
    if (!size || *size > bytes.size()) in.fail("pages", "they are not all there");
    pages.bytes = bytes.first(static_cast<size_t>(*size));
    bytes = bytes.subspan(static_cast<size_t>(*size));
  }
  if (!bytes.empty()) in.fail("pages", fmt::format("{} bytes too many", bytes.size()));
}

}  // namespace

std::vector<SavedContext::Pages> pages_of(const ContextShape& shape, int64_t computed) {
  std::vector<SavedContext::Pages> out;
  for (const kv::GroupConfig& group : shape.groups) {
    const int64_t first = group.first_page_seen(computed);
    out.push_back({first, ceil_div(computed, group.page_tokens) - first, {}});
  }
  return out;
}

void write_saved_context(const std::string& path, const ContextShape& shape,
                         const SavedContext& context) {
  const WireWriter header = header_of(shape, context);
  const auto header_bytes = std::as_bytes(std::span(header.bytes()));
  Start start{};
  std::memcpy(start.magic, kContextMagic, sizeof(start.magic));
  start.version = kContextVersion;
  start.header_bytes = header_bytes.size();
  Hasher sum;
  for (const SavedContext::Pages& pages : context.pages) {
    sum.update(pages.bytes);
    start.page_bytes += pages.bytes.size();
  }
  start.header_sum = hash64(header_bytes);
  start.page_sum = sum.digest();
  AtomicFile out(path);
  out.write(&start, sizeof(start));
  out.write(header_bytes);
  for (const SavedContext::Pages& pages : context.pages) out.write(pages.bytes);
  out.commit();
}

std::vector<std::byte> read_saved_context(const std::string& path, const ContextShape& shape) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);  // fails for what is no file
  std::ifstream in;
  if (!error) in.open(path, std::ios::binary);
  if (error || !in) {
    const bool there = std::filesystem::exists(path, error);
    throw Error(there ? Code::kIo : Code::kNotFound,
                fmt::format("context '{}' {}", path, there ? "cannot be read" : "is not there"));
  }
  std::vector<std::byte> bytes;
  const auto read_to = [&](uint64_t end) {
    const size_t have = bytes.size();
    bytes.resize(static_cast<size_t>(end));
    in.read(reinterpret_cast<char*>(bytes.data() + have), static_cast<std::streamsize>(end - have));
    if (!in) damaged(path, "it ends while it is read");
  };
  read_to(std::min<uint64_t>(size, sizeof(Start)));
  const Start start = read_start(bytes, size, path);
  if (start.header_bytes > kMaxHeaderBytes) damaged(path, "its header is too long");
  read_to(sizeof(Start) + start.header_bytes);
  WireReader header(std::span<const std::byte>(bytes).subspan(sizeof(Start)),
                    fmt::format("context '{}'", path));
  check_plan(header, path, shape);
  uint64_t most = 0;
  const std::vector<SavedContext::Pages> all = pages_of(shape, shape.max_context_length);
  for (size_t g = 0; g < all.size(); ++g) {
    // One more: a window may begin anywhere in a page.
    most += static_cast<uint64_t>((all[g].num_pages + 1) * shape.page_bytes[g]);
  }
  if (start.page_bytes > most) {
    damaged(path, fmt::format("{} bytes of pages; {} are possible", start.page_bytes, most));
  }
  read_to(size);
  return bytes;
}

SavedContext parse_saved_context(std::span<const std::byte> bytes, const std::string& file,
                                 const ContextShape& shape, bool check_sums) {
  const Start start = read_start(bytes, bytes.size(), file);
  const std::span<const std::byte> rest = bytes.subspan(sizeof(start));
  const auto header = rest.first(static_cast<size_t>(start.header_bytes));
  const auto pages = rest.subspan(static_cast<size_t>(start.header_bytes));
  if (check_sums && hash64(header) != start.header_sum) damaged(file, "its header is damaged");
  WireReader in(header, fmt::format("context '{}'", file));
  check_plan(in, file, shape);
  SavedContext context;
  context.other_numerics = in.number<uint64_t>("numerics hash") != shape.numerics_hash;
  read_ids(in, shape, context);
  read_pages(in, shape, pages, context);
  in.expect_end();
  if (check_sums && hash64(pages) != start.page_sum) damaged(file, "its pages are damaged");
  if (context.other_numerics) {
    context.computed = 0;
    context.pages = pages_of(shape, 0);
  }
  return context;
}

}  // namespace kvern::engine
