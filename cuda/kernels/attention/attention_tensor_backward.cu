// The CUDA kernels of attention's gradients on Tensor Cores. As in attention_backward.cu,
// probabilities are recomputed from the saved logarithms, and a block owns rows of gradients and
// iterates over all contributions to them. A block that owns keys computes both of their gradients.
//
// The gradient of a score, p (dP - offset), has the range of dP, which is a sum of products. In f16
// it may overflow or underflow although the gradient that it contributes to does neither. The
// gradients of a tile's strip are therefore divided by a power of two that follows the largest of
// them, so that they are below 2^15, and their products with the other operand are multiplied by it
// in f32. Gradients overflow where the CPU's do, in the last rounding. Only values below 2^-39 of
// the largest in the strip underflow.
#include "attention_tensor.h"

namespace mezzo::gpu {

namespace {

/** Sizes of a block's tiles, for rows of up to kWidth elements. A block owns kOwned rows and
 *  multiplies them with kMet rows at a time. `kSplit` warps share a strip of 16 owned rows: each
 *  has some columns of the scores and some of the results. */
template <int kWidth> struct BackwardTile {
  static constexpr int kOwned = kWidth > 64 ? 32 : 64, kMet = 32;
  static constexpr int kStrips = kOwned / kPatch, kSplit = kTensorWarps / kStrips;
  static constexpr int kPatches = kMet / kPatch / kSplit,
                       kResults = kWidth / kPatch / kSplit;          // of a warp
  static constexpr int kColumns = kPatches * kPatch;                 // of the scores, per warp
  static constexpr int kPitch = kWidth + 8, kScorePitch = kMet + 4;  // see attention_tensor.cu
};

/** A power of two; numbers of up to the given size are below 2^15 times it. */
struct Unit {
  float value, inverse;

  __device__ explicit Unit(float greatest) {
    constexpr std::uint32_t kOne = 127, kMantissaBits = 23;
    const std::uint32_t exponent = mezzo::detail::bits_as<std::uint32_t>(greatest) >> kMantissaBits;
    const std::uint32_t unit = exponent > 14 ? exponent - 14 : 1;
    value = mezzo::detail::bits_as<float>(unit << kMantissaBits);
    inverse = mezzo::detail::bits_as<float>((2 * kOne - unit) << kMantissaBits);
  }
};

struct TensorGradients {
  AttentionCall call;
  TileOperand q, k, v, g;
  AttentionGiven<float> given;
  TileResult dq, dk, dv;
  std::int64_t query_tiles, key_tiles, first_key_block;
};

/** Shared memory of a block. */
template <class T> struct BackwardRooms {
  T *owned, *owned_values, *met, *met_values;
  float *scores, *slopes;     // of the strips; reused for the two parts of p and of the scores'
                              // gradients
  float *log_sums, *offsets;  // of the queries of the tile
  float* greatest;            // of each warp
};

/** A block's work on rows of dq (kByQuery), or of dk and dv. */
template <class T, int kWidth, bool kByQuery> struct BackwardBlock {
  using Tile = BackwardTile<kWidth>;
  static constexpr int kPitch = Tile::kPitch, kScorePitch = Tile::kScorePitch,
                       kWeightsPitch = 2 * kScorePitch;
  // scale by Unit; bf16 has the range of f32
  static constexpr bool kCounts = std::is_same_v<T, Half>;
  const TensorGradients& all;
  const BackwardRooms<T>& room;
  std::int64_t entry, first_owned;
  int warp = static_cast<int>(threadIdx.x) / kWarpSize,
      lane = static_cast<int>(threadIdx.x) % kWarpSize;
  int strip = warp % Tile::kStrips, part = warp / Tile::kStrips;
  using Own = LaneScores<Tile::kColumns>;
  Own own = {};
  float* strip_scores = room.scores + strip * kPatch * kScorePitch;
  float* strip_slopes = room.slopes + strip * kPatch * kScorePitch;

  /** Synchronises the warps of a strip. */
  static __device__ void sync_strip() {
    if constexpr (Tile::kSplit == 1)
      __syncwarp();
    else
      __syncthreads();
  }

  __device__ void load_statistics(std::int64_t first, int count) const {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kTensorThreads) {
      const bool inside = first + i < all.call.queries;
      const std::int64_t at = entry * all.call.queries + first + i;
      room.log_sums[i] = inside ? all.given.log_sums[at] : std::numeric_limits<float>::infinity();
      room.offsets[i] = inside ? all.given.offsets[at] : 0.0f;
    }
  }

  /** Computes the products of the strip's rows with the warp's patches of `met`, a tile of the
   * other operand's rows. */
  __device__ void multiply(const T* owned, const T* met, int patches, int depth, float* to) const {
    const int first = part * Tile::kPatches;
    if (first >= patches) return;
    SumPatch sums[Tile::kPatches];
    add_patch_products(sums, patches - first, owned + strip * kPatch * kPitch,
                       met + first * kPatch * kPitch, kPitch, depth);
#pragma unroll
    for (int i = 0; i < Tile::kPatches; ++i)
      if (first + i < patches) store_patch(to + (first + i) * kPatch, sums[i], kScorePitch);
  }

  /** Stores the gradients of the lane's scores as those of the mask. They pass through shared
   *  memory, so that the loop need not be unrolled. */
  template <class Place>
  __device__ void store_mask_gradient(const float (&slope)[Own::kCount], const Place& place) const {
    float* const from = strip_slopes + part * Tile::kColumns;
#pragma unroll
    for (int i = 0; i < Own::kCount; ++i) from[own.row(i) * kScorePitch + own.column(i)] = slope[i];
#pragma unroll 1
    for (int i = 0; i < Own::kCount; ++i) {
      const ScorePlace at = place(own.row(i), own.column(i));
      if (at.inside)
        all.given.dmask.store<float>((entry * all.call.queries + at.query) * all.call.keys + at.key,
                                     from[own.row(i) * kScorePitch + own.column(i)]);
    }
  }

  /** Converts the lane's scores and slopes into probabilities, with dropped ones set to 0, and
   *  gradients of scores; stores both to shared memory in two parts. All threads must call it. */
  __device__ Unit weigh(std::int64_t first_met, int patches, std::int64_t mask_offset) const {
    const AttentionCall& call = all.call;
    const float kept = call.drops ? static_cast<float>(call.kept) : 1.0f;
    const int first_column = part * Tile::kColumns;
    float* const scores = strip_scores + first_column;
    const auto place = [&](int row, int column) {
      const std::int64_t r = first_owned + strip * kPatch + row,
                         c = first_met + first_column + column;
      const std::int64_t query = kByQuery ? r : c, key = kByQuery ? c : r;
      return ScorePlace{
          first_column + column < patches * kPatch && query < call.queries && key < call.keys,
          query, key};
    };
    const std::uint32_t left =
        prepare_scores(call, entry, mask_offset, own, scores, kScorePitch, place);
    float p[Own::kCount], slope[Own::kCount], greatest = 0;
#pragma unroll
    for (int i = 0; i < Own::kCount; ++i) {
      p[i] = slope[i] = 0;
      const int r = own.row(i), c = own.column(i),
                query_row = kByQuery ? strip * kPatch + r : first_column + c;
      const ScorePlace at = place(r, c);
      if (!at.inside) continue;
      const float score = prepared(call, scores[r * kScorePitch + c], at);
      const float probability = math::exp(score - room.log_sums[query_row]);
      const bool stays = left >> i & 1;
      p[i] = probability * (stays ? 1.0f : 0.0f);
      const float product = strip_slopes[r * kScorePitch + first_column + c];
      slope[i] = probability * (product * (stays ? kept : 0.0f) - room.offsets[query_row]);
      const float size = std::fabs(slope[i]);
      if (size > greatest && size < std::numeric_limits<float>::infinity()) greatest = size;
    }
    if (kByQuery && all.given.dmask.data) store_mask_gradient(slope, place);
    if constexpr (kCounts) {
      for (int step = kWarpSize / 2; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(kAllLanes, greatest, step);
        greatest = other > greatest ? other : greatest;
      }
      if (Tile::kSplit > 1 && lane == 0) room.greatest[warp] = greatest;
    }
    sync_strip();  // all scores and slopes have been read
    if constexpr (kCounts && Tile::kSplit > 1) {
      const float other = room.greatest[(warp + Tile::kStrips) % kTensorWarps];
      greatest = other > greatest ? other : greatest;
    }
    const Unit unit(greatest);
    T* const weights = reinterpret_cast<T*>(strip_scores);
    T* const slopes = reinterpret_cast<T*>(strip_slopes);
#pragma unroll
    for (int i = 0; i < Own::kCount; ++i) {
      const int at = own.row(i) * kWeightsPitch + first_column + own.column(i);
      if (!kByQuery)
        store_split(weights + at, weights + at + Tile::kMet, p[i] * kProbabilityUnits<T>);
      store_split(slopes + at, slopes + at + Tile::kMet,
                  kCounts ? slope[i] * unit.inverse : slope[i]);
    }
    sync_strip();
    return unit;
  }

  /** Stores the warp's patches of sums to rows of a gradient. */
  __device__ void store(const SumPatch (&sums)[Tile::kResults], const TileResult& to,
                        std::int64_t owned, float factor) const {
    float* const scratch = part == 0 ? strip_scores : strip_slopes;
    const std::int64_t first = first_owned + strip * kPatch,
                       begin = all.call.offset(to.x, entry) + first * to.x.row;
#pragma unroll
    for (int i = 0; i < Tile::kResults; ++i) {
      const int j = part + i * Tile::kSplit;
      if (j >= patches_in(to.columns)) continue;
      store_patch(scratch, sums[i], kScorePitch);
      __syncwarp();
      to.store_patch<T>(scratch, kScorePitch, begin, owned - first, j * kPatch,
                        [&](int, float x) { return x * factor; });
      __syncwarp();
    }
  }

  __device__ void run() const {
    const AttentionCall& call = all.call;
    const TileOperand &rows = kByQuery ? all.q : all.k, &row_values = kByQuery ? all.g : all.v;
    const TileOperand &others = kByQuery ? all.k : all.q, &other_values = kByQuery ? all.v : all.g;
    const std::int64_t others_offset = call.offset(others.x, entry),
                       values_offset = call.offset(other_values.x, entry);
    const std::int64_t mask_offset = call.offset(call.mask, entry);
    const int features = patches_in(call.features), values = patches_in(call.values);
    rows.load_tile(call.offset(rows.x, entry), first_owned, Tile::kOwned, room.owned, kPitch);
    row_values.load_tile(call.offset(row_values.x, entry), first_owned, Tile::kOwned,
                         room.owned_values, kPitch);
    if (kByQuery) load_statistics(first_owned, Tile::kOwned);
    SumPatch results[Tile::kResults], value_results[Tile::kResults];
    const bool has_rows = first_owned + strip * kPatch < rows.rows;
    const std::int64_t begin = call.is_causal && !kByQuery ? first_owned : 0;
    const std::int64_t end = call.is_causal && kByQuery && first_owned + Tile::kOwned < others.rows
                                 ? first_owned + Tile::kOwned
                                 : others.rows;
    for (std::int64_t first = begin; first < end; first += Tile::kMet) {
      __syncthreads();  // the previous rows and weights are no longer needed
      others.load_tile(others_offset, first, Tile::kMet, room.met, kPitch);
      other_values.load_tile(values_offset, first, Tile::kMet, room.met_values, kPitch);
      if (!kByQuery) load_statistics(first, Tile::kMet);
      __syncthreads();
      const int patches = !has_rows                  ? 0
                          : end - first < Tile::kMet ? patches_in(end - first)
                                                     : Tile::kMet / kPatch;
      multiply(room.owned, room.met, patches, features, strip_scores);
      multiply(room.owned_values, room.met_values, patches, values, strip_slopes);
      __syncwarp();
      const Unit unit = weigh(first, patches, mask_offset);
      const T* const weights = reinterpret_cast<const T*>(strip_scores);
      const T* const slopes = reinterpret_cast<const T*>(strip_slopes);
      const auto add = [&](SumPatch(&sums)[Tile::kResults], int count, const T* factors,
                           const T* x) {
        add_weighted_patches(sums, part, Tile::kSplit, count, factors, factors + Tile::kMet,
                             kWeightsPitch, patches, x, kPitch);
      };
      if constexpr (kCounts) {
        SumPatch sums[Tile::kResults];
        add(sums, features, slopes, room.met);
#pragma unroll
        for (int i = 0; i < Tile::kResults; ++i) results[i].add(sums[i], unit.value);
      } else {
        add(results, features, slopes, room.met);
      }
      if constexpr (!kByQuery) add(value_results, values, weights, room.met_values);
    }
    __syncthreads();
    store(results, kByQuery ? all.dq : all.dk, rows.rows, static_cast<float>(call.scale));
    if (!kByQuery)
      store(value_results, all.dv, rows.rows,
            static_cast<float>(call.drops ? call.kept : 1.0) / kProbabilityUnits<T>);
  }
};

template <class T, int kWidth>
__global__ void __launch_bounds__(kTensorThreads, 3)
    gradients_kernel(const TensorGradients __grid_constant__ all) {
  if constexpr (kHasTensorCores<T>) {
    using Tile = BackwardTile<kWidth>;
    MZ_SHARED(SharedPiece, owned, shared_pieces<T>(Tile::kOwned, Tile::kPitch));
    MZ_SHARED(SharedPiece, owned_values, shared_pieces<T>(Tile::kOwned, Tile::kPitch));
    MZ_SHARED(SharedPiece, met, shared_pieces<T>(Tile::kMet, Tile::kPitch));
    MZ_SHARED(SharedPiece, met_values, shared_pieces<T>(Tile::kMet, Tile::kPitch));
    MZ_SHARED(SharedPiece, scores, shared_pieces<float>(Tile::kOwned, Tile::kScorePitch));
    MZ_SHARED(SharedPiece, slopes, shared_pieces<float>(Tile::kOwned, Tile::kScorePitch));
    MZ_SHARED(float, log_sums, Tile::kOwned);
    MZ_SHARED(float, offsets, Tile::kOwned);
    MZ_SHARED(float, greatest, kTensorWarps);
    const BackwardRooms<T> room{.owned = reinterpret_cast<T*>(owned),
                                .owned_values = reinterpret_cast<T*>(owned_values),
                                .met = reinterpret_cast<T*>(met),
                                .met_values = reinterpret_cast<T*>(met_values),
                                .scores = reinterpret_cast<float*>(scores),
                                .slopes = reinterpret_cast<float*>(slopes),
                                .log_sums = log_sums,
                                .offsets = offsets,
                                .greatest = greatest};
    std::int64_t block = blockIdx.x;
    if (block < all.first_key_block) {
      BackwardBlock<T, kWidth, true>{all, room, block / all.query_tiles,
                                     block % all.query_tiles * Tile::kOwned}
          .run();
    } else {
      block -= all.first_key_block;
      BackwardBlock<T, kWidth, false>{all, room, block / all.key_tiles,
                                      block % all.key_tiles * Tile::kOwned}
          .run();
    }
  }
}

}  // namespace

void attention_backward_on_tensor_cores(const AttentionCall& call,
                                        const AttentionGiven<float>& given,
                                        const AttentionOperand& dq, const AttentionOperand& dk,
                                        const AttentionOperand& dv, Device device) {
  const DType dtype = call.q.dtype;
  visit_tensor_tile(
      dtype, std::max(call.features, call.values),
      [&]<class T, int kWidth>(std::type_identity<T>, std::integral_constant<int, kWidth>) {
        constexpr int kOwned = BackwardTile<kWidth>::kOwned;
        TensorGradients all{.call = call,
                            .q = TileOperand(call.q, call.queries, call.features),
                            .k = TileOperand(call.k, call.keys, call.features),
                            .v = TileOperand(call.v, call.keys, call.values),
                            .g = TileOperand(given.g, call.queries, call.values),
                            .given = given,
                            .dq = TileResult(dq, dtype, call.features),
                            .dk = TileResult(dk, dtype, call.features),
                            .dv = TileResult(dv, dtype, call.values),
                            .query_tiles = blocks_for(call.queries, kOwned),
                            .key_tiles = blocks_for(call.keys, kOwned),
                            .first_key_block = 0};
        all.first_key_block = call.entries * all.query_tiles;
        launch(&gradients_kernel<T, kWidth>,
               {.blocks = all.first_key_block + call.entries * all.key_tiles,
                .threads = kTensorThreads},
               current_stream(device), all);
      });
}

}  // namespace mezzo::gpu
