// Kernel of exponent_histogram.
#include "../ops/exponents.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "../device/parallel.h"
#include "block_io.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

constexpr std::int64_t kBlock = 4096;

/** The histogram of some elements. */
struct Tally {
  std::array<std::int64_t, kExponentBins> counts = {};
  float largest = 0;

  void add(const Tally& other) {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
    largest = std::max(largest, other.largest);
  }

  void add(double x) {
    ++counts[static_cast<std::size_t>(exponent_bin(x))];
    largest = std::max(largest, finite_magnitude(x));
  }
};

/** Counts blocks of numbers. */
template <class C> class Counter {
 public:
  void add(const double* x, std::int64_t n) {
    std::for_each(x, x + n, [&](double v) { tally_.add(v); });
  }
  Tally take() { return tally_; }

 private:
  Tally tally_;
};

/** Counts f32 by the exponent's bits. Only blocks with subnormal or non-finite numbers are read
 *  again, element by element. */
template <> class Counter<float> {
 public:
  void add(const float* x, std::int64_t n) {
    Scan scan;
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) scan.add(x + i);
    float rest[kLanes] = {};
    std::copy(x + i, x + n, rest);
    scan.add(rest);
    most_ = std::max(most_, *std::max_element(scan.most, scan.most + kLanes));
    const std::int64_t padding = i + kLanes - n;
    tally_.counts[kZeroBin] += std::accumulate(scan.zeros, scan.zeros + kLanes, -padding);
    if (std::accumulate(scan.extremes, scan.extremes + kLanes, 0u) > 0) add_extremes(x, n);
    for (i = 0; i + kTables <= n; i += kTables)
      for (std::int64_t t = 0; t < kTables; ++t) ++tables_[t][magnitude_bits(x[i + t]) >> 23];
    for (; i < n; ++i) ++tables_[0][magnitude_bits(x[i]) >> 23];
  }

  Tally take() {
    for (const auto& table : tables_)
      for (std::size_t e = 1; e < 255; ++e)
        tally_.counts[e - 127 + static_cast<std::size_t>(1 - kLeastExponent)] += table[e];
    tally_.largest = std::bit_cast<float>(most_);
    return tally_;
  }

 private:
  static constexpr std::uint32_t kInfinity = 0x7F800000u, kLeastNormal = 0x00800000u;
  static constexpr std::int64_t kTables = 8, kLanes = 16;

  /** What the tables do not tell, by lane of the vectors. */
  struct Scan {
    std::uint32_t zeros[kLanes] = {}, extremes[kLanes] = {}, most[kLanes] = {};

    void add(const float* x) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        const std::uint32_t bits = magnitude_bits(x[lane]);
        zeros[lane] += bits == 0;
        extremes[lane] += (bits - 1 < kLeastNormal - 1) | (bits >= kInfinity);
        most[lane] = std::max(most[lane], bits < kInfinity ? bits : 0);
      }
    }
  };

  static std::uint32_t magnitude_bits(float x) {
    return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu;
  }

  /** Counts subnormal and non-finite numbers. */
  void add_extremes(const float* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint32_t bits = magnitude_bits(x[i]);
      if (bits != 0 && (bits < kLeastNormal || bits >= kInfinity))
        ++tally_.counts[static_cast<std::size_t>(exponent_bin(x[i]))];
    }
  }

  Tally tally_;
  std::uint32_t most_ = 0;
  /** Several tables, because increments of one counter wait for each other. */
  std::int64_t tables_[kTables][256] = {};
};

/** Returns the histogram of `blocks` blocks of C from block `first` on. */
template <class C>
Tally tally_of(const BlockReader<C>& x, std::int64_t numel, std::int64_t first,
               std::int64_t blocks) {
  Counter<C> counter;
  Scratch<C> buffer(kBlock);
  for (std::int64_t b = first; b < first + blocks; ++b) {
    const std::int64_t n = std::min(kBlock, numel - b * kBlock);
    if (n > 0) counter.add(x.read(b * kBlock, n, buffer.data()), n);
  }
  return counter.take();
}

template <class C> Tally tally_of(const Tensor& x) {
  constexpr std::int64_t kPanels = 16;
  const std::int64_t blocks = (x.numel() + kBlock - 1) / kBlock;
  const std::int64_t per_panel = (blocks + kPanels - 1) / kPanels;
  std::vector<Tally> tallies(kPanels);
  parallel_for(
      kPanels,
      [&](std::int64_t panel) {
        tallies[static_cast<std::size_t>(panel)] =
            tally_of(BlockReader<C>(x), x.numel(), panel * per_panel, per_panel);
      },
      0.5 * static_cast<double>(x.numel()));
  for (std::size_t i = 1; i < tallies.size(); ++i) tallies[0].add(tallies[i]);
  return tallies[0];
}

}  // namespace

void ExponentHistogram::cpu(Inputs in, Outputs out, const NoAttrs&) {
  // The order of the elements does not matter, so dense tensors of any layout are read as they are.
  const Tensor x = same_dense_layout(in[0], in[0]) ? in[0] : row_major(in[0]);
  const Tally tally = x.dtype() == DType::f64 ? tally_of<double>(x) : tally_of<float>(x);
  std::copy(tally.counts.begin(), tally.counts.end(), out[0].data<std::int64_t>());
  *out[1].data<float>() = tally.largest;
}

}  // namespace mezzo::op
