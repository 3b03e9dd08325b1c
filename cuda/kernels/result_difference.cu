// The CUDA kernel that compares two results: one set of numbers per block, joined on the host.
#include "result_difference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../../tensor/core/row_major.h"
#include "../../tensor/memory/transfer.h"
#include "../runtime/device.h"
#include "lines.h"

namespace mezzo::gpu {

namespace {

constexpr int kDifferenceThreads = 256;
constexpr std::int64_t kMostDifferenceParts = 256;

/** What a thread, or a block, has seen. */
struct Seen {
  double apart, largest, squares;
  int lost, unlike, infinite;  // nan of the library alone; other numbers where own is not finite;
                               // elements of own that are not finite

  __device__ void join(const Seen& other) {
    apart = apart > other.apart ? apart : other.apart;
    largest = largest > other.largest ? largest : other.largest;
    squares += other.squares;
    lost |= other.lost;
    unlike |= other.unlike;
    infinite |= other.infinite;
  }
};

/** Returns x, or the number of its sign with the magnitude `limit` if it is larger. */
__device__ double bounded_by(double limit, double x) {
  return x > limit ? limit : x < -limit ? -limit : x;
}

__global__ void __launch_bounds__(kDifferenceThreads)
    difference_kernel(const void* library, const void* own, DType dtype, double limit,
                      std::int64_t count, Seen* results) {
  MZ_SHARED(Seen, seen, kDifferenceThreads);
  const int thread = static_cast<int>(threadIdx.x);
  Seen mine{};
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kDifferenceThreads;
  for (std::int64_t i = blockIdx.x * std::int64_t{kDifferenceThreads} + thread; i < count;
       i += step) {
    const double a = load_element<double>(library, dtype, i),
                 b = load_element<double>(own, dtype, i);
    const bool finite = b - b == 0;
    const double apart = finite ? bounded_by(limit, a) - b : 0, size = finite ? b : 0;
    mine.join({apart < 0 ? -apart : apart, size < 0 ? -size : size, size * size,
               finite && a != a ? 1 : 0, finite || a == b || (a != a && b != b) ? 0 : 1,
               finite ? 0 : 1});
  }
  seen[thread] = mine;
  for (int half = kDifferenceThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) seen[thread].join(seen[thread + half]);
  }
  if (thread == 0) results[blockIdx.x] = seen[0];
}

/** Returns the number just beyond the largest of a dtype. */
double limit_of(DType dtype) {
  return dtype == DType::f16 ? 0x1p16 : dtype == DType::f64 ? 0x1.fffffffffffffp1023 : 0x1p128;
}

}  // namespace

Difference compare_results(const Tensor& library, const Tensor& own) {
  const bool as_they_are = same_dense_layout(own, own) && same_dense_layout(library, own);
  const Tensor a = as_they_are ? library : row_major(library),
               b = as_they_are ? own : row_major(own);
  const std::int64_t count = b.numel();
  if (count == 0) return {};
  const std::int64_t blocks = std::min(blocks_for(count, kDifferenceThreads), kMostDifferenceParts);
  const Tensor room = workspace(blocks * static_cast<std::int64_t>(sizeof(Seen)), own.device());
  launch(&difference_kernel, Grid{.blocks = blocks, .threads = kDifferenceThreads},
         current_stream(own.device()), static_cast<const void*>(a.raw_data()),
         static_cast<const void*>(b.raw_data()), own.dtype(), limit_of(own.dtype()), count,
         static_cast<Seen*>(room.raw_data()));
  std::vector<Seen> seen(static_cast<std::size_t>(blocks));
  download(room, seen.data(), seen.size() * sizeof(Seen));
  Difference all;
  for (const Seen& one : seen) {
    all.apart = one.lost || std::isnan(all.apart) ? NAN : std::max(all.apart, one.apart);
    all.largest = std::max(all.largest, one.largest);
    all.squares += one.squares;
    all.alike = all.alike && !one.unlike;
    all.finite = all.finite && !one.infinite;
  }
  return all;
}

double root_mean_square(const Tensor& x) {
  if (x.numel() == 0) return 0;
  const Difference d = compare_results(x, x);
  return d.finite ? std::sqrt(d.squares / static_cast<double>(x.numel())) : NAN;
}

}  // namespace mezzo::gpu
