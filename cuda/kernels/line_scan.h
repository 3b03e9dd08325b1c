// scan_exactly(): scans whose combinations have the same bits in any grouping. CUB computes one
// long line: two launches, which load an element once. Those of scan.h are three, and load it
// twice. Sums of floating-point numbers are no such scans: CUB groups them by when its blocks run.
#pragma once

#include <cub/device/device_scan.cuh>
#include <limits>

#include "../own_kernels.h"
#include "cub.h"
#include "reduce/scan.h"

namespace mezzo::gpu {

/** The one line of a scan S. */
template <class S> struct ScanLine {
  S s;
  std::int64_t length;
  bool reversed;

  __device__ std::int64_t place(std::int64_t i) const { return reversed ? length - 1 - i : i; }
};

template <class S> struct LoadOfScan {
  ScanLine<S> line;
  __device__ typename S::State operator()(std::int64_t i) const {
    return line.s.load(line.place(i), 0, line.place(i));
  }
};

template <class S> struct StoreOfScan {
  ScanLine<S> line;
  __device__ void operator()(std::int64_t i, const typename S::State& upto) const {
    line.s.store(line.place(i), 0, line.place(i), line.s.identity(), upto);
  }
};

template <class S> struct CombineOfScan {
  S s;
  __device__ typename S::State operator()(const typename S::State& a,
                                          const typename S::State& b) const {
    return s.combine(a, b);
  }
};

/** Returns true if CUB serves one line of this length: long enough for scan.h to cut it. */
inline bool cub_takes_line(std::int64_t length) {
  return !OwnKernels::active() && length <= std::numeric_limits<int>::max() &&
         scan_plan({.count = 1, .length = length}, false).chunks > 1;
}

/** Scans the lines, from their ends if `reversed`. Combinations are the same bits in any grouping,
 *  and S::store() does not use what precedes an element. */
template <class S> void scan_exactly(const Lines& lines, bool reversed, const S& s, Device device) {
  if (lines.count != 1 || !cub_takes_line(lines.length)) return scan(lines, reversed, s, device);
  const auto stream = static_cast<cudaStream_t>(current_stream(device));
  const ScanLine<S> line{s, lines.length, reversed};
  with_temporary(
      [&](void* storage, std::size_t& bytes) {
        return cub::DeviceScan::InclusiveScan(storage, bytes, CubInput<LoadOfScan<S>>{{line}},
                                              CubOutput<typename S::State, StoreOfScan<S>>{{line}},
                                              CombineOfScan<S>{s}, static_cast<int>(lines.length),
                                              stream);
      },
      device);
}

}  // namespace mezzo::gpu
