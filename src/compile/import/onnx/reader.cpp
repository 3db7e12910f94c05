#include "compile/import/onnx/reader.h"

#include <fmt/format.h>
#include <onnx_messages.pb.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "compile/import/onnx/graph_builder.h"
#include "compile/import/onnx/refuse.h"
#include "compile/import/onnx/skeleton.h"
#include "compile/import/onnx/wire.h"
#include "kvern/error.h"

namespace kvern::import::onnx {
namespace {

namespace fs = std::filesystem;

// Release 1.23 of the standard. Newer files are tried, with a warning.
constexpr int64_t kNewestIrVersion = 13;
constexpr int64_t kNewestOpset = 28;
// Large numbers in the first bytes are no version of anything.
constexpr uint64_t kPlausibleIrVersion = 1000;
constexpr size_t kMaxMetadataBytes = 1 << 20;

template <class Message>
Message parse(std::span<const std::byte> bytes, RootMessage root, const std::string& name) {
  const std::string skeleton = make_skeleton(bytes, root, name);
  Message out;
  if (!out.ParseFromArray(skeleton.data(), static_cast<int>(skeleton.size()))) {
    fail(fmt::format("file '{}' is damaged: its messages do not parse", name));
  }
  return out;
}

void warn_of_versions(const OnnxModel& read, std::vector<std::string>& warnings) {
  if (read.model.ir_version > kNewestIrVersion) {
    warnings.push_back(fmt::format("onnx: IR version {} is newer than {}, the newest known; trying",
                                   read.model.ir_version, kNewestIrVersion));
  }
  const auto opset = read.model.opsets.find("");
  if (opset != read.model.opsets.end() && opset->second > kNewestOpset) {
    warnings.push_back(
        fmt::format("onnx: opset {} is newer than {}, the newest known; operators "
                    "whose meaning it changed would give other results",
                    opset->second, kNewestOpset));
  }
}

void read_metadata(const onnx_proto::ModelProto& proto, ir::TensorModel& model) {
  size_t bytes = 0;
  for (const auto& entry : proto.metadata_props()) {
    bytes += entry.key().size() + entry.value().size();
    if (bytes > kMaxMetadataBytes) return;
    model.metadata.emplace(entry.key(), entry.value());
  }
}

// `folder`: of external data; empty for none.
OnnxModel read_from(const SourceFile& file, const std::string& name, const std::string& folder) {
  if (file.bytes.empty()) fail(fmt::format("file '{}' is empty", name));
  const auto proto = parse<onnx_proto::ModelProto>(file.bytes, RootMessage::kModel, name);
  if (!proto.has_graph()) {
    fail(fmt::format("file '{}' holds no graph; it is no ONNX model, or damaged", name));
  }
  OnnxModel out;
  out.model.ir_version = proto.ir_version();
  out.model.producer = shown(proto.producer_name());
  if (!proto.producer_version().empty()) {
    out.model.producer += fmt::format(" {}", shown(proto.producer_version()));
  }
  read_metadata(proto, out.model);
  Budget budget(file.bytes.size());
  ExternalData external(folder, budget, out.warnings);
  TensorReader tensors(file, external, budget);
  ModelContext context(proto, tensors, out.warnings);
  out.model.opsets = context.opsets;
  warn_of_versions(out, out.warnings);
  GraphBuilder(context, out.model.graph, nullptr, context.opsets, nullptr)
      .read_graph(proto.graph());
  ir::verify(out.model.graph);
  out.files = external.files();
  return out;
}

// Keeps a copy, so that the arrays may outlive the caller's bytes.
SourceFile copied(std::span<const std::byte> bytes) {
  auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  return {*copy, copy};
}

std::vector<std::string> onnx_files(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code ignored;
    if (at->path().extension() == ".onnx" && !fs::is_directory(at->path(), ignored)) {
      out.push_back(at->path().filename().string());
    }
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace

bool looks_like_onnx(std::span<const std::byte> bytes) {
  // Files begin with ir_version, field 1, in every writer that is known.
  if (bytes.size() < 2 || bytes[0] != std::byte{0x08}) return false;
  const std::string no_name;
  WireCursor cursor(bytes, 0, no_name);
  WireField field;
  try {
    if (!cursor.next(field) || field.varint == 0 || field.varint > kPlausibleIrVersion) {
      return false;
    }
    if (!cursor.next(field)) return false;
  } catch (const Error&) {
    return true;  // the next field is cut short: for the reader to tell
  }
  constexpr uint32_t kModelFields[] = {2, 3, 4, 5, 6, 7, 8, 14, 20, 25, 26};
  return std::ranges::find(kModelFields, field.number) != std::end(kModelFields);
}

OnnxModel read_onnx(const std::string& path) {
  auto file = std::make_shared<MappedFile>(path);
  const fs::path parent = fs::path(path).parent_path();
  OnnxModel out = read_from({file->bytes(), file}, path, parent.empty() ? "." : parent.string());
  out.files.insert(out.files.begin(), std::move(file));
  return out;
}

OnnxModel read_onnx_bytes(std::span<const std::byte> bytes, const std::string& name) {
  return read_from(copied(bytes), name, "");
}

std::pair<std::string, ir::Array> read_tensor_bytes(std::span<const std::byte> bytes,
                                                    const std::string& name) {
  const SourceFile file = copied(bytes);
  const auto proto = parse<onnx_proto::TensorProto>(file.bytes, RootMessage::kTensor, name);
  Budget budget(bytes.size());
  std::vector<std::string> warnings;
  ExternalData external("", budget, warnings);
  return {proto.name(), TensorReader(file, external, budget).read(proto, name)};
}

std::string find_onnx(const std::string& folder) {
  for (const char* sub : {"", "onnx"}) {
    const fs::path where = fs::path(folder) / sub;
    const std::vector<std::string> names = onnx_files(where);
    if (names.empty()) continue;
    for (const char* usual : {"model.onnx", "decoder_model_merged.onnx"}) {
      if (std::ranges::find(names, usual) != names.end()) return (where / usual).string();
    }
    if (names.size() == 1) return (where / names[0]).string();
    const auto has = [&](const char* name) {
      return std::ranges::find(names, name) != names.end();
    };
    if (has("decoder_model.onnx") && has("decoder_with_past_model.onnx")) {
      fail(
          fmt::format("folder '{}' holds a decoder in two files: give '{}', which takes prompts of "
                      "any length (Kvern keeps the cache itself); decoder_with_past_model.onnx "
                      "only goes on from a cache",
                      where.string(), (where / "decoder_model.onnx").string()));
    }
    std::string listed;
    for (size_t i = 0; i < std::min<size_t>(names.size(), 8); ++i) {
      listed += (i == 0 ? "" : ", ") + shown(names[i]);
    }
    fail(
        fmt::format("folder '{}' holds {} .onnx files and none is called model.onnx or "
                    "decoder_model_merged.onnx: {}{}; give the one that is meant",
                    where.string(), names.size(), listed, names.size() > 8 ? ", …" : ""));
  }
  return "";
}

}  // namespace kvern::import::onnx
