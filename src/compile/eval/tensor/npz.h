// .npz files: arrays by name, as numpy.savez and savez_compressed write them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compile/ir/array.h"

namespace kvern::eval {

// Every array of the file, unpacked where it is `wanted` (empty: all are); the others are empty
// Arrays, so that a small archive cannot ask for the memory of many. At most 4 GiB together. Throws
// Error(kNotFound | kIo), Error(kInvalidModel) naming file and entry for what is damaged,
// Error(kUnsupported) for element types that are no numbers (bfloat16 and the like have no npy
// type) and for big-endian ones.
std::map<std::string, ir::Array> read_npz(
    const std::string& path, const std::function<bool(const std::string&)>& wanted = {});
// One .npy file in memory; `who` is for messages.
ir::Array parse_npy(std::span<const std::byte> bytes, const std::string& who);

// Writes stored (not compressed) entries through a temporary file. Arrays of bfloat16, float8 and
// float4 are written as float32, of which each holds every value, and 4-bit integers as 8-bit ones;
// the result says which. Throws Error(kIo), Error(kUnsupported) beyond 4 GiB in all.
std::vector<std::string> write_npz(const std::string& path,
                                   const std::map<std::string, ir::Array>& arrays);

}  // namespace kvern::eval
