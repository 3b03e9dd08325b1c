// f16 and bf16 conversions against an independent reference: values by ldexp, rounding by search
// among all values.
#include "../../tensor/core/half.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "../support/catch.h"
#include "float_bits.h"

using float_bits::bits_of;
using float_bits::float_of;
using mezzo::BFloat16;
using mezzo::Half;

namespace {

struct Layout {
  int mantissa_bits;
  int exponent_bits;
};
template <class T> constexpr Layout kLayout = {};
template <> constexpr Layout kLayout<Half> = {10, 5};
template <> constexpr Layout kLayout<BFloat16> = {7, 8};

template <class T> bool is_nan_pattern(std::uint32_t bits) {
  const std::uint32_t infinity = ((1u << kLayout<T>.exponent_bits) - 1) << kLayout<T>.mantissa_bits;
  return (bits & 0x7FFF) > infinity;
}

/** Returns the value of a non-NaN pattern from the definition of the format. */
template <class T> double reference_value(std::uint32_t bits) {
  const auto [m, e] = kLayout<T>;
  const int bias = (1 << (e - 1)) - 1;
  const int exponent = static_cast<int>((bits & 0x7FFF) >> m);
  const double mantissa = bits & ((1u << m) - 1);
  double value = 0;
  if (exponent == (1 << e) - 1)
    value = std::numeric_limits<double>::infinity();
  else if (exponent == 0)
    value = std::ldexp(mantissa, 1 - bias - m);
  else
    value = std::ldexp(mantissa + (1 << m), exponent - bias - m);
  return bits & 0x8000 ? -value : value;
}

/** Rounds by search in the sorted finite values, plus the value that would follow the largest one
 *  in place of infinity. */
template <class T> class Reference {
 public:
  Reference() {
    std::uint32_t bits = 0;
    for (; std::isfinite(reference_value<T>(bits)); ++bits)
      values_.push_back(reference_value<T>(bits));
    const std::size_t n = values_.size();
    values_.push_back(2 * values_[n - 1] - values_[n - 2]);
  }

  std::uint16_t round(double x) const {
    const std::uint32_t sign = std::signbit(x) ? 0x8000 : 0;
    const double a = std::fabs(x);
    auto above = std::lower_bound(values_.begin(), values_.end(), a);
    if (above == values_.end()) --above;
    std::size_t index = static_cast<std::size_t>(above - values_.begin());
    if (index > 0 && a < values_[index]) {
      const double midpoint =
          (values_[index - 1] + values_[index]) / 2;  // exact: both have few bits
      if (a < midpoint || (a == midpoint && index % 2 == 1)) --index;
    }
    return static_cast<std::uint16_t>(sign | index);
  }

  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
};

template <class T> const Reference<T>& reference() {
  static const Reference<T> instance;
  return instance;
}

}  // namespace

TEMPLATE_TEST_CASE("every 16-bit pattern widens to its exact value and comes back", "[half]", Half,
                   BFloat16) {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto t = TestType::from_bits(static_cast<std::uint16_t>(bits));
    const float f = static_cast<float>(t);
    if (is_nan_pattern<TestType>(bits)) {
      wrong += !std::isnan(f) || !std::isnan(static_cast<double>(t));
      continue;
    }
    const double expected = reference_value<TestType>(bits);
    wrong += static_cast<double>(f) != expected || static_cast<double>(t) != expected;
    wrong += std::signbit(f) != (bits >= 0x8000);
    wrong += TestType(f).bits != bits || TestType(expected).bits != bits;
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("NaN stays a quiet NaN with its sign and payload", "[half]", Half, BFloat16) {
  constexpr int m = kLayout<TestType>.mantissa_bits;
  const std::uint32_t quiet_bit = 1u << (m - 1);
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    if (!is_nan_pattern<TestType>(bits)) continue;
    const std::uint32_t f =
        bits_of(static_cast<float>(TestType::from_bits(static_cast<std::uint16_t>(bits))));
    wrong += (f >> 31) != (bits >> 15);
    wrong += ((f >> (23 - m)) & (quiet_bit - 1)) != (bits & (quiet_bit - 1));
    wrong += TestType(float_of(f)).bits != (bits | quiet_bit);
    for (const std::uint32_t low :
         {0u, 1u, (1u << (23 - m)) - 1}) {  // dropped payload bits must not change the kept ones
      const std::uint32_t pattern =
          (bits & 0x8000) << 16 | 0x7F800000 | (bits & ((1u << m) - 1)) << (23 - m) | low;
      wrong += TestType(float_of(pattern)).bits != (bits | quiet_bit);
    }
  }
  CHECK(wrong == 0);
  // A NaN with only dropped payload bits set must not become infinity.
  CHECK(is_nan_pattern<TestType>(TestType(float_of(0x7F800001)).bits));
  CHECK(is_nan_pattern<TestType>(
      TestType(mezzo::detail::bits_as<double>(0xFFF0000000000001ull)).bits));
  CHECK(TestType(std::numeric_limits<double>::quiet_NaN()).bits ==
        TestType(std::numeric_limits<float>::quiet_NaN()).bits);
}

TEMPLATE_TEST_CASE("rounding is to nearest even at every midpoint and its neighbours", "[half]",
                   Half, BFloat16) {
  const auto& values = reference<TestType>().values();
  const double infinity = std::numeric_limits<double>::infinity();
  int wrong = 0;
  const auto check = [&](double x) {
    wrong += TestType(x).bits != reference<TestType>().round(x);
    wrong += TestType(-x).bits != reference<TestType>().round(-x);
    const float f = static_cast<float>(x);
    wrong += TestType(f).bits != reference<TestType>().round(static_cast<double>(f));
  };
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    const double midpoint = (values[i] + values[i + 1]) / 2;
    check(midpoint);
    check(std::nextafter(midpoint, 0.0));
    check(std::nextafter(midpoint, infinity));
    check(static_cast<double>(std::nextafter(static_cast<float>(midpoint), 0.0f)));
    check(static_cast<double>(
        std::nextafter(static_cast<float>(midpoint), std::numeric_limits<float>::infinity())));
    check(std::nextafter(values[i], infinity));
    check(std::nextafter(values[i], 0.0));
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("random bit patterns round as the reference does", "[half]", Half, BFloat16) {
  std::mt19937_64 random(20240607);
  int wrong = 0;
  for (int i = 0; i < 200000; ++i) {
    const float f = float_of(static_cast<std::uint32_t>(random()));
    if (!std::isnan(f))
      wrong += TestType(f).bits != reference<TestType>().round(static_cast<double>(f));
    const double d =
        std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 350) - 240);
    wrong += TestType(d).bits != reference<TestType>().round(d);
  }
  CHECK(wrong == 0);
}

TEST_CASE("f16 overflow starts at 65520", "[half]") {
  CHECK(Half(65504.0f).bits == 0x7BFF);
  CHECK(Half(std::nextafter(65520.0f, 0.0f)).bits == 0x7BFF);
  CHECK(Half(65520.0f).bits == 0x7C00);
  CHECK(Half(std::nextafter(65520.0, 0.0)).bits == 0x7BFF);
  CHECK(Half(-65520.0).bits == 0xFC00);
  CHECK(Half(std::numeric_limits<double>::max()).bits == 0x7C00);
  CHECK(BFloat16(std::numeric_limits<float>::max()).bits == 0x7F80);
  CHECK(BFloat16(std::numeric_limits<double>::max()).bits == 0x7F80);
  CHECK(BFloat16(1e300).bits == 0x7F80);
}

TEST_CASE("double to f16 and bf16 rounds once", "[half]") {
  // Slightly above the midpoint of 1 and the next value. A conversion through float would land on
  // the midpoint and round down to 1.
  CHECK(Half(1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40)).bits == 0x3C01);
  CHECK(BFloat16(1.0 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40)).bits == 0x3F81);
  CHECK(Half(std::ldexp(1.0, -25) + std::ldexp(1.0, -70)).bits == 1);
  CHECK(Half(std::ldexp(1.0, -25)).bits == 0);
  CHECK(Half(-std::numeric_limits<double>::denorm_min()).bits == 0x8000);
  CHECK(BFloat16(std::ldexp(1.0, -134)).bits == 0);
  CHECK(BFloat16(std::ldexp(1.5, -134)).bits == 1);
}

TEST_CASE("integers round once", "[half]") {
  CHECK(Half(0).bits == 0);
  CHECK(Half(true).bits == 0x3C00);
  CHECK(Half(-2).bits == 0xC000);
  CHECK(Half(2049).bits == Half(2048.0f).bits);
  CHECK(Half(65519).bits == 0x7BFF);
  CHECK(Half(65520).bits == 0x7C00);
  // 2^62 + 2^54 is the midpoint of two bf16 values. One more unit must round up, although a double
  // cannot represent that unit.
  const std::int64_t midpoint = (std::int64_t{1} << 62) + (std::int64_t{1} << 54);
  CHECK(BFloat16(midpoint).bits == 0x5E80);
  CHECK(BFloat16(midpoint + 1).bits == 0x5E81);
  CHECK(BFloat16(-midpoint - 1).bits == 0xDE81);
  CHECK(BFloat16(midpoint - 1).bits == 0x5E80);
  CHECK(BFloat16(std::numeric_limits<std::int64_t>::min()).bits == 0xDF00);
  CHECK(BFloat16(std::numeric_limits<std::uint64_t>::max()).bits == 0x5F80);
}

TEST_CASE("conversions are usable in constant expressions", "[half]") {
  static_assert(Half(1.0f).bits == 0x3C00);
  static_assert(BFloat16(1.0).bits == 0x3F80);
  static_assert(static_cast<float>(Half::from_bits(0x0001)) == 0x1p-24f);
  static_assert(static_cast<double>(BFloat16::from_bits(0x4049)) == 3.140625);
  static_assert(Half(1e-10f).bits == 0 && Half(100000).bits == 0x7C00);
  SUCCEED();
}
