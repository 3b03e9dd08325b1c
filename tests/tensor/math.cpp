// The scalar functions: error against the double oracle over all magnitudes, IEEE special cases,
// and bits that do not depend on an element's position in a loop.
#include "../../tensor/math/math.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "../support/catch.h"
#include "float_bits.h"

namespace math = mezzo::math;

using float_bits::bits_of;
using float_bits::float_of;
using float_bits::kInf;
using float_bits::kNan;

namespace {

struct Function {
  const char* name;
  float (*own)(float);
  double (*oracle)(double);
  double max_ulp;
};

double sigmoid_oracle(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
double rsqrt_oracle(double x) { return 1 / std::sqrt(x); }

const Function kFunctions[] = {
    {"acos", math::acos, std::acos, 1.5},      {"asin", math::asin, std::asin, 2.0},
    {"atan", math::atan, std::atan, 2.0},      {"cosh", math::cosh, std::cosh, 2.0},
    {"sinh", math::sinh, std::sinh, 2.0},      {"tan", math::tan, std::tan, 2.0},
    {"cos", math::cos, std::cos, 1.5},         {"erf", math::erf, std::erf, 1.4},
    {"erfc", math::erfc, std::erfc, 0.55},     {"exp", math::exp, std::exp, 1.0},
    {"exp2", math::exp2, std::exp2, 1.2},      {"expm1", math::expm1, std::expm1, 1.7},
    {"log", math::log, std::log, 0.8},         {"log10", math::log10, std::log10, 0.51},
    {"log1p", math::log1p, std::log1p, 1.4},   {"log2", math::log2, std::log2, 0.51},
    {"rsqrt", math::rsqrt, rsqrt_oracle, 1.5}, {"sigmoid", math::sigmoid, sigmoid_oracle, 2.0},
    {"sin", math::sin, std::sin, 1.5},         {"sqrt", math::sqrt, std::sqrt, 0.5001},
    {"tanh", math::tanh, std::tanh, 1.4},      {"erfinv", math::erfinv, math::erfinv, 3.5},
    {"acosh", math::acosh, std::acosh, 2.5},   {"asinh", math::asinh, std::asinh, 2.0},
    {"atanh", math::atanh, std::atanh, 2.5},
};

/** Returns the distance of `got` from `exact` in float ULPs; infinite where NaN, infinity or the
 *  sign of zero are wrong. */
double ulp_distance(float got, double exact) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  const auto rounded = static_cast<float>(exact);
  if (std::isnan(exact)) return std::isnan(got) ? 0 : kWrong;
  if (std::isnan(got) || std::signbit(got) != std::signbit(rounded)) return kWrong;
  if (std::isinf(got) || std::isinf(rounded)) return got == rounded ? 0 : kWrong;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::fabs(static_cast<double>(got) - exact) /
         std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct Worst {
  double ulp = 0;
  float at = 0;

  void see(const Function& f, float x) {
    const double distance = ulp_distance(f.own(x), f.oracle(static_cast<double>(x)));
    if (distance > ulp) *this = {distance, x};
  }
};

}  // namespace

TEST_CASE("own float functions stay within their error bounds", "[math]") {
  for (const Function& f : kFunctions) {
    Worst worst;
    for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 19937)
      worst.see(f, float_of(static_cast<std::uint32_t>(bits)));
    for (int i = -100000; i <= 100000; ++i)
      worst.see(f, static_cast<float>(i) * 1.1e-4f);  // the range that networks use
    CAPTURE(f.name, worst.at);
    CHECK(worst.ulp <= f.max_ulp);
  }
}

TEST_CASE("own float functions follow IEEE at the special points", "[math]") {
  const std::vector<float> points = {
      0.0f,     -0.0f,           1.0f,       -1.0f,       kInf,      -kInf,     kNan,    1e-45f,
      -1e-45f,  1.17549435e-38f, 3.4028e38f, -3.4028e38f, 88.72283f, 88.72284f, -87.33f, -103.97f,
      -103.98f, 127.9999f,       128.0f,     -126.0f,     -149.0f,   -150.0f,   -150.1f, 10.06f,
      -10.06f,  1e-20f,          -1e-20f,    0.5f,        -0.5f,     2.0f};
  for (const Function& f : kFunctions) {
    Worst worst;
    for (const float x : points) worst.see(f, x);
    CAPTURE(f.name, worst.at);
    CHECK(worst.ulp <= f.max_ulp);
  }
}

TEST_CASE("functions keep relative precision near zero", "[math]") {
  for (const float x : {1e-3f, -1e-3f, 1e-7f, 3e-8f, -1e-12f, 1e-38f, 1e-42f, -1e-45f}) {
    CAPTURE(x);
    const auto wide = static_cast<double>(x);
    CHECK(ulp_distance(math::tanh(x), std::tanh(wide)) <= 1);
    CHECK(ulp_distance(math::erf(x), std::erf(wide)) <= 1);
    CHECK(ulp_distance(math::expm1(x), std::expm1(wide)) <= 1);
    CHECK(ulp_distance(math::log1p(x), std::log1p(wide)) <= 1);
    CHECK(ulp_distance(math::sin(x), std::sin(wide)) <= 1);
  }
  CHECK(math::sigmoid(-100.0f) > 0.0f);  // a subnormal, not zero
  CHECK(math::erfc(10.0f) > 0.0f);
}

TEST_CASE("exp2, log2 and log10 are exact where the result is representable", "[math]") {
  for (int n = -149; n <= 127; ++n) {
    const float power = std::ldexp(1.0f, n);
    CHECK(math::exp2(static_cast<float>(n)) == power);
    CHECK(math::log2(power) == static_cast<float>(n));
  }
  float power = 1.0f;
  for (int n = 0; n <= 10; ++n, power *= 10.0f) CHECK(math::log10(power) == static_cast<float>(n));
}

TEST_CASE("sin and cos reduce huge arguments exactly", "[math]") {
  // sin(1e22) and cos(1e22) are classic test values; the nearest float is 9.999999778e21. The
  // double oracle also reduces exactly.
  Worst worst;
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    const float x = float_of((random() & 0x807FFFFFu) | ((140u + random() % 115u) << 23));
    worst.see({"cos", math::cos, std::cos, 0}, x);
    worst.see({"sin", math::sin, std::sin, 0}, x);
  }
  CAPTURE(worst.at);
  CHECK(worst.ulp <= 1.5);
}

TEST_CASE("pow follows the double oracle, special cases included", "[math]") {
  const std::vector<float> special = {
      0.0f,     -0.0f,       1.0f,        -1.0f,        2.0f,       -2.0f,       0.5f,      -0.5f,
      3.0f,     -3.0f,       kInf,        -kInf,        kNan,       1e-45f,      -1e-45f,   3.4e38f,
      -3.4e38f, 16777215.0f, 16777216.0f, -16777215.0f, 8388607.5f, 0.99999994f, 1.0000001f};
  double worst = 0;
  const auto see = [&](float x, float y) {
    const double distance =
        ulp_distance(math::pow(x, y), std::pow(static_cast<double>(x), static_cast<double>(y)));
    if (distance > 0.51)
      CHECK(std::to_string(x) + "^" + std::to_string(y) == std::string("within half a unit"));
    worst = std::max(worst, distance);
  };
  for (const float x : special) {
    for (const float y : special) see(x, y);
  }
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i) {
    see(float_of(random()), float_of(random()));
    const float base = static_cast<float>(random() >> 8) * 0x1p-22f;
    const float exponent = (static_cast<float>(random() >> 8) * 0x1p-24f - 0.5f) * 60.0f;
    see(base, exponent);
    see(-base, std::floor(exponent));
  }
  CHECK(worst <= 0.51);
}

TEST_CASE("atan2 follows the double oracle, zeros and infinities included", "[math]") {
  const std::vector<float> special = {0.0f, -0.0f,  1.0f,    -1.0f,   kInf,    -kInf,
                                      kNan, 1e-45f, -1e-45f, 3.4e38f, -3.4e38f};
  double worst = 0;
  const auto see = [&](float y, float x) {
    const double exact = std::atan2(static_cast<double>(y), static_cast<double>(x));
    worst = std::max(worst, ulp_distance(math::atan2(y, x), exact));
  };
  for (const float y : special)
    for (const float x : special) see(y, x);
  std::mt19937 random(5);
  for (int i = 0; i < 200000; ++i) {
    see(float_of(random()), float_of(random()));
    see(static_cast<float>(random() >> 8) * 0x1p-22f - 2,
        static_cast<float>(random() >> 8) * 0x1p-22f - 2);
  }
  CHECK(worst <= 2);
}

TEST_CASE("the short forms give the same bits as the full ones", "[math]") {
  std::mt19937 random(13);
  int quotients = 0, wrong = 0;
  for (int i = 0; i < 400000; ++i) {
    const float x = float_of(random()),
                y = i % 2 == 0 ? float_of(random()) : x * 0x1p-20f * static_cast<float>(i);
    if (math::is_short_quotient(x, y)) {
      ++quotients;
      wrong += bits_of(math::fmod_short(x, y)) != bits_of(math::fmod(x, y));
    }
    if (!math::is_moderate_angle(x)) continue;
    wrong += bits_of(math::sin_moderate(x)) != bits_of(math::sin(x));
    wrong += bits_of(math::cos_moderate(x)) != bits_of(math::cos(x));
    wrong += bits_of(math::tan_moderate(x)) != bits_of(math::tan(x));
  }
  CHECK(quotients > 100000);
  CHECK(wrong == 0);
  for (const float y : {0.0f, -0.0f, kInf, kNan}) CHECK_FALSE(math::is_short_quotient(1.0f, y));
  CHECK_FALSE(math::is_short_quotient(kInf, 1.0f));
}

TEST_CASE("the normal distribution function, to its far tail", "[math]") {
  double miss = 0, relative = 0, bell = 0;
  for (int i = -120000; i <= 120000; ++i) {
    const float x = static_cast<float>(i) * 1e-4f;
    const auto got = math::gaussian(x);
    const auto exact = math::gaussian(static_cast<double>(x));
    miss = std::max(miss, std::fabs(static_cast<double>(got.below) - exact.below));
    relative = std::max(relative, std::fabs(static_cast<double>(got.below) / exact.below - 1));
    bell = std::max(bell, std::fabs(static_cast<double>(got.bell) - exact.bell));
  }
  CHECK(miss < 2.5e-7);
  CHECK(relative < 3e-5);
  CHECK(bell < 1e-7);
  CHECK(math::gaussian(kInf).below == 1.0f);
  CHECK(math::gaussian(-kInf).below == 0.0f);
  CHECK(math::gaussian(-1e10f).below == 0.0f);
  CHECK(std::isnan(math::gaussian(kNan).below));
}

TEST_CASE("erfinv inverts erf", "[math]") {
  CHECK(math::erfinv(0.0f) == 0.0f);
  CHECK(std::signbit(math::erfinv(-0.0f)));
  CHECK(math::erfinv(1.0f) == kInf);
  CHECK(math::erfinv(-1.0f) == -kInf);
  CHECK(std::isnan(math::erfinv(1.5f)));
  CHECK(std::isnan(math::erfinv(kNan)));
  CHECK(math::erfinv(1e-30) == Approx(8.862269254527580e-31).epsilon(1e-15));
  // 25 digits from mpmath: erfinv(1/2), erfinv(0.999), erfinv(1 - 2^-53).
  CHECK(math::erfinv(0.5) == Approx(0.4769362762044698733814184).epsilon(1e-15));
  CHECK(math::erfinv(0.999) == Approx(2.326753765513524493866433).epsilon(2e-15));
  CHECK(math::erfinv(1 - 0x1p-53) == Approx(5.863584748755167927207662).epsilon(2e-15));
  double worst = 0;
  for (int i = -9999; i <= 9999; ++i) {
    const double x = i * 4e-4;  // up to erf(4), where 1 - erf is 1.5e-8
    const double back = std::fabs(x) < 0.5 ? math::erfinv(std::erf(x)) : x;
    if (x != 0) worst = std::max(worst, std::fabs(back - x) / std::fabs(x));
  }
  CHECK(worst < 1e-15);
}

TEST_CASE("double forms equal the oracle", "[math]") {
  for (const double x : {0.3, 0.9, -0.4}) {
    CHECK(math::exp(x) == std::exp(x));
    CHECK(math::tanh(x) == std::tanh(x));
    CHECK(math::erf(x) == std::erf(x));
    CHECK(math::sigmoid(x) == Approx(sigmoid_oracle(x)).epsilon(1e-15));
    CHECK(math::pow(0.7, x) == std::pow(0.7, x));
    CHECK(math::atan2(x, -0.2) == std::atan2(x, -0.2));
  }
  CHECK(math::rsqrt(4.0) == 0.5);
  CHECK(math::atanh(0.5f) == std::atanh(0.5f));
}

TEST_CASE("a result does not depend on the position in a loop", "[math]") {
  std::mt19937 random(11);
  std::vector<float> x(1003), whole(x.size()), piece(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = i % 3 == 0 ? float_of(random())
                      : (static_cast<float>(random() >> 8) * 0x1p-24f - 0.5f) * 30.0f;
  }
  const auto run = [&](auto own, const char* name) {
    for (std::size_t i = 0; i < x.size(); ++i) whole[i] = own(x[i]);
    for (std::size_t begin = 0, width = 1; begin < x.size();
         begin += width, width = width % 37 + 1) {
      const std::size_t end = std::min(begin + width, x.size());
      for (std::size_t i = begin; i < end; ++i) piece[i] = own(x[i]);
    }
    CAPTURE(name);
    CHECK(std::memcmp(whole.data(), piece.data(), x.size() * sizeof(float)) == 0);
  };
  run([](float v) { return math::erf(v); }, "erf");
  run([](float v) { return math::exp(v); }, "exp");
  run([](float v) { return math::expm1(v); }, "expm1");
  run([](float v) { return math::log(v); }, "log");
  run([](float v) { return math::log1p(v); }, "log1p");
  run([](float v) { return math::pow(v, 1.7f); }, "pow");
  run([](float v) { return math::sigmoid(v); }, "sigmoid");
  run([](float v) { return math::sin(v); }, "sin");
  run([](float v) { return math::tanh(v); }, "tanh");
  CHECK(bits_of(math::exp(1.0f)) == 0x402DF854u);
}
