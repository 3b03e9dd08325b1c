// The CUDA kernels of exponent_histogram: a histogram per block in shared memory, then their sum.
#include "../../tensor/ops/exponents.h"

#include <algorithm>

#include "../../tensor/core/row_major.h"
#include "../attach.h"
#include "../runtime/device.h"
#include "lines.h"

namespace mezzo::gpu {

namespace {

using op::kExponentBins;

constexpr int kThreads = 256;
constexpr std::int64_t kMostParts = 256;  // blocks of the first kernel
/** Words of a block's result: the counts, then the bits of the largest magnitude. */
constexpr int kWords = kExponentBins + 1;

/** Counts the elements i * parts * kThreads + ... of a block. A block counts fewer than 2^32. */
template <class C>
__global__ void __launch_bounds__(kThreads)
    exponent_parts_kernel(const Array x, std::int64_t count, std::int64_t parts,
                          unsigned* results) {
  MZ_SHARED(unsigned, words, kWords);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kWords; i += kThreads) words[i] = 0;
  __syncthreads();
  float largest = 0;
  const std::int64_t part = static_cast<std::int64_t>(blockIdx.x);
  for (std::int64_t i = part * kThreads + thread; i < count; i += parts * kThreads) {
    const C value = x.load<C>(i);
    atomicAdd(&words[op::exponent_bin(value)], 1u);
    const float size = op::finite_magnitude(value);
    largest = size > largest ? size : largest;
  }
  // The bits of non-negative floats are ordered as the floats.
  atomicMax(&words[kExponentBins], std::bit_cast<unsigned>(largest));
  __syncthreads();
  for (int i = thread; i < kWords; i += kThreads) results[part * kWords + i] = words[i];
}

__global__ void __launch_bounds__(kThreads)
    exponent_sum_kernel(const unsigned* results, std::int64_t parts, std::int64_t* counts,
                        float* largest) {
  for (int i = static_cast<int>(threadIdx.x); i < kExponentBins; i += kThreads) {
    std::int64_t sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += results[part * kWords + i];
    counts[i] = sum;
  }
  if (threadIdx.x != 0) return;
  unsigned most = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    const unsigned bits = results[part * kWords + kExponentBins];
    most = bits > most ? bits : most;
  }
  *largest = std::bit_cast<float>(most);
}

void exponent_histogram(Inputs in, Outputs out, const NoAttrs&) {
  const Tensor x = same_dense_layout(in[0], in[0]) ? in[0] : row_major(in[0]);
  const std::int64_t count = x.numel();
  const std::int64_t parts =
      std::clamp<std::int64_t>(blocks_for(count, 16 * kThreads), 1, kMostParts);
  const Tensor room = empty_tensor({parts * kWords}, DType::i32, x.device());
  auto* results = static_cast<unsigned*>(room.raw_data());
  const runtime::Stream stream = current_stream(x.device());
  const Grid grid{.blocks = parts, .threads = kThreads};
  if (x.dtype() == DType::f64)
    launch(&exponent_parts_kernel<double>, grid, stream, Array(x), count, parts, results);
  else
    launch(&exponent_parts_kernel<float>, grid, stream, Array(x), count, parts, results);
  launch(&exponent_sum_kernel, Grid{.blocks = 1, .threads = kThreads}, stream, results, parts,
         out[0].data<std::int64_t>(), out[1].data<float>());
}

}  // namespace

void attach_exponents() { attach<op::ExponentHistogram, exponent_histogram>(); }

}  // namespace mezzo::gpu
