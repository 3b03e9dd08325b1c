// The CUDA kernel of the masks of relu.
#include "relu_mask.h"

#include "../../runtime/device.h"
#include "../lines.h"

namespace mezzo::gpu {

namespace {

constexpr int kReluMaskThreads = 256, kBits = 8;

/** A thread writes a byte, of eight elements. `packed`: rows of y are whole packs. */
template <class T>
__global__ void __launch_bounds__(kReluMaskThreads)
    relu_mask_kernel(const T* y, std::int64_t n, std::int64_t bytes_in_row, std::int64_t bytes,
                     bool packed, std::uint8_t* mask) {
  const std::int64_t byte = blockIdx.x * std::int64_t{kReluMaskThreads} + threadIdx.x;
  if (byte >= bytes) return;
  const std::int64_t column = byte % bytes_in_row * kBits;
  const T* const from = y + byte / bytes_in_row * n + column;
  unsigned bits = 0;
  if (packed && column < n) {
    const Pack<T, kBits> eight = *reinterpret_cast<const Pack<T, kBits>*>(from);
#pragma unroll
    for (int i = 0; i < kBits; ++i) bits |= (element_as<float>(eight.item[i]) <= 0 ? 0u : 1u) << i;
  } else {
    for (int i = 0; i < kBits && column + i < n; ++i)
      bits |= (element_as<float>(from[i]) <= 0 ? 0u : 1u) << i;
  }
  mask[byte] = static_cast<std::uint8_t>(bits);
}

template <class T> void write_mask(const Tensor& y, std::int64_t n, const Tensor& mask) {
  const std::int64_t bytes = mask.numel();
  const bool packed =
      n % kBits == 0 && reinterpret_cast<std::uintptr_t>(y.raw_data()) % alignof(Pack<T, 8>) == 0;
  launch(&relu_mask_kernel<T>,
         Grid{.blocks = blocks_for(bytes, kReluMaskThreads), .threads = kReluMaskThreads},
         current_stream(y.device()), static_cast<const T*>(y.raw_data()), n, mask_bits(n) / kBits,
         bytes, packed, static_cast<std::uint8_t*>(mask.raw_data()));
}

}  // namespace

Tensor relu_mask(const Tensor& y, std::int64_t n) {
  const Tensor mask = workspace(y.numel() / n * mask_bits(n) / kBits, y.device());
  if (y.dtype() == DType::f16)
    write_mask<Half>(y, n, mask);
  else if (y.dtype() == DType::bf16)
    write_mask<BFloat16>(y, n, mask);
  else
    write_mask<float>(y, n, mask);
  return mask;
}

}  // namespace mezzo::gpu
