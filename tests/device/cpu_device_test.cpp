#include "device/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kvern/error.h"

namespace kvern::device {
namespace {

TEST(CpuDevice, BuffersAreAlignedAndWritableToTheLastByte) {
  const auto device = create_cpu_device(1);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4097}, size_t{3} << 20}) {
    Buffer buffer = device->allocate(size);
    EXPECT_EQ(buffer.size_bytes(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    if (size > 0) std::memset(buffer.data(), 0x5a, size);
  }
}

TEST(CpuDevice, RefusesMemoryThatCannotExist) {
  const auto device = create_cpu_device(1);
  EXPECT_THROW(device->allocate(~size_t{0}), Error);
  EXPECT_THROW(device->allocate(size_t{1} << 60), Error);
}

TEST(CpuDevice, ScratchGrowsAndStaysAligned) {
  ThreadPool pool(1);
  CpuStream stream(pool);
  for (const size_t size : {size_t{10}, size_t{5000}, size_t{100}, size_t{9} << 20}) {
    std::byte* scratch = stream.scratch(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch) % 64, 0u);
    std::memset(scratch, 1, size);
  }
}

TEST(CpuDevice, StreamCopiesAndZeroes) {
  const auto device = create_cpu_device(2);
  const auto stream = device->create_stream();
  char from[8] = "seven..";
  char to[8] = {};
  stream->copy(to, from, sizeof(from));
  EXPECT_STREQ(to, "seven..");
  stream->fill_zero(to, 3);
  EXPECT_EQ(to[2], 0);
  EXPECT_EQ(to[3], 'e');
  EXPECT_FALSE(device->record_begin(*stream, 1));
  EXPECT_FALSE(device->replay(*stream, 1));
}

TEST(CpuDevice, CountsThreads) {
  EXPECT_THROW(create_cpu_device(-1), Error);
  const auto device = create_cpu_device(3);
  const auto stream = device->create_stream();
  EXPECT_EQ(static_cast<CpuStream&>(*stream).pool().num_threads(), 3);
  EXPECT_GE(num_usable_cores(), 1);
}

TEST(CpuDevice, WiderFeaturesImplyNarrowerOnes) {
  const CpuFeatures& f = cpu_features();
  EXPECT_TRUE(f.avx512 || !(f.avx512_bf16 || f.avx512_vnni || f.avx512_vbmi));
  EXPECT_TRUE(f.avx2_fma || !f.avx512);
}

}  // namespace
}  // namespace kvern::device
