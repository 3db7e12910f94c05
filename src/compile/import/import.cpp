#include "compile/import/import.h"

#include <fmt/format.h>

#include <filesystem>

#include "compile/import/gguf/import.h"
#include "compile/import/gguf/reader.h"
#include "compile/import/hf/import.h"
#include "compile/import/onnx/import_onnx.h"
#include "compile/import/onnx/reader.h"
#include "kvern/error.h"
#include "kvern/types.h"

namespace kvern::import {
namespace {

// Other formats by their first bytes, so that the message names what the file is.
const char* other_format(std::span<const std::byte> bytes) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min<size_t>(bytes.size(), 16));
  if (head.starts_with("tjgg") || head.starts_with("lmgg") || head.starts_with("fmgg")) {
    return "a GGML file older than GGUF; convert the model again";
  }
  if (head.starts_with("KVERNPLN")) return "a plan: it is built already, give it to `kvern run`";
  if (head.starts_with("{")) {
    return "a JSON file; give the folder of a config.json, or synthetic:FILE for its shapes alone";
  }
  if (head.starts_with("PK\x03\x04")) return "a zip archive or a PyTorch checkpoint";
  if (head.size() > 8 && head[8] == '{') return "a safetensors file; give the folder it lies in";
  return nullptr;
}

// Parts that know nothing of files (the tokenizer, the graph's schemas) leave the file's name to
// us.
template <class Import>
auto import_named(const std::string& path, Import import) -> decltype(import()) {
  try {
    return import();
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (message.find(path) != std::string_view::npos) throw;
    throw Error(error.code(), fmt::format("model '{}': {}", path, message));
  }
}

bool has_safetensors(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / "model.safetensors", ignored) ||
         std::filesystem::exists(folder / "model.safetensors.index.json", ignored);
}

// Empty where there is none, and where nobody knows which one is meant.
std::string onnx_beside(const std::string& folder) {
  try {
    return onnx::find_onnx(folder);
  } catch (const Error&) {
    return "";
  }
}

// Safetensors first: their graph is ours, with nothing to be recognised and proved.
ImportedModel load_folder(const std::string& path, const LoadOptions& options) {
  if (has_safetensors(path)) {
    ImportedModel model = import_named(path, [&] { return hf::import_folder(path, options); });
    const std::string other = onnx_beside(path);
    if (!other.empty()) {
      model.warnings.push_back(fmt::format(
          "the folder's safetensors are read; to import its ONNX file, give '{}'", other));
    }
    return model;
  }
  const std::string file = import_named(path, [&] { return onnx::find_onnx(path); });
  if (file.empty()) return import_named(path, [&] { return hf::import_folder(path, options); });
  return import_named(file, [&] { return onnx::import_onnx(file, options); });
}

}  // namespace

ImportedModel load(const std::string& path, const LoadOptions& options) {
  if (path.starts_with(kSyntheticPrefix)) {
    const std::string config = path.substr(kSyntheticPrefix.size());
    return import_named(config, [&] { return hf::import_synthetic(config, options.seed); });
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return load_folder(path, options);
  }
  auto file = std::make_shared<MappedFile>(path);
  if (onnx::looks_like_onnx(file->bytes())) {
    file.reset();
    return import_named(path, [&] { return onnx::import_onnx(path, options); });
  }
  if (!gguf::looks_like_gguf(file->bytes())) {
    const char* found = other_format(file->bytes());
    throw Error(
        Code::kInvalidModel,
        fmt::format("model '{}' is neither a GGUF nor an ONNX file ({}); give a GGUF file of "
                    "version 2 or 3, an ONNX file, or a Hugging Face folder",
                    path, found != nullptr ? found : "its first bytes are not known"));
  }
  ImportedModel model =
      import_named(path, [&] { return gguf::import_bytes(file->bytes(), path, options); });
  model.files.push_back(std::move(file));
  return model;
}

}  // namespace kvern::import
