// The CUDA kernels of exponent_histogram and change_histograms: a histogram per block in shared
// memory, then their sum.
#include "../../../tensor/ops/elementwise/exponents.h"

#include <algorithm>

#include "../../../tensor/core/row_major.h"
#include "../../attach.h"
#include "../../runtime/device.h"
#include "../lines.h"

namespace mezzo::gpu {

namespace {

using op::kExponentBins;

constexpr int kHistogramThreads = 256;
constexpr std::int64_t kMostHistogramParts = 256;  // blocks of the first kernel
/** Words of a block's result: the counts, then the bits of the largest magnitude. */
constexpr int kWords = kExponentBins + 1;

/** The elements of a tensor: one histogram. */
template <class C> struct Elements {
  using Value = C;
  static constexpr int kHistograms = 1;
  Array x;
  __device__ void load(std::int64_t i, C* values) const { values[0] = x.load<C>(i); }
};

/** The changes between two tensors: histograms of the change and of the ratio. */
template <class C> struct Changes {
  using Value = C;
  static constexpr int kHistograms = 2;
  Array before, after;
  __device__ void load(std::int64_t i, C* values) const {
    const C old = before.load<C>(i);
    values[0] = after.load<C>(i) - old;
    values[1] = values[0] / old;
  }
};

/** Counts the elements i * parts * kThreads + ... of a block. A block counts fewer than 2^32. */
template <class Source>
__global__ void __launch_bounds__(kHistogramThreads)
    exponent_parts_kernel(const Source source, std::int64_t count, std::int64_t parts,
                          unsigned* results) {
  constexpr int kHistograms = Source::kHistograms;
  MZ_SHARED(unsigned, words, kHistograms* kWords);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kHistograms * kWords; i += kHistogramThreads) words[i] = 0;
  __syncthreads();
  float largest[kHistograms] = {};
  const std::int64_t part = static_cast<std::int64_t>(blockIdx.x);
  for (std::int64_t i = part * kHistogramThreads + thread; i < count;
       i += parts * kHistogramThreads) {
    typename Source::Value values[kHistograms];
    source.load(i, values);
    for (int h = 0; h < kHistograms; ++h) {
      atomicAdd(&words[h * kWords + op::exponent_bin(values[h])], 1u);
      const float size = op::finite_magnitude(values[h]);
      largest[h] = size > largest[h] ? size : largest[h];
    }
  }
  // The bits of non-negative floats are ordered as the floats.
  for (int h = 0; h < kHistograms; ++h)
    atomicMax(&words[h * kWords + kExponentBins], std::bit_cast<unsigned>(largest[h]));
  __syncthreads();
  for (int i = thread; i < kHistograms * kWords; i += kHistogramThreads)
    results[part * kHistograms * kWords + i] = words[i];
}

/** Adds the results of all blocks for one histogram, whose words are `stride` apart. */
__global__ void __launch_bounds__(kHistogramThreads)
    exponent_sum_kernel(const unsigned* results, std::int64_t parts, std::int64_t stride,
                        std::int64_t* counts, float* largest) {
  for (int i = static_cast<int>(threadIdx.x); i < kExponentBins; i += kHistogramThreads) {
    std::int64_t sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += results[part * stride + i];
    counts[i] = sum;
  }
  if (threadIdx.x != 0) return;
  unsigned most = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    const unsigned bits = results[part * stride + kExponentBins];
    most = bits > most ? bits : most;
  }
  *largest = std::bit_cast<float>(most);
}

template <class Source> void write_histograms(const Source& source, const Tensor& x, Outputs out) {
  const std::int64_t count = x.numel(), stride = Source::kHistograms * kWords;
  const std::int64_t parts =
      std::clamp<std::int64_t>(blocks_for(count, 16 * kHistogramThreads), 1, kMostHistogramParts);
  const Tensor room = empty_tensor({parts * stride}, DType::i32, x.device());
  auto* results = static_cast<unsigned*>(room.raw_data());
  const runtime::Stream stream = current_stream(x.device());
  launch(&exponent_parts_kernel<Source>, Grid{.blocks = parts, .threads = kHistogramThreads},
         stream, source, count, parts, results);
  for (std::size_t h = 0; h < Source::kHistograms; ++h)
    launch(&exponent_sum_kernel, Grid{.blocks = 1, .threads = kHistogramThreads}, stream,
           results + h * kWords, parts, stride, out[2 * h].data<std::int64_t>(),
           out[2 * h + 1].data<float>());
}

void exponent_histogram(Inputs in, Outputs out, const NoAttrs&) {
  const Tensor x = same_dense_layout(in[0], in[0]) ? in[0] : row_major(in[0]);
  if (x.dtype() == DType::f64)
    write_histograms(Elements<double>{Array(x)}, x, out);
  else
    write_histograms(Elements<float>{Array(x)}, x, out);
}

void change_histograms(Inputs in, Outputs out, const NoAttrs&) {
  const bool as_they_are = same_dense_layout(in[0], in[0]) && same_dense_layout(in[0], in[1]);
  const Tensor before = as_they_are ? in[0] : row_major(in[0]);
  const Tensor after = as_they_are ? in[1] : row_major(in[1]);
  if (before.dtype() == DType::f64)
    write_histograms(Changes<double>{Array(before), Array(after)}, before, out);
  else
    write_histograms(Changes<float>{Array(before), Array(after)}, before, out);
}

}  // namespace

void attach_exponents() {
  attach<op::ExponentHistogram, exponent_histogram>();
  attach<op::ChangeHistograms, change_histograms>();
}

}  // namespace mezzo::gpu
