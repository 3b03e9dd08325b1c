// The calls of cuBLASLt: which algorithms it has for a product, and running one; so narrow that the
// emulated build puts its own behind them.
// Sees: blas.h, ../tensor/tensor.h.
// Read next: blas_calls.cpp (on cuBLASLt), ../tests/emulator/blas.cpp (on the host), blas.cpp (who
// chooses).
#pragma once

#include <array>
#include <vector>

#include "../tensor/tensor.h"
#include "blas.h"

namespace mezzo::gpu::blas {

/** One of the library's algorithms for a product, in the library's own words. */
struct Algorithm {
  std::array<std::uint64_t, 8> words = {};
  std::size_t workspace = 0;  // bytes
};

/** Bytes that an algorithm may use beside its operands; NVIDIA's advice for Hopper. */
inline constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

/** Whether the library is there and can be asked for such a product. */
bool takes(const Gemm& gemm);

/** What the library has for a product, at most so many, what it takes for the fastest first;
 *  empty where it has none. Errors: CudaError where the library fails. */
std::vector<Algorithm> algorithms(const Gemm& gemm, Device device, int most);

/** Puts the product into the stream, as often as `times` says; `room` is the algorithm's workspace.
 *  Errors: CudaError where the library fails. */
void multiply(const Gemm& gemm, const Algorithm& algorithm, const Tensor& room, Device device,
              runtime::Stream stream, int times = 1);

}  // namespace mezzo::gpu::blas
