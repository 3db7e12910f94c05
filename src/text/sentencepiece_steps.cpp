#include "text/sentencepiece_steps.h"

#include <algorithm>
#include <cstdint>

#include "text/chars_map.h"

namespace kvern::text {
namespace {

constexpr const char* kMark = "\u2581";
constexpr int32_t kAllSpaces = INT32_MAX;

}  // namespace

void set_sentencepiece_steps(const SentencePieceOptions& options, TextModel& model) {
  if (!options.chars_map.empty()) {
    model.normalizers.push_back({.kind = StepKind::kCharsMap,
                                 .text = options.chars_map,
                                 .left = static_cast<int32_t>(CharsMapMode::kLongestPrefix)});
  }
  if (options.remove_extra_spaces) model.normalizers.push_back({.kind = StepKind::kSqueezeSpaces});
  if (options.add_space_prefix) {
    model.normalizers.push_back(
        {.kind = StepKind::kPrepend,
         .text = " ",
         .left = static_cast<int32_t>(options.prefix_at_start_only ? PrependMode::kStart
                                                                   : PrependMode::kPieces)});
  }
  model.normalizers.push_back({.kind = StepKind::kReplace, .text = " ", .with = kMark});
  model.decoders.push_back({.kind = StepKind::kReplace, .text = kMark, .with = " "});
  model.decoders.push_back({.kind = StepKind::kByteFallback});
  model.decoders.push_back({.kind = StepKind::kFuse});
  if (options.add_space_prefix || options.remove_extra_spaces) {
    model.decoders.push_back({.kind = StepKind::kStripText,
                              .text = " ",
                              .left = options.remove_extra_spaces ? kAllSpaces : 1});
  }
  model.byte_fallback =
      std::ranges::find(model.token_types, TokenType::kByte) != model.token_types.end();
  model.use_unk = model.unk_id.has_value();
  model.fuse_unk = true;
}

}  // namespace kvern::text
