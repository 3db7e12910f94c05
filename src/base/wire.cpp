#include "base/wire.h"

#include <fmt/format.h>

namespace kvern {
namespace {

// The tag says how a field's value is stored; values of FieldValue's alternatives in their order.
enum class Tag : uint8_t { kBool, kInt, kDouble, kString, kInts, kDoubles };

constexpr uint16_t kMaxFields = 64;

}  // namespace

void WireWriter::fields(const std::vector<NamedField>& fields) {
  number<uint16_t>(static_cast<uint16_t>(fields.size()));
  for (const NamedField& field : fields) {
    number<uint16_t>(static_cast<uint16_t>(field.number));
    number<uint8_t>(static_cast<uint8_t>(field.value.index()));
    switch (static_cast<Tag>(field.value.index())) {
      case Tag::kBool:
        number<uint8_t>(std::get<bool>(field.value) ? 1 : 0);
        break;
      case Tag::kInt:
        number(std::get<int64_t>(field.value));
        break;
      case Tag::kDouble:
        number(std::get<double>(field.value));
        break;
      case Tag::kString:
        string(std::get<std::string>(field.value));
        break;
      case Tag::kInts: {
        const auto& list = std::get<std::vector<int64_t>>(field.value);
        number<uint32_t>(static_cast<uint32_t>(list.size()));
        for (const int64_t item : list) number(item);
        break;
      }
      case Tag::kDoubles: {
        const auto& list = std::get<std::vector<double>>(field.value);
        number<uint32_t>(static_cast<uint32_t>(list.size()));
        for (const double item : list) number(item);
        break;
      }
    }
  }
}

void WireReader::fail(std::string_view name, std::string_view problem) const {
  throw Error(code_, fmt::format("{}: {} at byte {}: {}", what_, name, at_, problem));
}

const std::byte* WireReader::take(uint64_t size, std::string_view name) {
  if (size > remaining()) {
    fail(name, fmt::format("needs {} bytes, {} are left; the file is cut short or damaged", size,
                           remaining()));
  }
  const std::byte* data = bytes_.data() + at_;
  at_ += static_cast<size_t>(size);
  return data;
}

uint32_t WireReader::count(size_t min_item_bytes, std::string_view name, uint32_t max_count) {
  const uint32_t count = number<uint32_t>(name);
  if (count > max_count)
    fail(name, fmt::format("{} items; at most {} are known", count, max_count));
  if (count > remaining() / min_item_bytes) {
    fail(name, fmt::format("{} items cannot fit in the {} bytes left", count, remaining()));
  }
  return count;
}

std::string WireReader::string(std::string_view name) {
  const uint32_t size = number<uint32_t>(name);
  const std::byte* data = take(size, name);
  return std::string(reinterpret_cast<const char*>(data), size);
}

std::vector<NamedField> WireReader::fields(std::string_view name) {
  const uint16_t num_fields = number<uint16_t>(name);
  if (num_fields > kMaxFields) {
    fail(name, fmt::format("{} fields; at most {} are known", num_fields, kMaxFields));
  }
  std::vector<NamedField> out;
  for (uint16_t i = 0; i < num_fields; ++i) {
    NamedField field;
    field.number = number<uint16_t>(name);
    if (field.number == 0) fail(name, "field number 0");
    for (const NamedField& earlier : out) {
      if (earlier.number == field.number) {
        fail(name, fmt::format("field {} comes twice", field.number));
      }
    }
    const uint8_t tag = number<uint8_t>(name);
    switch (static_cast<Tag>(tag)) {
      case Tag::kBool: {
        const uint8_t value = number<uint8_t>(name);
        if (value > 1) fail(name, "a truth value that is neither 0 nor 1");
        field.value = value == 1;
        break;
      }
      case Tag::kInt:
        field.value = number<int64_t>(name);
        break;
      case Tag::kDouble:
        field.value = number<double>(name);
        break;
      case Tag::kString:
        field.value = string(name);
        break;
      case Tag::kInts: {
        std::vector<int64_t> list(count(sizeof(int64_t), name));
        for (int64_t& item : list) item = number<int64_t>(name);
        field.value = std::move(list);
        break;
      }
      case Tag::kDoubles: {
        std::vector<double> list(count(sizeof(double), name));
        for (double& item : list) item = number<double>(name);
        field.value = std::move(list);
        break;
      }
      default:
        fail(name, fmt::format("unknown value kind {}", tag));
    }
    out.push_back(std::move(field));
  }
  return out;
}

void WireReader::expect_end() {
  if (remaining() != 0) fail("end", fmt::format("{} bytes too many", remaining()));
}

}  // namespace kvern
