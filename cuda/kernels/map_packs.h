// Loads and stores of elementwise kernels in 16-byte packs: eight elements of a Map's operands per
// thread, if at least one operand has 16 bits and takes_packs() is true.
#pragma once

#include "map.h"
#include "typed.h"

namespace mezzo::gpu {

/** Eight elements of an operand, as stored. */
struct StoredPack {
  PackWords words[2];  // only the first 2 words of bool, the first 4 of 16 bits
};

/** Returns place_in(). In a map of packs the last stride of each operand is 1. */
__device__ inline std::int64_t pack_place(const Map& map, const MapOperand& x, std::int64_t at) {
  return map.rank == 1 ? at : place_among(map.sizes, x.strides, map.rank, map.count, at);
}

/** Loads elements [at, at + kMapPack) of an operand. Does nothing for a number or an absent one. */
__device__ inline void fetch_pack(const Map& map, const MapOperand& x, std::int64_t at,
                                  StoredPack& pack) {
  if (x.layout != MapOperand::Layout::tensor) return;
  const std::int64_t place = pack_place(map, x, at);
  if (x.dtype == DType::boolean) {
    const auto bytes = *reinterpret_cast<const Pack<std::uint32_t, 2>*>(
        static_cast<const std::uint8_t*>(x.data) + place);
    pack.words[0].item[0] = bytes.item[0];
    pack.words[0].item[1] = bytes.item[1];
    return;
  }
  const bool is_f32 = x.dtype == DType::f32;
  const auto* const from = reinterpret_cast<const PackWords*>(
      static_cast<const std::byte*>(x.data) + place * (is_f32 ? 4 : 2));
  pack.words[0] = from[0];
  if (is_f32) pack.words[1] = from[1];
}

/** Converts a pack to f32. Does nothing for an absent operand. */
__device__ inline void widen_pack(const MapOperand& x, const StoredPack& pack, float* values) {
  if (x.layout == MapOperand::Layout::number) {
    const float value = x.is_real ? static_cast<float>(x.real) : static_cast<float>(x.integer);
#pragma unroll
    for (int k = 0; k < kMapPack; ++k) values[k] = value;
  } else if (!x.present()) {
    return;
  } else if (x.dtype == DType::bf16) {
    widen<BFloat16>(pack.words[0], values);
  } else if (x.dtype == DType::f16) {
    widen<Half>(pack.words[0], values);
  } else if (x.dtype == DType::f32) {
    widen<float>(pack.words[0], values);
    widen<float>(pack.words[1], values + 4);
  } else {
#pragma unroll
    for (int k = 0; k < kMapPack; ++k) {
      const std::uint32_t byte = pack.words[0].item[k / 4] >> (8 * (k % 4)) & 0xFFu;
      values[k] = byte != 0 ? 1.0f : 0.0f;
    }
  }
}

/** Stores elements [at, at + kMapPack) of an operand, each rounded once. */
__device__ inline void put_pack(const Map& map, const MapOperand& x, std::int64_t at,
                                const float* values) {
  const std::int64_t place = pack_place(map, x, at);
  const auto put = [&]<class T>(std::type_identity<T>) {
    store_values<kMapPack>(static_cast<T*>(x.data) + place, values);
  };
  if (x.dtype == DType::bf16) return put(std::type_identity<BFloat16>{});
  if (x.dtype == DType::f16) return put(std::type_identity<Half>{});
  put(std::type_identity<float>{});
}

/** Returns true if the operand is a tensor of `dtype` whose elements are in the kernel's order, one
 *  after the other. */
inline bool is_line_of(const Map& map, const MapOperand& x, DType dtype) {
  return map.rank == 1 && x.layout == MapOperand::Layout::tensor && x.dtype == dtype;
}

/** Grid with one thread per pack. */
inline Grid pack_grid(const Map& map) {
  const std::int64_t packs = map.count / kMapPack;
  const std::int64_t threads =
      packs < kMapThreads ? blocks_for(packs, kWarpSize) * kWarpSize : kMapThreads;
  return {.blocks = blocks_for(packs, threads), .threads = static_cast<int>(threads)};
}

/** Returns the number of the calling thread in the grid. */
__device__ inline std::int64_t thread_here() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/** Returns the first element of the calling thread's pack; at least map.count if it has none. */
__device__ inline std::int64_t pack_here() { return thread_here() * kMapPack; }

}  // namespace mezzo::gpu
