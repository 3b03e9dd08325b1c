// Loads and stores of elementwise kernels in packs: eight elements of a Map's operands per thread,
// in a map of packs (MapFns::packed).
#pragma once

#include "map.h"
#include "typed.h"

namespace mezzo::gpu {

/** Eight elements of an operand, as stored. */
struct StoredPack {
  PackWords words[2];  // only the first 2 words of bool, the first 4 of 16 bits, one if repeated
};

/** A thread's pack: two halves of kRun elements of a row. */
struct PackAt {
  std::int64_t first;  // element of the map
  int apart;           // from the first half to the second, in elements
  bool exists;         // false for threads beyond the last pack
};

/** Returns the number of the calling thread in the grid. */
__device__ inline std::int64_t thread_here() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/** Returns the calling thread's pack. */
__device__ inline PackAt pack_here(const Map& map) {
  const std::int64_t pack = thread_here(), packs = map.count / kMapPack;
  if (!map.halves_apart) return {pack * kMapPack, kRun, pack < packs};
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const std::int64_t first = pack - lane, left = packs - first;
  const int lanes = left < kWarpSize ? static_cast<int>(left) : kWarpSize;
  return {first * kMapPack + lane * kRun, lanes * kRun, lane < lanes};
}

/** Offsets of one element in several operands. */
template <std::size_t count> struct Places {
  std::int64_t of[count];
};

/** Returns the offsets of element `first` of the map, the first of a run, in operands of a map of
 *  packs. */
template <class... Xs>
__device__ inline Places<sizeof...(Xs)> places_of(const Map& map, std::int64_t first,
                                                  const Xs&... x) {
  if (map.rank == 1) return {{(x.strides[0] == 0 ? 0 : first)...}};
  Places<sizeof...(Xs)> places{};
  const auto move = [&](int i, std::int64_t elements) {
    int operand = 0;
    ((places.of[operand++] += elements * x.strides[i]), ...);
  };
  const int last = map.rank - 1;
  const auto run = static_cast<std::uint32_t>(first / kRun);
  std::uint32_t rest = map.runs[last].quotient(run);
  move(last, static_cast<std::int64_t>(run - rest * map.runs[last].by) * kRun);
#pragma unroll 1
  for (int i = last - 1; i > 0; --i) {
    const std::uint32_t next = map.runs[i].quotient(rest);
    move(i, rest - next * map.runs[i].by);
    rest = next;
  }
  move(0, rest);
  return places;
}

/** Loads the pack of an operand in which it begins at `place`. Does nothing for a number or an
 *  absent one. */
__device__ inline void fetch_pack(const MapOperand& x, std::int64_t place, int apart,
                                  StoredPack& pack) {
  const bool is_f32 = x.dtype == DType::f32;
  if (x.layout == MapOperand::Layout::tensor) {
    if (x.dtype == DType::boolean) {
      const auto* const from = static_cast<const std::uint8_t*>(x.data) + place;
      pack.words[0].item[0] = *reinterpret_cast<const std::uint32_t*>(from);
      pack.words[0].item[1] = *reinterpret_cast<const std::uint32_t*>(from + apart);
      return;
    }
    const auto* const from = static_cast<const std::byte*>(x.data) + place * (is_f32 ? 4 : 2);
    pack.words[0] = *reinterpret_cast<const PackWords*>(from);
    if (is_f32) pack.words[1] = *reinterpret_cast<const PackWords*>(from + apart * 4);
  } else if (x.layout == MapOperand::Layout::repeated) {
    if (is_f32)
      pack.words[0].item[0] = static_cast<const std::uint32_t*>(x.data)[place];
    else if (x.dtype == DType::boolean)
      pack.words[0].item[0] = static_cast<const std::uint8_t*>(x.data)[place];
    else
      pack.words[0].item[0] = static_cast<const std::uint16_t*>(x.data)[place];
  }
}

/** Returns the value of a number, or of the one element of a repeated operand. */
__device__ inline float repeated_value(const MapOperand& x, const StoredPack& pack) {
  if (x.layout == MapOperand::Layout::number)
    return x.is_real ? static_cast<float>(x.real) : static_cast<float>(x.integer);
  const std::uint32_t word = pack.words[0].item[0];
  if (x.dtype == DType::bf16) return mezzo::detail::bits_as<float>(word << 16);
  if (x.dtype == DType::f16) return widened(Half::from_bits(static_cast<std::uint16_t>(word)));
  if (x.dtype == DType::f32) return mezzo::detail::bits_as<float>(word);
  return word != 0 ? 1.0f : 0.0f;
}

/** Converts a pack to f32. Does nothing for an absent operand. */
__device__ inline void widen_pack(const MapOperand& x, const StoredPack& pack, float* values) {
  if (!x.present()) return;
  if (x.layout != MapOperand::Layout::tensor) {
    const float value = repeated_value(x, pack);
#pragma unroll
    for (int k = 0; k < kMapPack; ++k) values[k] = value;
  } else if (x.dtype == DType::bf16) {
    widen<BFloat16>(pack.words[0], values);
  } else if (x.dtype == DType::f16) {
    widen<Half>(pack.words[0], values);
  } else if (x.dtype == DType::f32) {
    widen<float>(pack.words[0], values);
    widen<float>(pack.words[1], values + kRun);
  } else {
#pragma unroll
    for (int k = 0; k < kMapPack; ++k) {
      const std::uint32_t byte = pack.words[0].item[k / kRun] >> (8 * (k % kRun)) & 0xFFu;
      values[k] = byte != 0 ? 1.0f : 0.0f;
    }
  }
}

/** Stores a run of bool at an aligned place: true where a value is not 0. */
__device__ inline void put_truths(void* to, const float* values) {
  std::uint32_t bytes = 0;
#pragma unroll
  for (int k = 0; k < kRun; ++k) bytes |= (values[k] != 0 ? 1u : 0u) << (8 * k);
  *static_cast<std::uint32_t*>(to) = bytes;
}

/** Stores a pack of bool that begins at `place`. */
__device__ inline void put_truth_pack(const MapOperand& x, std::int64_t place, int apart,
                                      const float* values) {
  auto* const to = static_cast<std::uint8_t*>(x.data) + place;
  put_truths(to, values);
  put_truths(to + apart, values + kRun);
}

/** Stores a pack of floats that begins at `place`, each element rounded once. */
__device__ inline void put_pack(const MapOperand& x, std::int64_t place, int apart,
                                const float* values) {
  if (x.dtype == DType::bf16)
    return store_values<kMapPack>(static_cast<BFloat16*>(x.data) + place, values);
  if (x.dtype == DType::f16)
    return store_values<kMapPack>(static_cast<Half*>(x.data) + place, values);
  auto* const to = static_cast<float*>(x.data) + place;
  store_values<kRun>(to, values);
  store_values<kRun>(to + apart, values + kRun);
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

}  // namespace mezzo::gpu
