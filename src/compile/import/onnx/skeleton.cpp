#include "compile/import/onnx/skeleton.h"

#include <fmt/format.h>

#include <utility>

#include "compile/import/onnx/refuse.h"
#include "compile/import/onnx/wire.h"

namespace kvern::import::onnx {
namespace {

constexpr int kMaxDepth = 64;  // protobuf itself gives up at 100
constexpr size_t kMaxSkeletonBytes = 256 << 20;
// What protobuf makes of two bytes of the file.
constexpr uint64_t kMessageBytes = 256;
constexpr uint64_t kStringBytes = 48;
constexpr uint32_t kPayloadField = 1001;

enum Kind : uint8_t {
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kSparse,
  kFunction,
  kValueInfo,
  kType,
  kTensorType,
  kShape,
  kDim,
  kOpset,
  kEntry,
  kSegment,
  kNumKinds,
};
constexpr const char* kNames[kNumKinds] = {
    "ModelProto",   "GraphProto", "NodeProto",      "AttributeProto",    "TensorProto",
    "SparseTensor", "Function",   "ValueInfoProto", "TypeProto",         "TypeProto.Tensor",
    "TensorShape",  "Dimension",  "OperatorSetId",  "StringStringEntry", "Segment",
};

enum class Form : uint8_t {
  kNumber,   // varint
  kNumbers,  // varints, packed or not
  kFloat,    // four bytes
  kFloats,   // the same, packed or not
  kString,
  kMessage,
  kPayload,  // elements: packed, or one by one
};

struct Rule {
  uint32_t number;
  Form form;
  Kind child = kNumKinds;
};

constexpr Rule kModelRules[] = {{1, Form::kNumber},
                                {2, Form::kString},
                                {3, Form::kString},
                                {7, Form::kMessage, kGraph},
                                {8, Form::kMessage, kOpset},
                                {14, Form::kMessage, kEntry},
                                {25, Form::kMessage, kFunction}};
constexpr Rule kGraphRules[] = {{1, Form::kMessage, kNode},       {2, Form::kString},
                                {5, Form::kMessage, kTensor},     {11, Form::kMessage, kValueInfo},
                                {12, Form::kMessage, kValueInfo}, {15, Form::kMessage, kSparse}};
constexpr Rule kNodeRules[] = {{1, Form::kString},
                               {2, Form::kString},
                               {3, Form::kString},
                               {4, Form::kString},
                               {7, Form::kString},
                               {8, Form::kString},
                               {5, Form::kMessage, kAttribute}};
constexpr Rule kAttributeRules[] = {{1, Form::kString},           {2, Form::kFloat},
                                    {3, Form::kNumber},           {4, Form::kString},
                                    {5, Form::kMessage, kTensor}, {6, Form::kMessage, kGraph},
                                    {7, Form::kFloats},           {8, Form::kNumbers},
                                    {9, Form::kString},           {20, Form::kNumber},
                                    {21, Form::kString}};
constexpr Rule kTensorRules[] = {
    {1, Form::kNumbers},  {2, Form::kNumber},           {3, Form::kMessage, kSegment},
    {4, Form::kPayload},  {5, Form::kPayload},          {7, Form::kPayload},
    {8, Form::kString},   {9, Form::kPayload},          {10, Form::kPayload},
    {11, Form::kPayload}, {13, Form::kMessage, kEntry}, {14, Form::kNumber}};
constexpr Rule kSparseRules[] = {{1, Form::kMessage, kTensor}};
constexpr Rule kFunctionRules[] = {{1, Form::kString},         {4, Form::kString},
                                   {5, Form::kString},         {6, Form::kString},
                                   {7, Form::kMessage, kNode}, {9, Form::kMessage, kOpset},
                                   {10, Form::kString},        {11, Form::kMessage, kAttribute},
                                   {13, Form::kString}};
constexpr Rule kValueInfoRules[] = {{1, Form::kString}, {2, Form::kMessage, kType}};
constexpr Rule kTypeRules[] = {{1, Form::kMessage, kTensorType}};
constexpr Rule kTensorTypeRules[] = {{1, Form::kNumber}, {2, Form::kMessage, kShape}};
constexpr Rule kShapeRules[] = {{1, Form::kMessage, kDim}};
constexpr Rule kDimRules[] = {{1, Form::kNumber}, {2, Form::kString}};
constexpr Rule kOpsetRules[] = {{1, Form::kString}, {2, Form::kNumber}};
constexpr Rule kEntryRules[] = {{1, Form::kString}, {2, Form::kString}};
constexpr Rule kSegmentRules[] = {{1, Form::kNumber}, {2, Form::kNumber}};

constexpr std::span<const Rule> kRules[kNumKinds] = {
    kModelRules,  kGraphRules,    kNodeRules,      kAttributeRules, kTensorRules,
    kSparseRules, kFunctionRules, kValueInfoRules, kTypeRules,      kTensorTypeRules,
    kShapeRules,  kDimRules,      kOpsetRules,     kEntryRules,     kSegmentRules,
};

const Rule* find_rule(Kind kind, uint32_t number) {
  for (const Rule& rule : kRules[kind]) {
    if (rule.number == number) return &rule;
  }
  return nullptr;
}

bool fits(Form form, WireType type) {
  switch (form) {
    case Form::kNumber:
      return type == WireType::kVarint;
    case Form::kNumbers:
      return type == WireType::kVarint || type == WireType::kLength;
    case Form::kFloat:
      return type == WireType::kFixed32;
    case Form::kFloats:
      return type == WireType::kFixed32 || type == WireType::kLength;
    case Form::kString:
    case Form::kMessage:
      return type == WireType::kLength;
    case Form::kPayload:
      return true;  // protobuf leaves out what does not fit; the count of elements then tells
  }
  return false;
}

class Writer {
 public:
  Writer(const std::string& file, uint64_t file_bytes) : file_(file), budget_(file_bytes) {}

  void message(std::span<const std::byte> bytes, uint64_t offset, Kind kind, int depth) {
    if (depth > kMaxDepth) {
      fail(
          fmt::format("file '{}': messages are nested more than {} deep ({} at byte {}); graphs "
                      "inside graphs go no deeper than {}",
                      file_, kMaxDepth, kNames[kind], offset, kMaxDepth / 3));
    }
    WireCursor cursor(bytes, offset, file_);
    WireField field;
    while (cursor.next(field)) {
      const Rule* rule = find_rule(kind, field.number);
      if (rule == nullptr) continue;
      if (!fits(rule->form, field.type)) {
        fail(fmt::format("file '{}': byte {}: field {} of {} has wire type {}", file_, field.offset,
                         field.number, kNames[kind], static_cast<int>(field.type)));
      }
      write(*rule, field, depth);
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void write(const Rule& rule, const WireField& field, int depth) {
    if (field.type == WireType::kLength) {
      budget_.charge(rule.form == Form::kMessage ? kMessageBytes : kStringBytes);
    }
    if (rule.form == Form::kPayload && field.type == WireType::kLength) return payload(field);
    append_varint(out_, uint64_t{field.number} << 3 | static_cast<uint64_t>(field.type));
    if (rule.form == Form::kMessage) {
      const size_t at = begin_length();
      message(field.bytes, field.offset, rule.child, depth + 1);
      end_length(at);
      return;
    }
    if (out_.size() + field.bytes.size() > kMaxSkeletonBytes) {
      unsupported(
          fmt::format("file '{}': the graph itself (without weights) takes more than {} MiB", file_,
                      kMaxSkeletonBytes >> 20));
    }
    if (field.type == WireType::kVarint) return append_varint(out_, field.varint);
    if (field.type == WireType::kLength) append_varint(out_, field.bytes.size());
    out_.append(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
  }

  void payload(const WireField& field) {
    append_varint(out_, uint64_t{kPayloadField} << 3 | 2);
    const size_t at = begin_length();
    for (const auto& [number, value] : {std::pair<uint64_t, uint64_t>{1, field.number},
                                        {2, field.offset},
                                        {3, field.bytes.size()}}) {
      append_varint(out_, number << 3);
      append_varint(out_, value);
    }
    end_length(at);
  }

  // The length of a message is known once it is written: five bytes are kept for it.
  size_t begin_length() {
    out_.append(5, '\0');
    return out_.size();
  }
  void end_length(size_t at) {
    const size_t length = out_.size() - at;
    for (size_t i = 0; i < 5; ++i) {
      out_[at - 5 + i] = static_cast<char>((length >> (7 * i) & 0x7f) | (i < 4 ? 0x80 : 0));
    }
  }

  const std::string& file_;
  std::string out_;
  Budget budget_;  // of the parsed messages
};

}  // namespace

std::string make_skeleton(std::span<const std::byte> bytes, RootMessage root,
                          const std::string& file) {
  Writer writer(file, bytes.size());
  writer.message(bytes, 0, root == RootMessage::kModel ? kModel : kTensor, 1);
  return writer.take();
}

}  // namespace kvern::import::onnx
