#include "plan/kv_layout.h"

#include <fmt/format.h>

#include "base/checked.h"
#include "base/hash.h"
#include "base/wire.h"
#include "kvern/error.h"

namespace kvern::plan {
namespace {

constexpr int64_t kRangeAlignment = 128;
// Bounds that no model comes near; with them every product below fits in 62 bits.
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxDim = 65536;
constexpr int64_t kMaxPageTokens = 4096;
constexpr int64_t kMaxSlots = 4096;

void check_range(const char* what, int64_t value, int64_t max) {
  if (value >= 1 && value <= max) return;
  throw Error(Code::kInvalidPlan,
              fmt::format("KV layout: {} is {}; 1 to {} are possible", what, value, max));
}

void check_format(const KvFormat& format) {
  const DType s = format.storage;
  const bool known = s == DType::kF32 || s == DType::kF16 || s == DType::kBf16 || s == DType::kI8 ||
                     s == DType::kF8E4M3;
  if (!known) {
    throw Error(Code::kInvalidPlan,
                fmt::format("KV layout: K or V cannot be stored as type {}", static_cast<int>(s)));
  }
  check_range("the scale group", format.group, kMaxDim);
}

void check_slot(const KvSlot& slot) {
  check_range("kv_heads", slot.kv_heads, kMaxHeads);
  check_range("dim_k", slot.dim_k, kMaxDim);
  check_range("dim_v", slot.dim_v, kMaxDim);
  check_format(slot.k_format);
  check_format(slot.v_format);
  if (slot.retention == Retention::kWindow) check_range("the window", slot.window_tokens, 1 << 30);
  if (slot.layers.empty()) throw Error(Code::kInvalidPlan, "KV layout: a slot serves no layer");
}

struct HalfPlace {
  int64_t offset, head_bytes, token_bytes, scale_offset, scale_token_bytes;
};

// Places [head]{codes [token][dim], scales [token][groups]} at `offset`, which moves behind it.
HalfPlace place_half(const KvFormat& format, int64_t heads, int64_t dim, int64_t page_tokens,
                     int64_t& offset) {
  HalfPlace place{};
  place.offset = offset;
  place.token_bytes = dtype_bytes(format.storage, dim);
  place.scale_offset = place.token_bytes * page_tokens;
  place.scale_token_bytes = format.groups(dim) * static_cast<int64_t>(sizeof(uint16_t));
  place.head_bytes =
      align_up(place.scale_offset + place.scale_token_bytes * page_tokens, kRangeAlignment);
  offset += place.head_bytes * heads;
  return place;
}

int32_t find_or_add_group(std::vector<KvGroup>& groups, const KvSlot& slot, int32_t page_tokens) {
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].retention == slot.retention && groups[i].window_tokens == slot.window_tokens) {
      return static_cast<int32_t>(i);
    }
  }
  groups.push_back({slot.retention, slot.window_tokens, page_tokens, 0, {}});
  return static_cast<int32_t>(groups.size() - 1);
}

}  // namespace

KvLayout KvLayout::make(std::vector<KvSlot> slots, int32_t page_tokens) {
  check_range("the page length", page_tokens, kMaxPageTokens);
  if (static_cast<int64_t>(slots.size()) > kMaxSlots) {
    throw Error(Code::kInvalidPlan, fmt::format("KV layout: {} slots; at most {} are possible",
                                                slots.size(), kMaxSlots));
  }
  KvLayout layout;
  layout.slots_ = std::move(slots);
  for (size_t i = 0; i < layout.slots_.size(); ++i) {
    const KvSlot& slot = layout.slots_[i];
    check_slot(slot);
    const int32_t group_index = find_or_add_group(layout.groups_, slot, page_tokens);
    KvGroup& group = layout.groups_[static_cast<size_t>(group_index)];
    const HalfPlace k =
        place_half(slot.k_format, slot.kv_heads, slot.dim_k, page_tokens, group.page_bytes);
    const HalfPlace v =
        place_half(slot.v_format, slot.kv_heads, slot.dim_v, page_tokens, group.page_bytes);
    group.slots.push_back(static_cast<int32_t>(i));
    layout.placements_.push_back({group_index, k.offset, k.head_bytes, k.token_bytes,
                                  k.scale_offset, k.scale_token_bytes, v.offset, v.head_bytes,
                                  v.token_bytes, v.scale_offset, v.scale_token_bytes});
  }
  return layout;
}

int64_t KvLayout::bytes_per_token() const {
  int64_t sum = 0;
  for (const KvGroup& group : groups_) sum += ceil_div(group.page_bytes, group.page_tokens);
  return sum;
}

int32_t KvLayout::page_tokens() const {
  return groups_.empty() ? 1 : groups_[0].page_tokens;
}

uint64_t KvLayout::hash() const {
  WireWriter wire;
  write_kv_layout(wire, *this);
  return hash64(std::as_bytes(std::span(wire.bytes())));
}

void write_kv_layout(WireWriter& out, const KvLayout& layout) {
  out.number<int32_t>(layout.page_tokens());
  out.number<uint32_t>(static_cast<uint32_t>(layout.slots().size()));
  for (const KvSlot& slot : layout.slots()) {
    out.number<uint32_t>(static_cast<uint32_t>(slot.layers.size()));
    for (const int64_t layer : slot.layers) out.number<int64_t>(layer);
    out.number<int32_t>(slot.kv_heads);
    out.number<int32_t>(slot.dim_k);
    out.number<int32_t>(slot.dim_v);
    out.object(slot.k_format);
    out.object(slot.v_format);
    out.number<uint8_t>(static_cast<uint8_t>(slot.retention));
    out.number<int32_t>(slot.window_tokens);
    out.string(slot.position_scheme);
  }
}

KvLayout read_kv_layout(WireReader& in) {
  const auto page_tokens = in.number<int32_t>("page length");
  const uint32_t num_slots = in.count(/*min_item_bytes=*/32, "number of slots", kMaxSlots);
  std::vector<KvSlot> slots;
  for (uint32_t i = 0; i < num_slots; ++i) {
    KvSlot& slot = slots.emplace_back();
    slot.layers.resize(in.count(sizeof(int64_t), "layers of a slot"));
    for (int64_t& layer : slot.layers) layer = in.number<int64_t>("layer");
    slot.kv_heads = in.number<int32_t>("kv_heads");
    slot.dim_k = in.number<int32_t>("dim_k");
    slot.dim_v = in.number<int32_t>("dim_v");
    slot.k_format = in.object<KvFormat>("k_format");
    slot.v_format = in.object<KvFormat>("v_format");
    const auto retention = in.number<uint8_t>("retention");
    if (retention > static_cast<uint8_t>(Retention::kWindow)) {
      in.fail("retention", fmt::format("unknown kind {}", retention));
    }
    slot.retention = static_cast<Retention>(retention);
    slot.window_tokens = in.number<int32_t>("window");
    slot.position_scheme = in.string("position scheme");
  }
  return KvLayout::make(std::move(slots), page_tokens);
}

}  // namespace kvern::plan
