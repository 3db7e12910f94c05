#include "compile/import/hf/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>

#include "base/json_events.h"
#include "compile/import/hf/config.h"
#include "compile/import/hf/safetensors.h"

namespace kvern::import::hf {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr uint64_t kMaxTextBytes = 64 << 20;
constexpr size_t kMaxShards = 4096;

bool inside(const fs::path& path, const fs::path& folder) {
  const auto [end, at] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end() && at != path.end();
}

// The real path of `name`, which must lie inside the folder or inside the blobs of the hub cache
// that the folder is a snapshot of.
std::string contained(const std::string& folder, const std::string& name) {
  std::error_code failed;
  const fs::path root = fs::canonical(folder, failed);
  if (failed) fail(folder, "is no folder that can be read");
  const fs::path path = fs::canonical(root / name, failed);
  if (failed) {
    throw Error(Code::kNotFound, fmt::format("hf: {}: {} is missing; fetch the model again", folder,
                                             name.substr(0, 200)));
  }
  if (inside(path, root)) return path.string();
  const fs::path snapshots = root.parent_path();
  const fs::path given(name);
  const bool plain = given.filename() == given || given.parent_path() == kTemplateFolder;
  if (plain && snapshots.filename() == "snapshots" &&
      inside(path, snapshots.parent_path() / "blobs")) {
    return path.string();
  }
  fail(folder, fmt::format("{} leads out of the folder; a model's files must lie inside it",
                           name.substr(0, 200)));
}

bool exists(const std::string& folder, const char* name) {
  std::error_code ignored;
  return fs::exists(fs::path(folder) / name, ignored);
}

[[noreturn]] void no_weights(const std::string& folder) {
  for (const char* other : {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5"}) {
    if (exists(folder, other)) {
      unsupported(folder,
                  fmt::format("holds {} and no safetensors; save the model as safetensors", other));
    }
  }
  throw Error(Code::kNotFound,
              fmt::format("hf: {}: neither {} nor {} is there", folder, kSingle, kIndex));
}

void add_file(const std::string& folder, const std::string& name, WeightFiles& to) {
  const auto file_index = static_cast<int32_t>(to.files.size());
  to.files.push_back(std::make_shared<MappedFile>(contained(folder, name)));
  to.names.push_back(name);
  SafetensorsFile read = read_safetensors(to.files.back()->bytes(), name, file_index);
  std::ranges::move(read.tensors, std::back_inserter(to.tensors));
  std::ranges::move(read.foreign, std::back_inserter(to.foreign));
  std::ranges::move(read.foreign_types, std::back_inserter(to.foreign_types));
}

// weight_map of an index, whatever else it holds.
class WeightMap : public JsonEvents {
 public:
  explicit WeightMap(const std::string& file) : file_(file) {}

  void null() override { other(); }
  void boolean(bool) override { other(); }
  void integer(int64_t) override { other(); }
  void unsigned_integer(uint64_t) override { other(); }
  void real(double) override { other(); }
  void string(std::string value) override {
    if (!inside() || value.empty()) return other();
    if (!files.emplace(key_, std::move(value)).second) {
      fail(file_, fmt::format("tensor '{}' is named twice", key_.substr(0, 120)));
    }
  }
  void key(std::string name) override { key_ = std::move(name); }
  void begin_object() override {
    if (inside()) other();
    if (++depth_ == 2 && key_ == "weight_map") seen = in_map_ = true;
  }
  void end_object() override { end(); }
  void begin_array() override {
    if (inside()) other();
    ++depth_;
  }
  void end_array() override { end(); }

  std::map<std::string, std::string> files;  // by tensor
  bool seen = false;

 private:
  bool inside() const { return in_map_ && depth_ == 2; }
  void end() {
    if (--depth_ < 2) in_map_ = false;
  }
  void other() const {
    if (inside()) fail(file_, fmt::format("tensor '{}' is in no file", key_.substr(0, 120)));
  }

  const std::string& file_;
  std::string key_;
  size_t depth_ = 0;
  bool in_map_ = false;
};

// Every tensor once, and each where the index says it is.
void check_index(const std::map<std::string, std::string>& index, const WeightFiles& found) {
  std::unordered_map<std::string_view, int32_t> where;
  for (const auto* list : {&found.tensors, &found.foreign}) {
    for (const ir::WeightSource& tensor : *list) {
      if (where.emplace(tensor.name, tensor.file).second) continue;
      fail(kIndex, fmt::format("tensor '{}' is in two files", tensor.name.substr(0, 120)));
    }
  }
  for (const auto& [name, file] : index) {
    const auto at = where.find(name);
    if (at == where.end() || found.names[static_cast<size_t>(at->second)] != file) {
      fail(kIndex, fmt::format("tensor '{}' is not in '{}'; the files do not belong together",
                               name.substr(0, 120), file.substr(0, 120)));
    }
  }
}

}  // namespace

std::map<std::string, std::string> read_index(std::string_view text, const std::string& file) {
  WeightMap map(file);
  parse_json_events(text, fmt::format("hf: {}", file), Code::kInvalidModel, map);
  if (!map.seen) fail(file, "has no weight_map from tensors to files");
  return std::move(map.files);
}

WeightFiles open_weights(const std::string& folder) {
  WeightFiles out;
  if (exists(folder, kSingle)) {
    add_file(folder, kSingle, out);
    return out;
  }
  if (!exists(folder, kIndex)) no_weights(folder);
  const auto index = read_index(read_optional(folder, kIndex), kIndex);
  if (index.empty()) fail(kIndex, "names no tensor");
  std::set<std::string> shards;
  for (const auto& [name, file] : index) shards.insert(file);
  if (shards.size() > kMaxShards) {
    fail(kIndex, fmt::format("names {} files; {} at most", shards.size(), kMaxShards));
  }
  for (const std::string& shard : shards) add_file(folder, shard, out);
  check_index(index, out);
  return out;
}

std::string file_of(const std::string& folder, const std::string& name) {
  contained(folder, name);
  return (fs::path(folder) / name).string();
}

std::string read_optional(const std::string& folder, const std::string& name) {
  if (!exists(folder, name.c_str())) return "";
  return read_text_file(file_of(folder, name), kMaxTextBytes);
}

}  // namespace kvern::import::hf
