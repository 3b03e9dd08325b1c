// The calls of cuBLASLt: list the algorithms for a product, and run one. calls.cpp implements them
// with cuBLASLt, tests/emulator/blas.cpp on the host.
#pragma once

#include <array>
#include <vector>

#include "../../tensor/core/tensor.h"
#include "blas.h"

namespace mezzo::gpu::blas {

/** One of the library's algorithms for a product, as an opaque value. */
struct Algorithm {
  std::array<std::uint64_t, 8> words = {};
  std::size_t workspace = 0;  // bytes
};

/** Largest workspace of an algorithm in bytes; NVIDIA's recommendation for Hopper. */
inline constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

/** Returns true if the library is loaded and accepts such products. */
bool takes(const Gemm& gemm);

/** Returns up to `most` algorithms for a product, the one with the best estimate first. Empty if
 *  there is none. Errors: CudaError where the library fails. */
std::vector<Algorithm> algorithms(const Gemm& gemm, Device device, int most);

/** Enqueues the product `times` times. `room` is the algorithm's workspace. Errors: CudaError where
 *  the library fails. */
void multiply(const Gemm& gemm, const Algorithm& algorithm, const Tensor& room, Device device,
              runtime::Stream stream, int times = 1);

}  // namespace mezzo::gpu::blas
