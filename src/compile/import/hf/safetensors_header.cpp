#include "compile/import/hf/safetensors_header.h"

#include <fmt/format.h>

#include "base/json_events.h"
#include "compile/import/hf/config.h"

namespace kvern::import::hf {
namespace {

class HeaderReader : public JsonEvents {
 public:
  HeaderReader(std::vector<HeaderEntry>& out, const std::string& file) : out_(out), file_(file) {}

  void null() override {
    if (place_ == Place::kTop) fail_key("has no description");
    other_value();
  }
  void boolean(bool) override { other_value(); }
  void real(double) override { other_value(); }
  void unsigned_integer(uint64_t) override { other_value(); }
  void integer(int64_t value) override {
    if (place_ != Place::kList) return other_value();
    if (list_->size() <= kMaxHeaderList) list_->push_back(value);
  }
  void string(std::string value) override {
    if (place_ == Place::kEntry && key_ == "dtype") {
      out_.back().dtype = std::move(value);
    } else {
      other_value();
    }
  }
  void key(std::string name) override {
    if (place_ != Place::kMetadata) key_ = std::move(name);
  }

  void begin_object() override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kMetadata || (place_ == Place::kTop && key_ == "__metadata__")) {
      place_ = Place::kMetadata;
      ++metadata_depth_;
    } else if (place_ == Place::kTop) {
      if (key_.empty()) fail_key("has no description");
      out_.emplace_back().name = key_;
      place_ = Place::kEntry;
    } else {
      other_value();
    }
  }
  void end_object() override {
    if (place_ == Place::kMetadata && --metadata_depth_ > 0) return;
    place_ = Place::kTop;
  }
  void begin_array() override {
    if (place_ == Place::kMetadata) {
      ++metadata_depth_;
      return;
    }
    if (place_ != Place::kEntry || (key_ != "shape" && key_ != "data_offsets")) {
      return other_value();
    }
    list_ = &(key_ == "shape" ? out_.back().shape : out_.back().data_offsets).emplace();
    place_ = Place::kList;
  }
  void end_array() override {
    if (place_ == Place::kList) place_ = Place::kEntry;
    if (place_ == Place::kMetadata) --metadata_depth_;
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kEntry, kList };

  [[noreturn]] void fail_key(const char* problem) const {
    fail(file_, fmt::format("tensor '{}' {}", key_.substr(0, 120), problem));
  }

  // A value that does not belong where it stands.
  void other_value() const {
    if (place_ == Place::kMetadata) return;
    if (place_ == Place::kStart) {
      fail(file_, "is no JSON object; it is damaged, fetch it again");
    }
    if (place_ == Place::kTop) {
      fail(file_, fmt::format("field '{}' is no object", key_.substr(0, 120)));
    }
    const char* wanted = key_ == "dtype" ? "is no string"
                         : key_ == "shape" || key_ == "data_offsets"
                             ? "is no list of integers"
                             : "is not one that safetensors defines";
    fail(file_, fmt::format("field '{}.{}' {}", out_.back().name.substr(0, 120),
                            key_.substr(0, 120), wanted));
  }

  std::vector<HeaderEntry>& out_;
  const std::string& file_;
  Place place_ = Place::kStart;
  size_t metadata_depth_ = 0;
  std::string key_;
  std::vector<int64_t>* list_ = nullptr;
};

}  // namespace

std::vector<HeaderEntry> read_safetensors_header(std::string_view text, const std::string& file) {
  std::vector<HeaderEntry> out;
  HeaderReader reader(out, file);
  parse_json_events(text, fmt::format("hf: {}", file), Code::kInvalidModel, reader);
  return out;
}

}  // namespace kvern::import::hf
