// Memory use and rounding of arange and similar functions.
#include <mezzo.h>

#include <limits>

#include "../support/catch.h"

using namespace mezzo;

namespace {

/** Returns the peak number of bytes that a call allocates besides its result. */
template <class F> std::int64_t extra_bytes(F&& make) {
  empty_cache();
  reset_peak_memory();
  const std::int64_t before = memory_stats().total.current;
  const Tensor x = make();
  const auto own = static_cast<std::int64_t>(x.impl()->storage->bytes());
  return memory_stats().total.peak - before - own;
}

constexpr std::int64_t kLongest = std::numeric_limits<std::int64_t>::max();

}  // namespace

TEST_CASE("arange needs little memory besides its result", "[create]") {
  CHECK(extra_bytes([] { return arange(0, 1e6, 1, {.dtype = f16}); }) <= 65536);
  CHECK(extra_bytes([] { return linspace(0, 1, 1000000); }) <= 65536);
  CHECK(extra_bytes([] { return randperm(1000000); }) <= 65536);
}

TEST_CASE("arange rounds once, in every block", "[create]") {
  for (const DType dtype : {f64, f32, f16, bf16, i64, i32, u8, boolean}) {
    std::vector<double> values;
    for (int i = 0; i < 10000; ++i) values.push_back(-3.7 + i * 0.013);
    const Tensor x = arange(-3.7, -3.7 + 0.013 * 9999.5, 0.013, {.dtype = dtype});
    CHECK(equal(x, tensor(values, {.dtype = dtype})));
  }
  CHECK(linspace(-1, 1, 10001)[10000].item<double>() == 1);
}

TEST_CASE("arange beyond the memory throws OutOfMemory", "[create]") {
  CHECK_THROWS_AS(arange(0, 1e17), OutOfMemory);
  CHECK_THROWS_AS(arange(0, 1e19), SizeError);
  CHECK_THROWS_AS(arange(0, 1e300), SizeError);
  CHECK_THROWS_AS(linspace(0, 1, std::int64_t{1} << 56), OutOfMemory);
  CHECK_THROWS_AS(linspace(0, 1, kLongest), SizeError);
  CHECK_THROWS_AS(randperm(std::int64_t{1} << 56), OutOfMemory);
  CHECK_THROWS_AS(randperm(kLongest), SizeError);
  const Tensor theta = zeros({1, 2, 3});
  CHECK_THROWS_AS(affine_grid(theta, {1, 1, 1, std::int64_t{1} << 56}), OutOfMemory);
  CHECK_THROWS_AS(affine_grid(theta, {1, 1, std::int64_t{1} << 40, std::int64_t{1} << 40}),
                  SizeError);
#ifndef __SANITIZE_ADDRESS__  // it ends the program instead of throwing std::bad_alloc
  const Tensor huge = zeros({1}).expand({std::int64_t{1} << 58});
  CHECK_THROWS_AS(huge.unbind(), OutOfMemory);
  CHECK_THROWS_AS(huge.split(1), OutOfMemory);
#endif
}
