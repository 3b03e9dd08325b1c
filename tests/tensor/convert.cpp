// Bulk conversions: bit-equal to the scalar ones of half.h at any length, and the conversion rules
// of to(dtype) for every pair of dtypes.
#include "../../tensor/cpu/convert.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "../support/catch.h"
#include "float_bits.h"

using namespace mezzo;
using cpu_kernels::convert;
using cpu_kernels::narrow;
using cpu_kernels::widen;
using float_bits::bits_of;
using float_bits::float_of;
using float_bits::kInf;
using float_bits::kNan;

namespace {

/** Converts a list repeated 23 times, so that vector bodies and tails both convert every value. */
template <class To, class From> std::vector<To> converted(const std::vector<From>& values) {
  std::vector<From> from;
  for (int copy = 0; copy < 23; ++copy) from.insert(from.end(), values.begin(), values.end());
  std::vector<To> to(from.size());
  convert(dtype_of<From>(), from.data(), dtype_of<To>(), to.data(),
          static_cast<std::int64_t>(from.size()));
  for (std::size_t i = values.size(); i < to.size(); ++i) {
    if (std::memcmp(&to[i], &to[i % values.size()], sizeof(To)) != 0)
      FAIL("place " << i << " differs");
  }
  to.resize(values.size());
  return to;
}

template <class T> std::vector<std::uint32_t> bit_patterns(const std::vector<T>& values) {
  std::vector<std::uint32_t> bits;
  for (const T& v : values) bits.push_back(v.bits);
  return bits;
}

}  // namespace

TEMPLATE_TEST_CASE("every 16-bit pattern widens and narrows in bulk as it does alone", "[convert]",
                   Half, BFloat16) {
  std::vector<TestType> all(65536);
  for (std::uint32_t bits = 0; bits < 65536; ++bits)
    all[bits] = TestType::from_bits(static_cast<std::uint16_t>(bits));
  for (const std::size_t offset : {0u, 1u, 13u}) {  // other vector lanes, and a tail
    const std::size_t n = all.size() - offset;
    std::vector<float> wide(n);
    std::vector<TestType> back(n);
    widen(all.data() + offset, wide.data(), static_cast<std::int64_t>(n));
    narrow(wide.data(), back.data(), static_cast<std::int64_t>(n));
    int wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const TestType t = all[i + offset];
      wrong += bits_of(wide[i]) != bits_of(static_cast<float>(t));
      wrong += back[i].bits != TestType(static_cast<float>(t)).bits;
    }
    CHECK(wrong == 0);
  }
}

TEMPLATE_TEST_CASE("floats of every magnitude narrow in bulk as they do alone", "[convert]", Half,
                   BFloat16) {
  std::vector<float> floats;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 4093)
    floats.push_back(float_of(static_cast<std::uint32_t>(bits)));
  for (std::uint32_t half = 0; half < 65536; ++half) {  // around each value and each midpoint
    for (const std::uint32_t low :
         {0u, 1u, 0x0FFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      floats.push_back(float_of((half << 16) + low));
    }
  }
  std::vector<TestType> bulk(floats.size());
  narrow(floats.data(), bulk.data(), static_cast<std::int64_t>(floats.size()));
  int wrong = 0;
  for (std::size_t i = 0; i < floats.size(); ++i) wrong += bulk[i].bits != TestType(floats[i]).bits;
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("floating to integer truncates, saturates and gives 0 for NaN", "[convert]",
                   float, double) {
  const std::vector<TestType> values{0,
                                     TestType(-0.0),
                                     TestType(0.9),
                                     TestType(-0.9),
                                     TestType(1.5),
                                     TestType(-1.5),
                                     255,
                                     256,
                                     -1,
                                     TestType(2147483520.0),
                                     TestType(2147483648.0),
                                     TestType(-2147483648.0),
                                     TestType(-3e9),
                                     TestType(9.3e18),
                                     TestType(-9.3e18),
                                     TestType(kInf),
                                     -TestType(kInf),
                                     TestType(kNan)};
  constexpr auto kMax32 = std::numeric_limits<std::int32_t>::max();
  constexpr auto kMin32 = std::numeric_limits<std::int32_t>::min();
  constexpr auto kMax64 = std::numeric_limits<std::int64_t>::max();
  constexpr auto kMin64 = std::numeric_limits<std::int64_t>::min();
  CHECK(converted<std::uint8_t>(values) == std::vector<std::uint8_t>{0, 0, 0, 0, 1, 0, 255, 255, 0,
                                                                     255, 255, 0, 0, 255, 0, 255, 0,
                                                                     0});
  CHECK(converted<std::int32_t>(values) ==
        std::vector<std::int32_t>{0, 0, 0, 0, 1, -1, 255, 256, -1, 2147483520, kMax32, kMin32,
                                  kMin32, kMax32, kMin32, kMax32, kMin32, 0});
  CHECK(converted<std::int64_t>(values) ==
        std::vector<std::int64_t>{0, 0, 0, 0, 1, -1, 255, 256, -1, 2147483520, 2147483648,
                                  -2147483648, -3000000000, kMax64, kMin64, kMax64, kMin64, 0});
  CHECK(converted<std::uint8_t, double>({254.999, 255.0, 255.999, -0.999}) ==
        std::vector<std::uint8_t>{254, 255, 255, 0});
  CHECK(converted<std::int32_t, double>({2147483647.0, 2147483647.9, -2147483648.9}) ==
        std::vector<std::int32_t>{kMax32, kMax32, kMin32});
}

TEST_CASE("a number converts to boolean as x != 0", "[convert]") {
  const std::vector<float> values{0.0f, -0.0f, 0.3f, -2.0f, 1e-45f, kNan, kInf};
  std::vector<std::uint8_t> flags(values.size());
  convert(f32, values.data(), boolean, flags.data(), static_cast<std::int64_t>(values.size()));
  CHECK(flags == std::vector<std::uint8_t>{0, 0, 1, 1, 1, 1, 1});
  const std::vector<std::int64_t> integers{0, 256, -1, std::int64_t{1} << 40};
  flags.resize(4);
  convert(i64, integers.data(), boolean, flags.data(), 4);
  CHECK(flags == std::vector<std::uint8_t>{0, 1, 1, 1});
  const std::vector<Half> halves{Half(0), Half(-0.0f), Half::from_bits(1), Half(kNan)};
  convert(f16, halves.data(), boolean, flags.data(), 4);
  CHECK(flags == std::vector<std::uint8_t>{0, 0, 1, 1});
}

TEST_CASE("booleans are 0 or 1 in every type, for any byte value", "[convert]") {
  const std::uint8_t bytes[] = {0, 1, 2, 255};
  float floats[4];
  convert(boolean, bytes, f32, floats, 4);
  CHECK(std::vector<float>(floats, floats + 4) == std::vector<float>{0, 1, 1, 1});
  std::int64_t integers[4];
  convert(boolean, bytes, i64, integers, 4);
  CHECK(std::vector<std::int64_t>(integers, integers + 4) == std::vector<std::int64_t>{0, 1, 1, 1});
  Half halves[4];
  convert(boolean, bytes, f16, halves, 4);
  CHECK(bit_patterns(std::vector<Half>(halves, halves + 4)) ==
        std::vector<std::uint32_t>{0, 0x3C00, 0x3C00, 0x3C00});
}

TEST_CASE("integers wrap between each other and round once to floats", "[convert]") {
  CHECK(converted<std::uint8_t, std::int64_t>({-1, 256, 300, 7}) ==
        std::vector<std::uint8_t>{255, 0, 44, 7});
  CHECK(converted<std::int32_t, std::int64_t>({std::int64_t{1} << 32, -1}) ==
        std::vector<std::int32_t>{0, -1});
  CHECK(converted<std::int64_t, std::uint8_t>({0, 200, 255}) ==
        std::vector<std::int64_t>{0, 200, 255});
  CHECK(converted<float, std::int64_t>({16777217, 16777219, -5}) ==
        std::vector<float>{16777216.0f, 16777220.0f, -5.0f});
  CHECK(converted<float, std::int32_t>({16777217, 2147483647}) ==
        std::vector<float>{16777216.0f, 2147483648.0f});
  CHECK(converted<double, std::int64_t>({(std::int64_t{1} << 53) + 1}) ==
        std::vector<double>{9007199254740992.0});
  CHECK(bit_patterns(converted<Half, std::uint8_t>({0, 1, 255})) ==
        std::vector<std::uint32_t>{0, 0x3C00, 0x5BF8});

  std::mt19937_64 random(5);
  std::vector<std::int64_t> wide{std::numeric_limits<std::int64_t>::min(),
                                 std::numeric_limits<std::int64_t>::max(), 65519, 65520};
  for (int i = 0; i < 5000; ++i)
    wide.push_back(static_cast<std::int64_t>(random()) >> (random() % 63));
  for (const std::int64_t shift : {8, 20, 55, 62}) {  // midpoints of bf16 and their neighbours
    const std::int64_t midpoint = (std::int64_t{1} << shift) + (std::int64_t{1} << (shift - 8));
    for (const std::int64_t step : {-1, 0, 1}) wide.push_back(midpoint + step);
  }
  const auto to_f16 = converted<Half>(wide);
  const auto to_bf16 = converted<BFloat16>(wide);
  int wrong = 0;
  for (std::size_t i = 0; i < wide.size(); ++i)
    wrong += to_f16[i].bits != Half(wide[i]).bits || to_bf16[i].bits != BFloat16(wide[i]).bits;
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("doubles round once to 16 bits", "[convert]", Half, BFloat16) {
  std::mt19937_64 random(6);
  std::vector<double> values{1 + 0x1p-11 + 0x1p-40,
                             1 + 0x1p-8 + 0x1p-40,
                             65519.99999999,
                             65520,
                             1e300,
                             -1e-300,
                             0.0,
                             -0.0,
                             kInf,
                             kNan};
  for (int i = 0; i < 20000; ++i)
    values.push_back(std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())),
                                static_cast<int>(random() % 300) - 220));
  std::vector<TestType> bulk(values.size());
  convert(f64, values.data(), dtype_of<TestType>(), bulk.data(),
          static_cast<std::int64_t>(values.size()));
  int wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) wrong += bulk[i].bits != TestType(values[i]).bits;
  CHECK(wrong == 0);
}

TEST_CASE("every pair of types agrees on values both can hold", "[convert]") {
  for (int from = 0; from < kNumDTypes; ++from) {
    for (int to = 0; to < kNumDTypes; ++to) {
      for (const std::int64_t n : {0, 1, 5, 1024, 2500}) {
        const auto size = static_cast<std::size_t>(n);
        std::vector<double> source(size), result(size, -1);
        for (std::size_t i = 0; i < size; ++i) source[i] = static_cast<double>(i * 7 % 2);
        std::vector<std::uint64_t> a(size + 1), b(size + 1, 0xEEEEEEEEEEEEEEEEu);
        const auto a_type = static_cast<DType>(from), b_type = static_cast<DType>(to);
        convert(f64, source.data(), a_type, a.data(), n);
        convert(a_type, a.data(), b_type, b.data(), n);
        convert(b_type, b.data(), f64, result.data(), n);
        CAPTURE(name(a_type), name(b_type), n);
        CHECK(result == source);
        CHECK(b[size] == 0xEEEEEEEEEEEEEEEEu);
      }
    }
  }
}
