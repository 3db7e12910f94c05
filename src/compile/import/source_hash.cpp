#include "compile/import/source_hash.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace kvern::import {

std::string hash_tensors(const std::vector<ir::WeightSource>& tensors,
                         std::span<const std::span<const std::byte>> files,
                         const std::function<void(uint64_t, uint64_t)>& progress) {
  constexpr uint64_t kChunkBytes = 8 << 20;
  uint64_t total = 0;
  for (const ir::WeightSource& tensor : tensors) total += tensor.bytes;
  uint64_t done = 0;
  Hasher hasher;
  for (const ir::WeightSource& tensor : tensors) {
    const std::string head = fmt::format("{}\n{}\n{}\n", tensor.name, static_cast<int>(tensor.type),
                                         to_string(tensor.shape));
    hasher.update(std::as_bytes(std::span(head)));
    const std::span<const std::byte> file = files[static_cast<size_t>(tensor.file)];
    for (uint64_t at = 0; at < tensor.bytes; at += kChunkBytes) {
      const uint64_t length = std::min(kChunkBytes, tensor.bytes - at);
      hasher.update(file.subspan(tensor.offset + at, length));
      done += length;
      if (progress) progress(done, total);
    }
  }
  return hex64(hasher.digest());
}

}  // namespace kvern::import
