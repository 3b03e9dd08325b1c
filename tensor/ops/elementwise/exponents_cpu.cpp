// Kernels of exponent_histogram and change_histograms.
#include "exponents.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "../../cpu/block_io.h"
#include "../../device/parallel.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

constexpr std::int64_t kBlock = 2048;

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
  /** Several tables, because increments of one counter wait for each other. 32 bits, so that the
   *  tables of two counters stay in the first cache; they count 2^32 elements, and a panel has a
   *  sixteenth of the tensor. */
  std::uint32_t tables_[kTables][256] = {};
};

/** The blocks of a tensor: one histogram. */
template <class C> class Elements {
 public:
  static constexpr std::size_t kHistograms = 1;

  explicit Elements(Inputs in) : x_(in[0]) {}
  void count(std::int64_t at, std::int64_t n, Counter<C>* counters) {
    counters[0].add(x_.read(at, n, buffer_.data()), n);
  }

 private:
  BlockReader<C> x_;
  Scratch<C> buffer_{kBlock};
};

/** The changes between two tensors: histograms of the change and of the ratio. */
template <class C> class Changes {
 public:
  static constexpr std::size_t kHistograms = 2;

  explicit Changes(Inputs in) : before_(in[0]), after_(in[1]) {}
  void count(std::int64_t at, std::int64_t n, Counter<C>* counters) {
    constexpr std::int64_t kLanes = 16;
    const C* before = before_.read(at, n, before_buffer_.data());
    const C* after = after_.read(at, n, after_buffer_.data());
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      compute<kLanes>(before + i, after + i, change_.data() + i, ratio_.data() + i);
    for (; i < n; ++i) compute<1>(before + i, after + i, change_.data() + i, ratio_.data() + i);
    counters[0].add(change_.data(), n);
    counters[1].add(ratio_.data(), n);
  }

 private:
  template <int lanes>
  static void compute(const C* before, const C* after, C* __restrict change, C* __restrict ratio) {
    for (int lane = 0; lane < lanes; ++lane) {
      change[lane] = after[lane] - before[lane];
      ratio[lane] = (after[lane] - before[lane]) / before[lane];
    }
  }

  BlockReader<C> before_, after_;
  Scratch<C> before_buffer_{kBlock}, after_buffer_{kBlock}, change_{kBlock}, ratio_{kBlock};
};

/** Counts the tensors of a source, and writes counts and largest magnitude of each histogram. */
template <class C, template <class> class Source> void write_histograms(Inputs in, Outputs out) {
  constexpr std::int64_t kPanels = 16;
  constexpr std::size_t kHistograms = Source<C>::kHistograms;
  const std::int64_t numel = in[0].numel(), blocks = (numel + kBlock - 1) / kBlock;
  const std::int64_t per_panel = (blocks + kPanels - 1) / kPanels;
  std::vector<Tally> tallies(kPanels * kHistograms);
  parallel_for(
      kPanels,
      [&](std::int64_t panel) {
        Source<C> source(in);
        Counter<C> counters[kHistograms];
        const std::int64_t end = std::min(numel, (panel + 1) * per_panel * kBlock);
        for (std::int64_t at = panel * per_panel * kBlock; at < end; at += kBlock)
          source.count(at, std::min(kBlock, end - at), counters);
        for (std::size_t h = 0; h < kHistograms; ++h)
          tallies[static_cast<std::size_t>(panel) * kHistograms + h] = counters[h].take();
      },
      0.5 * static_cast<double>(numel) * static_cast<double>(kHistograms));
  for (std::size_t h = 0; h < kHistograms; ++h) {
    Tally sum;
    for (std::size_t i = h; i < tallies.size(); i += kHistograms) sum.add(tallies[i]);
    std::copy(sum.counts.begin(), sum.counts.end(), out[2 * h].data<std::int64_t>());
    *out[2 * h + 1].data<float>() = sum.largest;
  }
}

/** Calls the kernel of the inputs' compute type. The order of the elements does not matter, so
 * dense tensors of one layout are read as they are. */
template <template <class> class Source> void histograms_of(Inputs in, Outputs out) {
  std::vector<Tensor> dense(in.begin(), in.end());
  for (const Tensor& x : in)
    if (!same_dense_layout(in[0], x))
      for (Tensor& it : dense) it = row_major(it);
  if (in[0].dtype() == DType::f64)
    write_histograms<double, Source>(dense, out);
  else
    write_histograms<float, Source>(dense, out);
}

}  // namespace

void ExponentHistogram::cpu(Inputs in, Outputs out, const NoAttrs&) {
  histograms_of<Elements>(in, out);
}

void ChangeHistograms::cpu(Inputs in, Outputs out, const NoAttrs&) {
  histograms_of<Changes>(in, out);
}

}  // namespace mezzo::op
