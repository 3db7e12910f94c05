#include "text/jinja_json.h"

#include <fmt/format.h>

#include <unordered_map>

#include "base/json_events.h"
#include "kvern/error.h"

namespace kvern::text::jinja {
namespace {

constexpr size_t kMaxDepth = 100;

class ValueBuilder final : public JsonEvents {
 public:
  ValueBuilder(Context& context, std::string_view what) : context_(context), what_(what) {}

  void null() override { add(Value(None{})); }
  void boolean(bool value) override { add(Value(value)); }
  void integer(int64_t value) override { add(Value(value)); }
  void unsigned_integer(uint64_t value) override {
    throw Error(Code::kInvalidRequest,
                fmt::format("{}: the number {} is larger than templates can hold; send it as a "
                            "string",
                            what_, value));
  }
  void real(double value) override { add(Value(value)); }
  void string(std::string value) override { add(Value::text(context_, std::move(value))); }
  void begin_object() override { open(false); }
  void begin_array() override { open(true); }
  void key(std::string name) override {
    Frame& frame = frames_.back();
    const auto [place, is_new] = frame.places.try_emplace(name, frame.entries.size());
    frame.at = place->second;
    if (is_new) frame.entries.emplace_back(Value::text(context_, std::move(name)), Value());
  }
  void end_object() override {
    Entries entries = std::move(frames_.back().entries);
    frames_.pop_back();
    add(Value::dict(context_, std::move(entries)));
  }
  void end_array() override {
    std::vector<Value> items = std::move(frames_.back().items);
    frames_.pop_back();
    add(Value::list(context_, std::move(items)));
  }

  Value take() { return std::move(result_); }

 private:
  struct Frame {
    bool is_array;
    std::vector<Value> items;
    Entries entries;
    std::unordered_map<std::string, size_t> places;  // of keys in entries
    size_t at = 0;
  };

  void open(bool is_array) {
    if (frames_.size() == kMaxDepth) {
      throw Error(Code::kInvalidRequest,
                  fmt::format("{}: JSON nested deeper than {}", what_, kMaxDepth));
    }
    frames_.push_back({is_array, {}, {}, {}});
  }

  void add(Value value) {
    if (frames_.empty()) {
      result_ = std::move(value);
    } else if (frames_.back().is_array) {
      frames_.back().items.push_back(std::move(value));
    } else {
      frames_.back().entries[frames_.back().at].second = std::move(value);
    }
  }

  Context& context_;
  std::string_view what_;
  std::vector<Frame> frames_;
  Value result_;
};

}  // namespace

Value value_from_json(Context& context, std::string_view text, std::string_view what) {
  ValueBuilder builder(context, what);
  parse_json_events(text, what, Code::kInvalidRequest, builder);
  return builder.take();
}

}  // namespace kvern::text::jinja
