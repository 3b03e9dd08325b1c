// Kernel of exponent_histogram.
#include "../ops/exponents.h"

#include <algorithm>
#include <array>
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

  void add(const double* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      ++counts[static_cast<std::size_t>(exponent_bin(x[i]))];
      largest = std::max(largest, finite_magnitude(x[i]));
    }
  }

  /** Counts by the exponent's bits. Only blocks with zeros, subnormal or non-finite numbers are
   *  read again. Four tables, because increments of one counter wait for each other. */
  void add(const float* x, std::int64_t n) {
    std::uint32_t tables[4][256] = {}, most = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFu;
      ++tables[i & 3][bits >> 23];
      most = std::max(most, bits < 0x7F800000u ? bits : 0);
    }
    largest = std::max(largest, std::bit_cast<float>(most));
    std::array<std::int64_t, 256> sums;
    for (std::size_t e = 0; e < sums.size(); ++e)
      sums[e] = std::int64_t{tables[0][e]} + tables[1][e] + tables[2][e] + tables[3][e];
    for (std::size_t e = 1; e < 255; ++e)
      counts[e - 127 + static_cast<std::size_t>(1 - kLeastExponent)] += sums[e];
    if (sums[0] + sums[255] == 0) return;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint32_t exponent = std::bit_cast<std::uint32_t>(x[i]) >> 23 & 255;
      if (exponent == 0 || exponent == 255) ++counts[static_cast<std::size_t>(exponent_bin(x[i]))];
    }
  }
};

/** Returns the histogram of `blocks` blocks of C from block `first` on. */
template <class C>
Tally tally_of(const BlockReader<C>& x, std::int64_t numel, std::int64_t first,
               std::int64_t blocks) {
  Tally tally;
  Scratch<C> buffer(kBlock);
  for (std::int64_t b = first; b < first + blocks; ++b) {
    const std::int64_t n = std::min(kBlock, numel - b * kBlock);
    if (n > 0) tally.add(x.read(b * kBlock, n, buffer.data()), n);
  }
  return tally;
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
