#include "text/detokenizer.h"

#include "text/unicode.h"

namespace kvern::text {

std::string StreamDetokenizer::push(int32_t id) {
  tokenizer_->decode_next(id, skip_special_, progress_, held_);
  size_t at = 0;
  while (at < held_.size()) {
    const Utf8Prefix prefix = utf8_prefix(std::string_view(held_).substr(at));
    if (prefix.state == Utf8Start::kUnfinished) break;
    at += prefix.length_bytes;
  }
  std::string out = held_.substr(0, at);
  held_.erase(0, at);
  return out;
}

std::string StreamDetokenizer::finish() {
  std::string out;
  out.swap(held_);
  progress_ = start_;
  return out;
}

}  // namespace kvern::text
