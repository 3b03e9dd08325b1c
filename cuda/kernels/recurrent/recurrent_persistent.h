// Recurrent layers in one launch for all steps, on Tensor Cores.
//
// The blocks of a cooperative launch keep their part of the recurrent weights in registers. A block
// computes some units (a slice) of some sequences (a group, in tiles of 16). At each step the
// blocks of a group exchange h, or the gradients of the gates, through the GPU's cache, and wait
// for each other once. Sums have a fixed order, so the bits are the same in every run.
#pragma once

#include "../tensor_core.h"
#include "group_barrier.h"
#include "persistent_plan.h"
#include "recurrent.h"

namespace mezzo::gpu {

inline constexpr int kPersistentThreads = kPersistentWarps * kWarpSize;
static_assert(kUnitsOfPatch == kPatch && kPlannedLines == kFlagLines &&
              kPlannedFlags == kLineFlags);

/** Returns true if run_persistent() serves a layer. `projects`: h has a projection, which is not
 *  supported. */
bool persists(const op::RecurrentAttrs& attrs, const Tensor& x, std::int64_t hidden, bool projects);

/** Arrays of a forward pass; the layouts are those of LayerForward. */
struct PersistentForward {
  Tensor weights, h, c, y;  // c: of an LSTM
  float *gates = nullptr, *extra = nullptr;
  const float* apart = nullptr;
};
/** Runs all steps of a layer without a projection in one launch. Returns false, without having done
 *  anything, for a layer that does not fit or is predicted to be faster step by step. Errors:
 *  CudaError, OutOfMemory. */
bool run_persistent(op::CellKind kind, const Sequences& sequences, const PersistentForward& arrays);

/** Arrays of a backward pass; the layouts are those of LayerBackward. */
struct PersistentBackward {
  Tensor weights, y, h0, c0, gy, gh, gc, input_gates, hidden_gates, h_before;
  const float *gates = nullptr, *extra = nullptr;
};
/** The same for the gradients. */
bool run_persistent_backward(op::CellKind kind, const Sequences& sequences,
                             const PersistentBackward& arrays);

// ---- parts of the kernels -----------------------------------------------------------------------

/** What the kernels know of a layer's sequences and blocks. */
struct PersistentLayout {
  int steps, batch, hidden, depth, slices, tiles, all_tiles;
  bool reverse, relu;
  const std::int64_t *order, *actives, *offsets;  // null: all sequences have all steps
  unsigned* flags;
  int group_flags;  // from a group's flags to those of the next

  PersistentLayout(op::CellKind kind, const Sequences& sequences, const PersistentSizes& sizes,
                   const PersistentPlan& plan, Device device)
      : steps(static_cast<int>(sizes.steps)),
        batch(static_cast<int>(sizes.batch)),
        hidden(static_cast<int>(sizes.hidden)),
        depth(static_cast<int>(sizes.depth())),
        slices(plan.slices),
        tiles(plan.tiles),
        all_tiles(plan.groups * plan.tiles),
        reverse(sequences.time(0) != 0),
        relu(kind == op::CellKind::rnn_relu),
        order(sequences.order),
        actives(sequences.actives),
        offsets(sequences.offsets),
        flags(gpu::flags(device)),
        group_flags(static_cast<int>(PersistentSizes::flag_lines(plan.slices)) * kLineFlags) {}

  __device__ int time(int k) const { return reverse ? steps - 1 - k : k; }
  __device__ int active(int at) const { return actives ? static_cast<int>(actives[at]) : batch; }
  __device__ int offset(int at) const {
    return offsets ? static_cast<int>(offsets[at]) : at * batch;
  }
  __device__ int sequence(int i) const { return order ? static_cast<int>(order[i]) : i; }
  __device__ int slice() const { return static_cast<int>(blockIdx.x) % slices; }
  __device__ int first_tile() const { return static_cast<int>(blockIdx.x) / slices * tiles; }
  __device__ GroupBarrier barrier() const {
    return {flags + static_cast<int>(blockIdx.x) / slices * group_flags,
            static_cast<unsigned>(slices), static_cast<unsigned>(slice())};
  }
};

/** Two buffers of numbers that blocks exchange, used in turns: patches of 16 x 16, those of a tile
 *  one after the other, each in the order in which lanes load it. */
template <class T> struct Exchange {
  T* data;
  int patches;  // per tile
  int all_tiles;

  static std::int64_t elements(int patches, int all_tiles) {
    return std::int64_t{2} * patches * all_tiles * kPatch * kPatch;
  }
  __device__ T* patch(int turn, int tile, int number) const {
    return data +
           (((turn & 1) * all_tiles + tile) * patches + number) * std::int64_t{kPatch * kPatch};
  }
  /** Returns the elements from a patch to that of the next tile. */
  __device__ std::int64_t tile_step() const { return patches * std::int64_t{kPatch * kPatch}; }
};

/** w_hh, row-major. Elements beyond the units are zeros. */
template <class T> struct RecurrentWeights {
  RecurrentWeights(const void* its_data, int its_hidden)
      : data(static_cast<const T*>(its_data)),
        hidden(its_hidden),
        in_pairs(its_hidden % 2 == 0 && reinterpret_cast<std::uintptr_t>(its_data) % 4 == 0) {}

  const T* data;
  int hidden;
  bool in_pairs;  // elements at even places of a row begin at multiples of 4 bytes

  /** Returns elements j, which is even, and j + 1 of a row, in the halves of a word. */
  __device__ std::uint32_t pair(int gate, int unit, int j) const {
    if (!in_pairs) return bits(gate, unit, j) | bits(gate, unit, j + 1) << 16;
    if (unit >= hidden || j >= hidden) return 0u;
    const auto two =
        *reinterpret_cast<const Pack<T, 2>*>(data + (gate * hidden + unit) * hidden + j);
    return two.item[0].bits | std::uint32_t{two.item[1].bits} << 16;
  }
  __device__ std::uint32_t bits(int gate, int unit, int j) const {
    const bool exists = unit < hidden && j < hidden;
    return exists ? data[(gate * hidden + unit) * hidden + j].bits : 0u;
  }
};

/** Returns the sum of the numbers at `place` in the strips of all warps, which are `strip` numbers
 *  apart. */
__device__ __forceinline__ float sum_of_warps(const float* strips, int strip, int place) {
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kPersistentWarps; ++warp) sum += strips[warp * strip + place];
  return sum;
}

/** Elements from a warp's patch to its next one. */
inline constexpr int kExchangeStep = kPersistentWarps * kPatch * kPatch;

/** Calls f<T, gates, depth>() for the kernel of a layer of 16-bit numbers. */
template <class F> void visit_persistent(DType dtype, const PersistentSizes& sizes, const F& f) {
  const auto with_depth = [&]<class T, int kGates>() {
    if (sizes.warp_depth() == kMostDepth) return f.template operator()<T, kGates, kMostDepth>();
    f.template operator()<T, kGates, kMostDepth / 2>();
  };
  const auto with_gates = [&]<class T>() {
    if (sizes.gates == 4) return with_depth.template operator()<T, 4>();
    if (sizes.gates == 3) return with_depth.template operator()<T, 3>();
    with_depth.template operator()<T, 1>();
  };
  if (dtype == DType::f16) return with_gates.template operator()<Half>();
  with_gates.template operator()<BFloat16>();
}

/** Returns the floats from one row of sums to the next, for a row of whole patches. A warp reads
 * two rows at once, which begin 16 banks apart. */
constexpr int sum_pitch(int patches) { return (patches | 1) * kPatch; }

/** Returns true if the kernels support a dtype on a device. */
bool supports_persistent(DType dtype, Device device);

}  // namespace mezzo::gpu
