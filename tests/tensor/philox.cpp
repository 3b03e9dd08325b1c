// Philox against Random123's known answers, the distributions against their definitions and
// moments, splitting of generators.
#include "../../tensor/random/philox.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "../../tensor/core/error.h"
#include "../../tensor/random/generator.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

std::vector<std::uint32_t> words(const PhiloxBlock& block) {
  return {block.word[0], block.word[1], block.word[2], block.word[3]};
}

/** Mean and the standardised next three central moments. */
struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0;

  explicit Moments(const std::vector<double>& x) {
    const auto n = static_cast<double>(x.size());
    for (const double v : x) mean += v / n;
    for (const double v : x) variance += (v - mean) * (v - mean) / n;
    for (const double v : x) {
      const double z = (v - mean) / std::sqrt(variance);
      skew += z * z * z / n;
      kurtosis += z * z * z * z / n;
    }
  }
};

}  // namespace

TEST_CASE("Philox 4x32-10 gives Random123's known answers", "[philox]") {
  using Words = std::vector<std::uint32_t>;
  CHECK(words(detail::philox4x32_10({{0, 0, 0, 0}}, 0, 0)) ==
        Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t f = 0xffffffff;
  CHECK(words(detail::philox4x32_10({{f, f, f, f}}, f, f)) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(words(detail::philox4x32_10({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822,
                                    0x299f31d0)) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  // The same through seed, draw and block.
  CHECK(words(philox_block({0x299f31d0a4093822, 0x0370734413198a2e}, 0x85a308d3243f6a88)) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  static_assert(philox_block({0, 0}, 0).word[0] == 0x6627e8d5);
}

TEST_CASE("uniform numbers fill [0,1) exactly as defined", "[philox]") {
  CHECK(uniform_f32(0) == 0.0f);
  CHECK(uniform_f32(0xffffffff) == 1.0f - 0x1p-24f);
  CHECK(uniform_f32(0x80000000) == 0.5f);
  CHECK(uniform_f64(0, 0) == 0.0);
  CHECK(uniform_f64(0xffffffff, 0xffffffff) == 1.0 - 0x1p-53);
  CHECK(uniform_f64(0x12345678, 0x9abcdef0) ==
        ((0x12345678 >> 5) * 67108864.0 + (0x9abcdef0u >> 6)) * 0x1p-53);
}

TEST_CASE("integers are the upper half of the 128-bit product", "[philox]") {
  const std::uint64_t draws[] = {
      0, 1, 0xffffffff, 0x100000000, 0x123456789abcdef0, 0x8000000000000000, 0xffffffffffffffff};
  for (const std::uint64_t draw : draws) {
    for (const std::uint64_t n : {1ull, 2ull, 10ull, 0xffffffffull, 0x100000001ull,
                                  0xfedcba9876543210ull, 0xffffffffffffffffull}) {
      __extension__ using Wide = unsigned __int128;
      const auto expected = static_cast<std::uint64_t>((static_cast<Wide>(draw) * n) >> 64);
      CAPTURE(draw, n);
      CHECK(uniform_below(n, static_cast<std::uint32_t>(draw),
                          static_cast<std::uint32_t>(draw >> 32)) == expected);
    }
  }
}

TEST_CASE("bernoulli has the requested probability", "[philox]") {
  CHECK(bernoulli_threshold(0.0) == 0);
  CHECK(bernoulli_threshold(1.0) == std::uint64_t{1} << 32);
  CHECK(bernoulli_threshold(0.5) == std::uint64_t{1} << 31);
  CHECK_FALSE(bernoulli(0, bernoulli_threshold(0.0)));
  CHECK(bernoulli(0xffffffff, bernoulli_threshold(1.0)));
  int taken = 0;
  for (std::uint64_t b = 0; b < 25000; ++b) {
    for (const std::uint32_t word : words(philox_block({5, 1}, b)))
      taken += bernoulli(word, bernoulli_threshold(0.3));
  }
  CHECK(std::abs(taken - 30000) < 5 * 145);  // five standard deviations
}

TEST_CASE("Box-Muller agrees with the library's log, sin and cos", "[philox]") {
  constexpr double kTwoPi = 6.283185307179586477;
  double worst = 0;
  for (std::uint64_t b = 0; b < 20000; ++b) {
    const PhiloxBlock block = philox_block({9, 2}, b);
    const double u = (block.word[0] + 1.0) * 0x1p-32, turn = block.word[1] * 0x1p-32;
    const NormalPair pair = normal_pair(block.word[0], block.word[1]);
    const double radius = std::sqrt(-2 * std::log(u));
    worst = std::max(worst, std::fabs(pair.first - radius * std::cos(kTwoPi * turn)));
    worst = std::max(worst, std::fabs(pair.second - radius * std::sin(kTwoPi * turn)));
  }
  CHECK(worst < 1e-14);  // mostly the error of the oracle's argument 2 pi * turn
}

TEST_CASE("Box-Muller is finite and exact at the corners", "[philox]") {
  CHECK(normal_pair(0xffffffffu, 123u).first == 0.0);  // u = 1: radius 0
  CHECK(normal_pair(0u, 0u).first == Approx(std::sqrt(64 * std::log(2.0))).epsilon(1e-15));
  CHECK(normal_pair(0u, 0u).second == 0.0);
  CHECK(normal_pair(0u, 0x40000000u).second ==
        Approx(std::sqrt(64 * std::log(2.0))).epsilon(1e-15));
  CHECK(normal_pair(0u, 0x80000000u).first ==
        Approx(-std::sqrt(64 * std::log(2.0))).epsilon(1e-15));
  CHECK(normal_pair(0u, 0xC0000000u).second ==
        Approx(-std::sqrt(64 * std::log(2.0))).epsilon(1e-15));
  CHECK(std::isfinite(normal_pair(PhiloxBlock{{0, 0, 0xffffffff, 0xffffffff}}).first));
  CHECK(normal_pair(PhiloxBlock{{0, 0, 0, 0}}).first ==
        Approx(std::sqrt(106 * std::log(2.0))).epsilon(1e-15));
}

TEST_CASE("normal numbers have normal moments", "[philox]") {
  std::vector<double> narrow, wide;
  for (std::uint64_t b = 0; b < 50000; ++b) {
    const PhiloxBlock block = philox_block({1, 0}, b);
    for (int i = 0; i < 4; i += 2) {
      const NormalPair pair = normal_pair(block.word[i], block.word[i + 1]);
      narrow.push_back(pair.first);
      narrow.push_back(pair.second);
    }
    const NormalPair pair = normal_pair(block);
    wide.push_back(pair.first);
    wide.push_back(pair.second);
  }
  for (const auto* sample : {&narrow, &wide}) {
    const Moments m(*sample);
    const double unit = 1 / std::sqrt(static_cast<double>(sample->size()));
    CHECK(std::fabs(m.mean) < 4 * unit);
    CHECK(std::fabs(m.variance - 1) < 4 * 1.42 * unit);
    CHECK(std::fabs(m.skew) < 4 * 2.45 * unit);
    CHECK(std::fabs(m.kurtosis - 3) < 4 * 4.9 * unit);
  }
}

TEST_CASE("normal numbers have fixed bits", "[philox]") {
  // Recorded from this code. The bits must be equal on every compiler, flag and device; otherwise
  // seeds do not reproduce.
  std::uint64_t hash = 14695981039346656037ull;
  for (std::uint64_t b = 0; b < 1000; ++b) {
    const PhiloxBlock block = philox_block({42, 7}, b);
    for (const NormalPair pair : {normal_pair(block.word[0], block.word[1]), normal_pair(block)}) {
      for (const double v : {pair.first, pair.second}) {
        hash = (hash ^ detail::bits_as<std::uint64_t>(v)) * 1099511628211ull;
      }
    }
  }
  CHECK(hash == 0x3595b78fbbf10e4a);
}

TEST_CASE("generators count draws and can be split", "[philox]") {
  manual_seed(11);
  CHECK(default_generator() == Generator{11, 0});
  CHECK(default_generator().next_draw() == 0);
  CHECK(default_generator().next_stream().draw == 1);
  CHECK(default_generator() == Generator{11, 2});
  std::thread([] { CHECK(default_generator() == Generator{0, 0}); }).join();
  manual_seed(11);
  CHECK(default_generator().draw == 0);

  std::set<std::uint64_t> seeds = {11};
  for (std::uint64_t stream = 0; stream < 100; ++stream) seeds.insert(split(11, stream).seed);
  CHECK(seeds.size() == 101);
  CHECK(split(11, 3) == split(11, 3));
  CHECK_FALSE(split(12, 3) == split(11, 3));
}

TEST_CASE("processes with one seed get random numbers of their own", "[philox]") {
  const auto stream_of = [](Generator generator, int rank) {
    use_own_random_stream(generator, rank);
    return generator;
  };
  std::set<std::uint64_t> seeds = {11};
  for (std::uint64_t epoch = 0; epoch < 100; ++epoch) seeds.insert(split(11, epoch).seed);
  for (int rank = 0; rank < 100; ++rank) {
    const Generator stream = stream_of({11, 0}, rank);
    seeds.insert(stream.seed);
    CHECK(stream == split(11, 0x100000000u + static_cast<std::uint64_t>(rank)));
    CHECK(stream_of({11, 5}, rank) == stream);  // whatever was drawn before
    CHECK_FALSE(stream_of({12, 0}, rank) == stream);
  }
  CHECK(seeds.size() == 201);
  manual_seed(11);
  use_own_random_stream(default_generator(), 1);
  CHECK(default_generator() == stream_of({11, 0}, 1));
  CHECK_THROWS_WITH_AS_TEXT(use_own_random_stream(default_generator(), -1), ValueError,
                            "use_own_random_stream: the rank is negative; got -1");
  CHECK(default_generator() == stream_of({11, 0}, 1));
}
