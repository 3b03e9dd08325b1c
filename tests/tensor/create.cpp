// Memory use and rounding of arange and similar functions.
#include <mezzo.h>

#include <limits>

#include "../support/catch.h"
#include "../support/throws.h"

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

TEST_CASE("integers make i64 tensors, bools bool, others f32", "[create]") {
  CHECK(tensor({1, 2}).dtype() == i64);
  CHECK(tensor({1., 2}).dtype() == f32);
  CHECK(tensor(5).dtype() == i64);
  CHECK(tensor(5.0).dtype() == f32);
  CHECK(tensor({true, false}).dtype() == boolean);
  CHECK(tensor(true).dtype() == boolean);
  CHECK(tensor({{1, 2}}).dtype() == i64);
  CHECK(tensor(std::vector<std::int64_t>{1, 2}).dtype() == i64);
  CHECK(tensor(std::vector<std::size_t>{1, 2}, {2, 1}).dtype() == i64);
  CHECK(tensor(std::vector<std::uint8_t>{255}).item<int>() == 255);
  CHECK(tensor(std::vector<bool>{true}).dtype() == boolean);
  CHECK(tensor(std::vector<float>{1}).dtype() == f32);
  CHECK(tensor({1, 2}, {.dtype = f32}).dtype() == f32);
  CHECK(tensor({1, 2}, {.pin_memory = false}).dtype() == i64);
  CHECK(arange(3).dtype() == i64);
  CHECK(arange(std::size_t{3}).dtype() == i64);
  CHECK(arange(3.0).dtype() == f32);
  CHECK(arange(0, 3, 0.5).dtype() == f32);
  CHECK(arange(1, 3).dtype() == i64);
  CHECK(arange(1, 7, 2).dtype() == i64);
  const Tensor halves = arange(1, 3, {.dtype = f16});
  CHECK(halves.dtype() == f16);
  CHECK(halves.to_vector<double>() == std::vector<double>{1, 2});
  CHECK(arange(1.5, 4.0, {.dtype = f64}).to_vector<double>() == std::vector<double>{1.5, 2.5, 3.5});
  CHECK(arange(1, 3, {.dtype = i32}).dtype() == i32);
  CHECK(randint(0, 3, {2}, {.pin_memory = false}).dtype() == i64);
  CHECK(zeros({1}).dtype() == f32);
  CHECK(full({1}, 2).dtype() == f32);
  CHECK_THROWS_AS(tensor(std::vector<std::uint64_t>{std::uint64_t{1} << 63}), ValueError);
  CHECK_THROWS_AS(tensor({1, 2}, {.requires_grad = true}), DtypeError);
  const nn::Embedding table(4, 2);
  CHECK(table(tensor(std::vector<std::int64_t>{3, 0})).shape() == Shape{2, 2});
}

TEST_CASE("item and to_vector give every integer type", "[create]") {
  const Tensor x = tensor({65, 3});
  CHECK(x[0].item<std::size_t>() == 65);
  CHECK(x[0].item<unsigned long long>() == 65);
  CHECK(x[0].item<long long>() == 65);
  CHECK(x[0].item<long>() == 65);
  CHECK(x[0].item<char>() == 'A');
  CHECK(x[0].item<signed char>() == 65);
  CHECK(x[1].item<unsigned>() == 3);
  CHECK(x[1].item<short>() == 3);
  CHECK(x.to_vector<unsigned short>() == std::vector<unsigned short>{65, 3});
  CHECK(x.to_vector<std::size_t>() == std::vector<std::size_t>{65, 3});
  CHECK(x.to(f16).to_vector<long long>() == std::vector<long long>{65, 3});
  CHECK(tensor(300.5).item<std::uint8_t>() == 255);
}

TEST_CASE("item and to_vector refuse integers that the C++ type does not hold", "[create]") {
  CHECK_THROWS_WITH_AS_TEXT(
      tensor(-1).item<std::size_t>(), ValueError,
      "item: the C++ type does not hold this integer; got -1 in i64[]@cpu, expected "
      "0..18446744073709551615; use std::int64_t");
  CHECK_THROWS_WITH_AS_TEXT(tensor(300).item<signed char>(), ValueError, "expected -128..127");
  CHECK_THROWS_AS(tensor(std::int64_t{1} << 31).item<int>(), ValueError);
  CHECK_THROWS_WITH_AS_TEXT(tensor({1, -1}).to_vector<unsigned>(), ValueError, "to_vector: ");
  CHECK(tensor(-128).item<signed char>() == -128);
  CHECK(tensor(std::numeric_limits<std::int64_t>::min()).item<long long>() ==
        std::numeric_limits<long long>::min());
  CHECK(tensor(-2).item<bool>());
  CHECK(tensor(-1).item<float>() == -1);
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
