// Rows of floating-point elements in 16-byte packs, for kernels with the storage type as a template
// parameter. Other dtypes, lengths and layouts are left to the kernels on Array.
#pragma once

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "../../tensor/math/exp.h"
#include "items.h"
#include "line_piece.h"

namespace mezzo::gpu {

// ---- packs --------------------------------------------------------------------------------------

/** Elements of T in 16 bytes. */
template <class T> inline constexpr int kPerPack = 16 / static_cast<int>(sizeof(T));

/** A pack as words, which the compiler keeps in whole registers. */
using PackWords = Pack<std::uint32_t, 4>;

/** Converts the elements of a pack of T to f32. */
template <class T> __device__ inline void widen(const PackWords& pack, float* values) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::uint32_t word = pack.item[k];
    if constexpr (std::is_same_v<T, float>) {
      values[k] = mezzo::detail::bits_as<float>(word);
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      values[2 * k] = mezzo::detail::bits_as<float>(word << 16);
      values[2 * k + 1] = mezzo::detail::bits_as<float>(word & 0xFFFF0000u);
    } else {
      values[2 * k] = widened(T::from_bits(static_cast<std::uint16_t>(word)));
      values[2 * k + 1] = widened(T::from_bits(static_cast<std::uint16_t>(word >> 16)));
    }
  }
}

/** Loads n elements, whole packs, from an aligned place, converted to f32. */
template <int n, class T> __device__ inline void load_values(const T* from, float* values) {
#pragma unroll
  for (int k = 0; k < n; k += kPerPack<T>) {
    const PackWords pack = *reinterpret_cast<const PackWords*>(from + k);
    widen<T>(pack, values + k);
  }
}

/** Copies n values. */
template <int n> __device__ inline void copy_values(const float* from, float* to) {
#pragma unroll
  for (int k = 0; k < n; ++k) to[k] = from[k];
}

/** The words of `width` elements of T: a pack or half of one. */
template <class T, int width>
using WordsOf = Pack<std::uint32_t, width* static_cast<int>(sizeof(T)) / 4>;

/** Converts the elements of a pack or of half a pack to f32. */
template <int width, class T>
__device__ inline void widen_part(const WordsOf<T, width>& words, float* values) {
  if constexpr (width == kPerPack<T>) {
    widen<T>(words, values);
  } else {
    PackWords pack{};
    float all[kPerPack<T>];
#pragma unroll
    for (int k = 0; k < width * static_cast<int>(sizeof(T)) / 4; ++k) pack.item[k] = words.item[k];
    widen<T>(pack, all);
    copy_values<width>(all, values);
  }
}

/** Loads a pack or half a pack from an aligned place, converted to f32. */
template <int width, class T> __device__ inline void load_part(const T* from, float* values) {
  const auto words = *reinterpret_cast<const WordsOf<T, width>*>(from);
  widen_part<width, T>(words, values);
}

/** Returns two values rounded to T as a word, the first in the low half. */
template <class T> __device__ inline std::uint32_t narrowed_pair(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t word;
  if constexpr (std::is_same_v<T, BFloat16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  return narrowed<T>(low).bits | static_cast<std::uint32_t>(narrowed<T>(high).bits) << 16;
#endif
}

/** Loads a pack from device memory, in the order of the program. */
__device__ inline PackWords load_words(const PackWords* from) {
#ifdef __CUDA_ARCH__
  PackWords words;
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.item[0]), "=r"(words.item[1]), "=r"(words.item[2]), "=r"(words.item[3])
               : "l"(__cvta_generic_to_global(from)));
  return words;
#else
  return *from;
#endif
}

/** Stores the words to an aligned place in device memory. */
template <int n> __device__ inline void store_words(void* to, const Pack<std::uint32_t, n>& words) {
#ifdef __CUDA_ARCH__  // the compiler may split a store into elements
  const auto place = __cvta_generic_to_global(to);
  if constexpr (n == 2)
    asm volatile("st.global.v2.b32 [%0], {%1, %2};"
                 :
                 : "l"(place), "r"(words.item[0]), "r"(words.item[1])
                 : "memory");
  else
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(place), "r"(words.item[0]), "r"(words.item[1]), "r"(words.item[2]),
                   "r"(words.item[3])
                 : "memory");
#else
  *static_cast<Pack<std::uint32_t, n>*>(to) = words;
#endif
}

/** Returns n elements, half a pack or a pack, rounded to T. */
template <class T, int n>
__device__ inline Pack<std::uint32_t, n* static_cast<int>(sizeof(T)) / 4> narrowed_words(
    const float* values) {
  Pack<std::uint32_t, n* static_cast<int>(sizeof(T)) / 4> words;
#pragma unroll
  for (int k = 0; k < n * static_cast<int>(sizeof(T)) / 4; ++k) {
    if constexpr (std::is_same_v<T, float>)
      words.item[k] = mezzo::detail::bits_as<std::uint32_t>(values[k]);
    else
      words.item[k] = narrowed_pair<T>(values[2 * k], values[2 * k + 1]);
  }
  return words;
}

/** Stores n elements, half a pack or whole packs, to an aligned place, rounded to T. */
template <int n, class T> __device__ inline void store_values(T* to, const float* values) {
  constexpr int kStep = std::min(n, kPerPack<T>);
#pragma unroll
  for (int first = 0; first < n; first += kStep)
    store_words(to + first, narrowed_words<T, kStep>(values + first));
}

// ---- dispatch -----------------------------------------------------------------------------------

/** Returns the elements of a pack. */
inline std::int64_t elements_per_pack(DType dtype) {
  return 16 / static_cast<std::int64_t>(item_size(dtype));
}

/** Returns true if rows of `length` elements are whole packs of f16, bf16 or f32. */
inline bool are_packs(std::int64_t length, DType dtype) {
  constexpr std::int64_t kMost = 1 << 30;  // so that elements of a row fit an int
  if (dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f32) return false;
  return length > 0 && length <= kMost && length % elements_per_pack(dtype) == 0;
}

/** Returns contiguous x, or a copy of it if its address is not a multiple of 16 bytes; undefined if
 *  x is. For kernels whose bits do not depend on addresses. */
inline Tensor aligned(const Tensor& x) {
  if (!x.defined() || reinterpret_cast<std::uintptr_t>(x.raw_data()) % 16 == 0) return x;
  Tensor copy = mezzo::detail::contiguous_scratch(x);
  mezzo::detail::copy_into(x, copy);
  return copy;
}

/** Returns true if rows of `length` elements are whole packs in all arrays of `rows`, which have
 *  one dtype: f16, bf16 or f32. Arrays of `others`, of which some may be absent, are of that dtype
 *  or all of f32. */
inline bool have_packs(std::int64_t length, std::initializer_list<Array> rows,
                       std::initializer_list<Array> others = {}) {
  const DType dtype = rows.begin()->dtype;
  if (!are_packs(length, dtype)) return false;
  const auto all = [](std::initializer_list<Array> arrays, DType of) {
    return std::all_of(arrays.begin(), arrays.end(), [of](const Array& x) {
      return !x.data || (x.dtype == of && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0);
    });
  };
  return all(rows, dtype) && (all(others, dtype) || all(others, DType::f32));
}

/** Calls f(std::type_identity<T>{}) with the storage type of f16, bf16 or f32. */
template <class F> void visit_packed(DType dtype, F&& f) {
  if (dtype == DType::f16) return f(std::type_identity<Half>{});
  if (dtype == DType::bf16) return f(std::type_identity<BFloat16>{});
  f(std::type_identity<float>{});
}
/** Calls f(std::type_identity<T>{}, std::type_identity<W>{}) with the storage types of rows and of
 *  others: T or f32. */
template <class F> void visit_packed(DType dtype, DType others, F&& f) {
  visit_packed(dtype, [&]<class T>(std::type_identity<T> type) {
    if (others == DType::f32) return f(type, std::type_identity<float>{});
    f(type, type);
  });
}

// ---- rows and threads ---------------------------------------------------------------------------

inline constexpr int kTeamThreads = 256;  // most threads of a block
inline constexpr int kHeldPacks = 4;      // packs that a thread holds in registers

/** Distribution of rows over teams of threads. A team is a power of two of at most a warp, several
 *  in a block, or a whole block. Depends on the shape alone. */
struct Teams {
  std::int64_t rows = 0;
  int packs = 0;   // per row
  int lanes = 1;   // threads per row
  int slots = 1;   // rows per block
  int shift = 31;  // log2 of the lanes of a team of at most a warp

  /** For rows of `length` elements, whole packs. */
  Teams(std::int64_t its_rows, std::int64_t length, DType dtype)
      : rows(its_rows), packs(static_cast<int>(length / elements_per_pack(dtype))) {
    const std::int64_t wanted = std::max<std::int64_t>(1, blocks_for(packs, kHeldPacks));
    lanes = static_cast<int>(
        std::min<std::int64_t>(kTeamThreads, blocks_for(wanted, kWarpSize) * kWarpSize));
    if (wanted > kWarpSize) return;
    shift = std::bit_width(static_cast<std::uint64_t>(wanted - 1));
    lanes = 1 << shift;
    slots = kTeamThreads / lanes;
    while (threads() > kWarpSize && blocks() < kPlenty / 2) slots /= 2;
  }
  std::int64_t blocks() const { return blocks_for(rows, slots); }
  int threads() const { return slots * lanes; }
  Grid grid() const { return {.blocks = blocks(), .threads = threads()}; }
  /** Returns true if each thread holds its part of a row in registers. */
  bool hold_rows() const { return packs <= kHeldPacks * lanes; }
};

/** Returns the value for whose words move(word) asks another lane. */
template <class V, class Move> __device__ inline V moved(const V& value, const Move& move) {
  struct Words {
    std::uint32_t word[sizeof(V) / sizeof(std::uint32_t)];
  };
  Words words = mezzo::detail::bits_as<Words>(value);
#pragma unroll
  for (std::uint32_t& word : words.word) word = move(word);
  return mezzo::detail::bits_as<V>(words);
}
/** Returns the value of the lane whose number differs in the bits of `distance`. */
template <class V> __device__ inline V exchanged(const V& value, int distance) {
  return moved(value,
               [&](std::uint32_t word) { return __shfl_xor_sync(kAllLanes, word, distance); });
}

/** The calling thread's team. Threads beyond the last row have none. */
struct Team {
  int lanes, lane, slot;
  std::int64_t row;
  bool has_row;

  /** For the rows of the given block instead of the calling one. */
  __device__ Team(const Teams& teams, std::int64_t block)
      : lanes(teams.lanes),
        lane(static_cast<int>(threadIdx.x) & (lanes > kWarpSize ? -1 : lanes - 1)),
        slot(static_cast<int>(threadIdx.x) >> teams.shift),
        row(block * teams.slots + slot),
        has_row(row < teams.rows) {}
  __device__ explicit Team(const Teams& teams) : Team(teams, blockIdx.x) {}

  /** Returns true for one thread of each row. */
  __device__ bool is_first() const { return has_row && lane == 0; }

  /** Combines the values of the team and returns the result to each thread. `room` has one element
   *  per warp and may be reused afterwards. All threads of the block must call it. */
  template <class V, class Combine>
  __device__ V all(V value, const Combine& combine, V* room) const {
#pragma unroll
    for (int step = kWarpSize / 2; step > 0; step /= 2)
      if (step < lanes) value = combine(value, exchanged(value, step));
    if (lanes <= kWarpSize) return value;
    __syncthreads();  // earlier results in `room` may still be read
    if (threadIdx.x % kWarpSize == 0) room[threadIdx.x / kWarpSize] = value;
    __syncthreads();
    value = room[0];
    for (int warp = 1; warp * kWarpSize < lanes; ++warp) value = combine(value, room[warp]);
    return value;
  }
};
inline constexpr int kTeamWarps = kTeamThreads / kWarpSize;  // elements of a team's room

/** Rows, cut into parts if there are few and long ones. Each part is a row of a team. */
struct RowParts {
  int packs;           // per row
  std::int64_t parts;  // per row; the last may be shorter
  Teams teams;

  static RowParts of(std::int64_t rows, std::int64_t length, DType dtype) {
    constexpr std::int64_t kLeast = 256;  // packs of a part
    const std::int64_t packs = length / elements_per_pack(dtype),
                       most = kPlenty / std::max<std::int64_t>(1, rows),
                       wanted = std::min(packs / kLeast, most),
                       part = wanted < 2 ? packs : blocks_for(packs, wanted),
                       parts = blocks_for(packs, part);
    return {static_cast<int>(packs), parts,
            Teams(rows * parts, part * elements_per_pack(dtype), dtype)};
  }
};

/** The calling thread's team and its part of a row. */
struct PartTeam : Team {
  std::int64_t whole_row;
  int first_pack, packs;  // of the part
  bool is_whole;          // the part is the row

  __device__ explicit PartTeam(const RowParts& rows) : Team(rows.teams) {
    const Split split(row, rows.parts);
    whole_row = split.quotient;
    first_pack = static_cast<int>(split.rest) * rows.teams.packs;
    const int left = rows.packs - first_pack;
    packs = left < rows.teams.packs ? left : rows.teams.packs;
    is_whole = rows.parts == 1;
  }
};

/** The calling thread's packs of `count` rows of T that are equally long. A chunk of kHeldPacks
 *  packs of each stays in registers, so a row of one chunk is loaded once. */
template <class T, int count> struct RowPacks {
  static constexpr int kWidth = kPerPack<T>;
  const T* rows[count];
  int lanes, lane, packs, held = -1;
  PackWords pack[kHeldPacks][count];

  /** Without packs for a team without a row. */
  template <class... Ts>
  __device__ RowPacks(const Team& team, int its_packs, const Ts*... its_rows)
      : rows{its_rows...},
        lanes(team.lanes),
        lane(team.lane),
        packs(team.has_row ? its_packs : 0) {}

  /** Calls f(slot, first element, values) for each pack: values[i] are the elements of row i, and
   *  `slot` is the pack's place in its chunk. */
  template <class F> __device__ void for_each(F&& f) {
#pragma unroll 1
    for (int chunk = 0; chunk < packs; chunk += kHeldPacks * lanes) {
      if (chunk != held) load(chunk);
#pragma unroll
      for (int j = 0; j < kHeldPacks; ++j) {
        const int at = chunk + j * lanes + lane;
        if (at >= packs) break;
        float values[count][kWidth];
#pragma unroll
        for (int i = 0; i < count; ++i) widen<T>(pack[j][i], values[i]);
        f(j, at * kWidth, values);
      }
    }
  }

 private:
  __device__ void load(int chunk) {
    held = chunk;
#pragma unroll
    for (int j = 0; j < kHeldPacks; ++j) {
      const int at = chunk + j * lanes + lane;
      if (at < packs) {
#pragma unroll
        for (int i = 0; i < count; ++i)
          pack[j][i] = reinterpret_cast<const PackWords*>(rows[i])[at];
      }
    }
  }
};

}  // namespace mezzo::gpu
