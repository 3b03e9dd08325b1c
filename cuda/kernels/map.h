// Loads and stores of elementwise kernels: runs of kRun elements of a Map's operands, as vectors
// where they are contiguous.
#pragma once

#include "axes.h"
#include "element.h"
#include "host_map.h"

namespace mezzo::gpu {

/** Returns the offset of element `index` of the common shape in an operand, in elements. */
__device__ inline std::int64_t place_in(const Map& map, const MapOperand& x, std::int64_t index) {
  return map.rank == 1 ? index * x.strides[0]
                       : place_among(map.sizes, x.strides, map.rank, map.count, index);
}

template <class C, class T>
__device__ inline void load_pack(const MapOperand& x, std::int64_t place, C* values) {
  const auto pack = *reinterpret_cast<const Pack<T, kRun>*>(
      static_cast<const T*>(static_cast<const void*>(x.data)) + place);
#pragma unroll
  for (int k = 0; k < kRun; ++k) values[k] = element_as<C>(pack.item[k]);
}

template <class C, class T>
__device__ inline void store_pack(const MapOperand& x, std::int64_t place, const C* values) {
  Pack<T, kRun> pack;
#pragma unroll
  for (int k = 0; k < kRun; ++k) pack.item[k] = element_as<T>(values[k]);
  *reinterpret_cast<Pack<T, kRun>*>(static_cast<T*>(x.data) + place) = pack;
}

/** Calls f(type) with the storage type of a dtype. A bool is a byte, since any byte may come from a
 *  file. */
template <class F> __device__ inline void with_storage(DType dtype, F&& f) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8: return f(std::type_identity<std::uint8_t>{});
    case DType::i32: return f(std::type_identity<std::int32_t>{});
    case DType::i64: return f(std::type_identity<std::int64_t>{});
    case DType::f16: return f(std::type_identity<Half>{});
    case DType::bf16: return f(std::type_identity<BFloat16>{});
    case DType::f32: return f(std::type_identity<float>{});
    case DType::f64: return f(std::type_identity<double>{});
  }
}

/** load_run of other dtypes, and of short or strided runs element by element. Not inlined, so that
 *  each kernel contains only the fast path. */
template <class C>
__device__ __noinline__ void load_slowly(const Map& map, const MapOperand& x, std::int64_t at,
                                         int n, C* values) {
  if (n == kRun && x.vectors) {
    const std::int64_t place = place_in(map, x, at);
    with_storage(x.dtype,
                 [&]<class T>(std::type_identity<T>) { load_pack<C, T>(x, place, values); });
    if (x.dtype == DType::boolean)
      for (int k = 0; k < kRun; ++k) values[k] = static_cast<C>(values[k] != C(0));
    return;
  }
  for (int k = 0; k < n; ++k)
    values[k] = load_element<C>(x.data, x.dtype, place_in(map, x, at + k));
}
template <class C>
__device__ __noinline__ void store_slowly(const Map& map, const MapOperand& x, std::int64_t at,
                                          int n, const C* values) {
  if (n == kRun && x.vectors) {
    const std::int64_t place = place_in(map, x, at);
    if (x.dtype == DType::boolean) return store_pack<C, bool>(x, place, values);
    return with_storage(
        x.dtype, [&]<class T>(std::type_identity<T>) { store_pack<C, T>(x, place, values); });
  }
  for (int k = 0; k < n; ++k)
    store_element<C>(x.data, x.dtype, place_in(map, x, at + k), values[k]);
}

/** Loads elements [at, at + n) of an operand, n <= kRun. Does nothing for an absent operand. */
template <class C>
__device__ inline void load_run(const Map& map, const MapOperand& x, std::int64_t at, int n,
                                C* values) {
  if (x.layout == MapOperand::Layout::number) {
    const C value = x.is_real ? static_cast<C>(x.real) : static_cast<C>(x.integer);
#pragma unroll
    for (int k = 0; k < kRun; ++k) values[k] = value;
    return;
  }
  if (!x.present()) return;
  if (n == kRun && x.vectors) {
    const std::int64_t place = place_in(map, x, at);
    if (x.dtype == dtype_of<C>()) return load_pack<C, C>(x, place, values);
    if constexpr (std::is_same_v<C, float>) {
      if (x.dtype == DType::f16) return load_pack<C, Half>(x, place, values);
      if (x.dtype == DType::bf16) return load_pack<C, BFloat16>(x, place, values);
    }
  }
  C slow[kRun];
  load_slowly<C>(map, x, at, n, slow);
#pragma unroll
  for (int k = 0; k < kRun; ++k)
    if (k < n) values[k] = slow[k];
}

/** Stores elements [at, at + n) of an operand, n <= kRun. */
template <class C>
__device__ inline void store_run(const Map& map, const MapOperand& x, std::int64_t at, int n,
                                 const C* values) {
  if (n == kRun && x.vectors) {
    const std::int64_t place = place_in(map, x, at);
    if (x.dtype == dtype_of<C>()) return store_pack<C, C>(x, place, values);
    if constexpr (std::is_same_v<C, float>) {
      if (x.dtype == DType::f16) return store_pack<C, Half>(x, place, values);
      if (x.dtype == DType::bf16) return store_pack<C, BFloat16>(x, place, values);
    }
  }
  C slow[kRun];
#pragma unroll
  for (int k = 0; k < kRun; ++k) slow[k] = values[k];
  store_slowly<C>(map, x, at, n, slow);
}

inline constexpr int kMapThreads = 256;  // threads of a block; fewer for small maps
/** Runs per thread, one block width apart: enough independent loads to hide memory latency. */
inline constexpr int kMapRuns = 2;

inline Grid map_grid(const Map& map) {
  const std::int64_t runs = blocks_for(map.count, kRun);
  const std::int64_t threads =
      runs < kMapThreads ? blocks_for(runs, kWarpSize) * kWarpSize : kMapThreads;
  return {.blocks = blocks_for(runs, threads * kMapRuns), .threads = static_cast<int>(threads)};
}

/** Calls f(at, n) for the runs of the calling thread. */
template <class F> __device__ inline void for_each_run(const Map& map, F&& f) {
  const std::int64_t threads = blockDim.x;
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * kMapRuns * threads + threadIdx.x) * kRun;
#pragma unroll 1
  for (int u = 0; u < kMapRuns; ++u) {
    const std::int64_t at = first + u * threads * kRun;
    if (at >= map.count) return;
    f(at, map.count - at < kRun ? static_cast<int>(map.count - at) : kRun);
  }
}

}  // namespace mezzo::gpu
