#include "compile/import/onnx/external_data.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <onnx_messages.pb.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/checked.h"
#include "kvern/error.h"

namespace kvern::import::onnx {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 65536;

struct Fd {
  explicit Fd(int number) : number(number) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (number >= 0) ::close(number);
  }
  void reset(int other) {
    if (number >= 0) ::close(number);
    number = other;
  }
  int number;
};

// "a/./b" as {"a", "b"}; throws for what could lead out of the folder.
std::vector<std::string> parts_of(const std::string& location, const std::string& who) {
  const auto refuse = [&](const char* why) {
    fail(
        fmt::format("{} lies in external file '{}', {}; external data must lie in the folder of "
                    "the .onnx file. Save the model again with a plain file name",
                    who, shown(location), why));
  };
  if (location.empty()) refuse("which is no name");
  if (location.front() == '/') refuse("an absolute path");
  if (location.find('\0') != std::string::npos) refuse("whose name holds a zero byte");
  std::vector<std::string> out;
  for (size_t at = 0; at <= location.size();) {
    const size_t end = std::min(location.find('/', at), location.size());
    const std::string part = location.substr(at, end - at);
    at = end + 1;
    if (part == "..") refuse("a path that leads out of the folder");
    if (!part.empty() && part != ".") out.push_back(part);
  }
  if (out.empty()) refuse("which is no file");
  return out;
}

[[noreturn]] void missing(const std::string& who, const std::string& location,
                          const std::string& folder) {
  throw Error(Code::kNotFound,
              fmt::format("onnx: {} lies in external file '{}', which is not in '{}'; copy it "
                          "there beside the .onnx file",
                          who, shown(location), folder));
}

// The blobs of the hub cache that `folder` is in a snapshot of; empty elsewhere.
fs::path hub_blobs(const std::string& folder) {
  std::error_code failed;
  const fs::path root = fs::canonical(folder, failed);
  if (failed) return {};
  for (fs::path at = root; at.has_relative_path(); at = at.parent_path()) {
    if (at.parent_path().filename() == "snapshots") {
      return at.parent_path().parent_path() / "blobs";
    }
  }
  return {};
}

// The file that a link of a hub cache stands for; -1 where it is none or leads elsewhere.
int open_blob(const std::string& folder, const std::vector<std::string>& parts) {
  const fs::path blobs = hub_blobs(folder);
  if (blobs.empty()) return -1;
  fs::path path(folder);
  for (const std::string& part : parts) path /= part;
  std::error_code failed;
  const fs::path target = fs::canonical(path, failed);
  if (failed || target.parent_path() != blobs) return -1;
  return ::open(target.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

// Part by part without following a link, so that nothing can be swapped in between.
int open_inside(const std::string& folder, const std::string& location, const std::string& who) {
  const std::vector<std::string> parts = parts_of(location, who);
  Fd at(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (size_t i = 0; i < parts.size() && at.number >= 0; ++i) {
    const bool last = i + 1 == parts.size();
    const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (last ? O_NONBLOCK : O_DIRECTORY);
    const int next = ::openat(at.number, parts[i].c_str(), flags);
    if (next < 0) {
      struct stat info {};
      const bool link = ::fstatat(at.number, parts[i].c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                        S_ISLNK(info.st_mode);
      const int blob = link && last ? open_blob(folder, parts) : -1;
      if (blob >= 0) return blob;
      if (link) {
        fail(
            fmt::format("{} lies in external file '{}', where '{}' is a symbolic link; links are "
                        "refused, because they may lead anywhere. Copy the file itself there",
                        who, shown(location), shown(parts[i])));
      }
      if (errno == ENOENT || errno == ENOTDIR) missing(who, location, folder);
      throw Error(Code::kIo, fmt::format("onnx: {} lies in external file '{}': cannot open it: {}",
                                         who, shown(location), std::strerror(errno)));
    }
    at.reset(next);
  }
  if (at.number < 0) missing(who, location, folder);
  return std::exchange(at.number, -1);
}

uint64_t number_of(const std::string& key, const std::string& text, const std::string& who) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end || text.empty()) {
    fail(fmt::format("{}: {} of its external data is '{}'; a number of bytes from 0 on is wanted",
                     who, key, shown(text)));
  }
  return value;
}

}  // namespace

int32_t ExternalData::open(const std::string& location, const std::string& who) {
  const auto known = by_location_.find(location);
  if (known != by_location_.end()) return known->second;
  Fd file(open_inside(folder_, location, who));
  struct stat info {};
  if (::fstat(file.number, &info) != 0 || !S_ISREG(info.st_mode)) {
    fail(fmt::format("{} lies in external file '{}', which is no regular file", who,
                     shown(location)));
  }
  if (info.st_nlink != 1) {
    fail(
        fmt::format("{} lies in external file '{}', which has {} names (hard links); refused, "
                    "because another name may lie outside the folder. Copy the file",
                    who, shown(location), info.st_nlink));
  }
  const std::pair<uint64_t, uint64_t> inode(info.st_dev, info.st_ino);
  const auto [same, fresh] = by_inode_.emplace(inode, static_cast<int32_t>(files_.size()) + 1);
  if (fresh) {
    if (files_.size() >= kMaxFiles) {
      unsupported(fmt::format("the model has more than {} files of external data", kMaxFiles));
    }
    const std::string path = (fs::path(folder_) / location).string();
    files_.push_back(std::make_shared<MappedFile>(std::exchange(file.number, -1), path));
    budget_.allow(files_.back()->bytes().size());
  }
  by_location_.emplace(location, same->second);
  return same->second;
}

FileExtent ExternalData::find(const onnx_proto::TensorProto& tensor, uint64_t wanted_bytes) {
  const std::string who = fmt::format("tensor '{}'", shown(tensor.name()));
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") {
      location = entry.value();
    } else if (entry.key() == "offset") {
      offset = number_of("offset", entry.value(), who);
    } else if (entry.key() == "length") {
      length = number_of("length", entry.value(), who);
    } else if (entry.key() != "checksum" && warnings_.size() < 100) {
      warnings_.push_back(fmt::format("onnx: {}: unknown key '{}' of its external data is ignored",
                                      who, shown(entry.key())));
    }
  }
  if (folder_.empty()) {
    fail(fmt::format("{} lies in external file '{}', but the model was given without a folder", who,
                     shown(location)));
  }
  if (length && *length != wanted_bytes) {
    fail(fmt::format("{}: its external data has length {}, its dims and type take {} bytes", who,
                     *length, wanted_bytes));
  }
  const int32_t index = open(location, who);
  const auto& file = files_[static_cast<size_t>(index) - 1];
  if (!extent_inside(offset, wanted_bytes, file->bytes().size())) {
    fail(
        fmt::format("{} takes {} bytes at offset {} of external file '{}', which has {} bytes; "
                    "the file is cut short or belongs to another model",
                    who, wanted_bytes, offset, shown(location), file->bytes().size()));
  }
  return {file, index, offset, wanted_bytes};
}

}  // namespace kvern::import::onnx
