// The loops over tiles, by the instructions of AMX or by their model. The instructions are written
// as statements of assembler, because the compiler is not told that the CPU has them, and because
// g++ 12 passes only 8 of the 64 bytes of a configuration to its own function.
#include "gemm_tile.h"

#include "../device/cpu_isa.h"

#if defined(__AVX512BF16__)

namespace mezzo::cpu_kernels {

namespace {

/** Rows of a tile, and bytes of a row. */
constexpr int kTileRows = 16;
constexpr std::int64_t kRowBytes = 64, kTileBytes = kTileRows * kRowBytes;

/** The rows of a block in its first tile, and in its second. */
struct TileRows {
  int first = 0, second = 0;

  bool operator==(const TileRows&) const = default;
};

/** The rows for which the thread's tiles are configured; none if they are not. */
thread_local TileRows configured __attribute__((tls_model("initial-exec")));

/** The operand of LDTILECFG. */
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

/** Numbers of tiles: sums of two rows and two columns of tiles, then A, then B. */
constexpr int kSums = 0, kA = 4, kB = 6;

/** Configures the tiles for blocks of these rows. */
void configure_tiles(TileRows rows) {
  if (rows == configured) return;
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = kRowBytes;
    config.rows[tile] = kTileRows;
  }
  for (const int tile : {kSums, kSums + 1, kA})
    config.rows[tile] = static_cast<std::uint8_t>(rows.first);
  if (rows.second > 0)
    for (const int tile : {kSums + 2, kSums + 3, kA + 1})
      config.rows[tile] = static_cast<std::uint8_t>(rows.second);
  asm volatile("ldtilecfg %0" : : "m"(config));
  configured = rows;
}

template <int kTile> MZ_ALWAYS_INLINE void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kTile> MZ_ALWAYS_INLINE void load_tile(const void* from, std::int64_t row_bytes) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(from), "r"(row_bytes), "i"(kTile)
               : "memory");
}
template <int kTile> MZ_ALWAYS_INLINE void store_tile(void* to, std::int64_t row_bytes) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(row_bytes), "i"(kTile) : "memory");
}
template <int kSum, int kLeft, int kRight> MZ_ALWAYS_INLINE void add_tile_product() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
}

/** Rows of A at a constant distance, in steps at a constant distance. */
struct StridedRows {
  const char* data;
  std::int64_t row_bytes, step_bytes;

  template <int kTile> const char* at(std::int64_t step) const {
    return data + step * step_bytes + kTile * kTileRows * row_bytes;
  }
  template <int> std::int64_t stride() const { return row_bytes; }
};

/** Rows of A at the places of a convolution. Those of a tile that are not equally far from each
 *  other are copied. */
template <class E> struct OffsetRows {
  OffsetRows(const E* x, const std::int64_t* offsets, TileRows counts, const std::int64_t* steps)
      : data(x),
        step_offsets(steps),
        tiles{Tile(offsets, counts.first), Tile(offsets + counts.first, counts.second)} {}

  template <int kTile> const char* at(std::int64_t step) const {
    const Tile& tile = tiles[kTile];
    const E* from = data + step_offsets[step];
    if (tile.is_even) return reinterpret_cast<const char*>(from + tile.offsets[0]);
    for (int i = 0; i < tile.count; ++i) copies[kTile][i] = from[tile.offsets[i]];
    return reinterpret_cast<const char*>(copies[kTile]);
  }
  template <int kTile> std::int64_t stride() const {
    return tiles[kTile].stride * static_cast<std::int64_t>(sizeof(E));
  }

  struct Tile {
    Tile(const std::int64_t* of_rows, int rows) : offsets(of_rows), count(rows) {
      if (count > 1) stride = offsets[1] - offsets[0];
      for (int i = 2; i < count; ++i) is_even = is_even && offsets[i] - offsets[i - 1] == stride;
      if (!is_even) stride = 1;
    }
    const std::int64_t* offsets;
    int count;
    bool is_even = true;
    std::int64_t stride = 1;
  };

  const E* data;
  const std::int64_t* step_offsets;
  Tile tiles[2];
  mutable E copies[2][kTileRows];
};

/** Loads of a step of lines: tile `kTile` of A, and of B, from their rows. */
template <int kTile> MZ_ALWAYS_INLINE void load_rows(const char* rows, std::int64_t row_bytes) {
  load_tile<kA + kTile>(rows, row_bytes);
}
template <int kTile> MZ_ALWAYS_INLINE void load_columns(const char* columns) {
  load_tile<kB + kTile>(columns, kRowBytes);
}

/** Adds the product of tile i of A and tile j of B to their sums. */
template <int i, int j> MZ_ALWAYS_INLINE void add_tiles() {
  add_tile_product<kSums + 2 * i + j, kA + i, kB + j>();
}

/** Adds the products of a step of bf16. Each load is followed by products that do not need it. */
template <int kRowTiles, int kVectors>
MZ_ALWAYS_INLINE void add_step(const char* const (&a)[2], const std::int64_t (&a_stride)[2],
                               const char* b) {
  load_columns<0>(b);
  load_rows<0>(a[0], a_stride[0]);
  add_tiles<0, 0>();
  if constexpr (kVectors == 2) {
    load_columns<1>(b + kTileBytes);
    add_tiles<0, 1>();
  }
  if constexpr (kRowTiles == 2) {
    load_rows<1>(a[1], a_stride[1]);
    add_tiles<1, 0>();
    if constexpr (kVectors == 2) add_tiles<1, 1>();
  }
}

/** Adds the products of a step of f16 by parts: high x high, low x high, low x low, high x low. */
template <int kRowTiles, int kVectors>
MZ_ALWAYS_INLINE void add_step_of_parts(const char* const (&a)[2],
                                        const std::int64_t (&a_stride)[2], const char* b) {
  constexpr std::int64_t kLow = kRowBytes, kLowTile = kTileBytes, kTiles = 2 * kTileBytes;
  add_step<kRowTiles, 1>(a, a_stride, b);
  if constexpr (kVectors == 2) {
    load_columns<1>(b + kTiles);
    add_tiles<0, 1>();
    if constexpr (kRowTiles == 2) add_tiles<1, 1>();
  }
  const auto add_rows = [&](std::int64_t part) {
    load_rows<0>(a[0] + part, a_stride[0]);
    add_tiles<0, 0>();
    if constexpr (kVectors == 2) add_tiles<0, 1>();
    if constexpr (kRowTiles == 2) {
      load_rows<1>(a[1] + part, a_stride[1]);
      add_tiles<1, 0>();
      if constexpr (kVectors == 2) add_tiles<1, 1>();
    }
  };
  add_rows(kLow);
  load_columns<0>(b + kLowTile);
  add_tiles<0, 0>();
  if constexpr (kRowTiles == 2) add_tiles<1, 0>();
  if constexpr (kVectors == 2) {
    load_columns<1>(b + kTiles + kLowTile);
    add_tiles<0, 1>();
    if constexpr (kRowTiles == 2) add_tiles<1, 1>();
  }
  add_rows(0);
}

template <class E, int kRowTiles, int kVectors, class Rows>
void multiply_by_tiles(TileRows rows, std::int64_t depth, const Rows& a, const char* b,
                       std::int64_t b_step, float* c, std::int64_t c_stride, bool accumulate) {
  configure_tiles(rows);
  const std::int64_t c_bytes = c_stride * 4;
  float* const lower = c + rows.first * c_stride;
  if (accumulate) {
    load_tile<kSums>(c, c_bytes);
    if constexpr (kVectors == 2) load_tile<kSums + 1>(c + kTileRows, c_bytes);
    if constexpr (kRowTiles == 2) load_tile<kSums + 2>(lower, c_bytes);
    if constexpr (kRowTiles == 2 && kVectors == 2) load_tile<kSums + 3>(lower + kTileRows, c_bytes);
  } else {
    zero_tile<kSums>();
    if constexpr (kVectors == 2) zero_tile<kSums + 1>();
    if constexpr (kRowTiles == 2) zero_tile<kSums + 2>();
    if constexpr (kRowTiles == 2 && kVectors == 2) zero_tile<kSums + 3>();
  }
  const std::int64_t strides[2] = {a.template stride<0>(),
                                   kRowTiles == 2 ? a.template stride<kRowTiles - 1>() : 0};
  for (std::int64_t step = 0; step < depth; ++step, b += b_step) {
    const char* at[2] = {a.template at<0>(step),
                         kRowTiles == 2 ? a.template at<kRowTiles - 1>(step) : nullptr};
    if constexpr (std::is_same_v<E, BFloat16Line>)
      add_step<kRowTiles, kVectors>(at, strides, b);
    else
      add_step_of_parts<kRowTiles, kVectors>(at, strides, b);
  }
  store_tile<kSums>(c, c_bytes);
  if constexpr (kVectors == 2) store_tile<kSums + 1>(c + kTileRows, c_bytes);
  if constexpr (kRowTiles == 2) store_tile<kSums + 2>(lower, c_bytes);
  if constexpr (kRowTiles == 2 && kVectors == 2) store_tile<kSums + 3>(lower + kTileRows, c_bytes);
}

// ---- the model ----------------------------------------------------------------------------------

using Lanes = Simd<float>;

/** Returns sum + (the products of a row of a tile of A with 16 columns): TDPBF16PS. Subnormals
 *  count as zero if the thread's mode says so. */
MZ_ALWAYS_INLINE Lanes::V add_row_product(const char* a, const char* b, Lanes::V sum) {
  Lanes::V even{}, odd{};
  for (int pair = 0; pair < kTileRows; ++pair) {
    std::uint32_t factors;
    std::memcpy(&factors, a + 4 * pair, sizeof factors);
    const __m512i left = _mm512_set1_epi32(static_cast<int>(factors)),
                  right = _mm512_loadu_si512(b + pair * kRowBytes),
                  high = _mm512_set1_epi32(static_cast<int>(0xFFFF0000));
    even = Lanes::fma((Lanes::V)_mm512_slli_epi32(left, 16), (Lanes::V)_mm512_slli_epi32(right, 16),
                      even);
    odd = Lanes::fma((Lanes::V)_mm512_and_si512(left, high),
                     (Lanes::V)_mm512_and_si512(right, high), odd);
  }
  return sum + (even + odd);
}

/** Computes one tile of sums, of which `rows` rows count. */
template <class E, int kTile, class Rows>
__attribute__((noinline)) void model_tile(int rows, std::int64_t depth, const Rows& a,
                                          const char* b, std::int64_t b_step, float* c,
                                          std::int64_t c_stride, bool accumulate) {
  for (int i = 0; i < rows; ++i)
    if (!accumulate) Lanes::store(c + i * c_stride, Lanes::V{});
  for (std::int64_t step = 0; step < depth; ++step, b += b_step) {
    const char* left = a.template at<kTile>(step);
    for (int i = 0; i < rows; ++i, left += a.template stride<kTile>()) {
      Lanes::V sum = Lanes::load(c + i * c_stride);
      if constexpr (std::is_same_v<E, BFloat16Line>) {
        sum = add_row_product(left, b, sum);
      } else {
        const char *low = left + kRowBytes, *low_b = b + kTileBytes;
        sum = add_row_product(left, b, sum);
        sum = add_row_product(low, b, sum);
        sum = add_row_product(low, low_b, sum);
        sum = add_row_product(left, low_b, sum);
      }
      Lanes::store(c + i * c_stride, sum);
    }
  }
}

template <class E, class Rows>
void multiply_by_model(TileRows rows, int vectors, std::int64_t depth, const Rows& a, const char* b,
                       std::int64_t b_step, float* c, std::int64_t c_stride, bool accumulate) {
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | kFlushToZero | kDenormalsAreZero);
  constexpr std::int64_t kParts = sizeof(E) / kRowBytes;
  for (int j = 0; j < vectors; ++j) {
    const char* tile = b + j * kParts * kTileBytes;
    model_tile<E, 0>(rows.first, depth, a, tile, b_step, c + j * kTileRows, c_stride, accumulate);
    if (rows.second > 0)
      model_tile<E, 1>(rows.second, depth, a, tile, b_step,
                       c + rows.first * c_stride + j * kTileRows, c_stride, accumulate);
  }
  _mm_setcsr(mode);
}

template <class E, class Rows>
void multiply(TileRows rows, int vectors, std::int64_t depth, const Rows& a, const E* b,
              std::int64_t b_step, float* c, std::int64_t stride, bool accumulate) {
  const char* columns = reinterpret_cast<const char*>(b);
  const auto b_bytes = b_step * static_cast<std::int64_t>(sizeof(E));
  if (models_tiles())
    return multiply_by_model<E>(rows, vectors, depth, a, columns, b_bytes, c, stride, accumulate);
  const auto run =
      rows.second > 0
          ? (vectors == 2 ? &multiply_by_tiles<E, 2, 2, Rows> : &multiply_by_tiles<E, 2, 1, Rows>)
          : (vectors == 2 ? &multiply_by_tiles<E, 1, 2, Rows> : &multiply_by_tiles<E, 1, 1, Rows>);
  run(rows, depth, a, columns, b_bytes, c, stride, accumulate);
}

/** Returns the rows of tiles of a block; the first tile has at most `most`. */
TileRows tile_rows(int rows, int most = kTileRows) {
  const int first = std::min(rows, most);
  return {first, rows - first};
}

/** Returns x, which the compiler must have in a register of its own. Two numbers that the caller
 * has just stored must not be loaded as one vector: such a load waits until all stores before it
 * have reached the cache, those of tiles too. */
MZ_ALWAYS_INLINE std::int64_t apart(std::int64_t x) {
  asm("" : "+r"(x));
  return x;
}

template <class E> StridedRows strided(const BlockRows<E>& a) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(E));
  const std::int64_t row = apart(a.row), step = apart(a.step);
  return {reinterpret_cast<const char*>(a.data), row * kBytes, step * kBytes};
}

}  // namespace

void release_tiles() {
  if (configured == TileRows{}) return;
  asm volatile("tilerelease");
  configured = {};
}

template <>
void multiply_block(int rows, int vectors, std::int64_t depth, const BlockRows<BFloat16Line>& a,
                    const BlockColumns<BFloat16Line>& b, float* c, std::int64_t stride,
                    bool accumulate) {
  multiply(tile_rows(rows), vectors, depth, strided(a), b.data, b.step, c, stride, accumulate);
}
template <>
void multiply_block(int rows, int vectors, std::int64_t depth, const BlockRows<HalfLine>& a,
                    const BlockColumns<HalfLine>& b, float* c, std::int64_t stride,
                    bool accumulate) {
  multiply(tile_rows(rows), vectors, depth, strided(a), b.data, b.step, c, stride, accumulate);
}

namespace {

/** A block of more than 16 rows has two tiles of equal height. */
template <class E>
void multiply_at_offsets(OffsetBlock block, int vectors, std::int64_t depth,
                         const std::int64_t* steps, const E* x, const std::int64_t* rows,
                         const E* b, float* c, bool accumulate) {
  constexpr std::int64_t kStride = RegisterBlock<E>::kColumns;
  const TileRows tiles =
      tile_rows(block.valid, block.full > kTileRows ? (block.full + 1) / 2 : kTileRows);
  multiply(tiles, vectors, depth, OffsetRows<E>(x, rows, tiles, steps), b,
           vectors * RegisterBlock<E>::kLanes, c, kStride, accumulate);
}

}  // namespace

template <>
void multiply_offsets(OffsetBlock block, int vectors, std::int64_t depth, const std::int64_t* steps,
                      const BFloat16Line* x, const std::int64_t* rows, const BFloat16Line* b,
                      float* c, bool accumulate) {
  multiply_at_offsets(block, vectors, depth, steps, x, rows, b, c, accumulate);
}
template <>
void multiply_offsets(OffsetBlock block, int vectors, std::int64_t depth, const std::int64_t* steps,
                      const HalfLine* x, const std::int64_t* rows, const HalfLine* b, float* c,
                      bool accumulate) {
  multiply_at_offsets(block, vectors, depth, steps, x, rows, b, c, accumulate);
}

}  // namespace mezzo::cpu_kernels

#endif
