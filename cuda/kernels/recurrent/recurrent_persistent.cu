// The forward pass of recurrent layers in one launch for all steps.
#include "recurrent_persistent.h"

#include "../../../tensor/ops/recurrent/recurrent_formulas_cpu.h"
#include "../../runtime/device.h"

namespace mezzo::gpu {

namespace {

using namespace cpu_kernels;
using op::CellKind;

template <class T> struct ForwardCall {
  PersistentLayout layout;
  RecurrentWeights<T> weights;
  Exchange<T> exchange;
  T *h, *y;
  float *c, *gates, *extra;
  const float* apart;
};

/** The element of a thread in each tile: a unit of the block's, of one sequence of the tile. */
template <class T> struct Element {
  const ForwardCall<T>& call;
  int thread, row, column, slice, first_tile, unit;

  __device__ __forceinline__ explicit Element(const ForwardCall<T>& c)
      : call(c),
        thread(static_cast<int>(threadIdx.x)),
        row(thread / kPatch),
        column(thread % kPatch),
        slice(c.layout.slice()),
        first_tile(c.layout.first_tile()),
        unit(slice * kPatch + column) {}

  __device__ __forceinline__ int sequence(int tile) const {
    return (first_tile + tile) * kPatch + row;
  }
  __device__ __forceinline__ bool exists(int tile) const {
    return sequence(tile) < call.layout.batch && unit < call.layout.hidden;
  }
  /** Returns the offset of the element in h and c. */
  __device__ __forceinline__ std::int64_t offset(int tile) const {
    return sequence(tile) * std::int64_t{call.layout.hidden} + unit;
  }
  /** Returns where the block exchanges the element of h. */
  __device__ __forceinline__ T* exchanged(int turn, int tile) const {
    return call.exchange.patch(turn, first_tile + tile, slice) + left_place(row, column);
  }
};

/** What a step computes of one unit: h, and what the gradient needs. */
template <class T, int kGates> struct Computed {
  float gate[kGates], extra;
  T h;
};

/** Computes a step of one unit. `in`: W x + b, `sums`: U h, `apart`: of a GRU. */
template <class T, int kGates>
__device__ Computed<T, kGates> advance(bool relu, float apart, const float* in, const float* sums,
                                       float before, float& c) {
  Computed<T, kGates> own;
  if constexpr (kGates == 1) {
    own.gate[0] =
        relu ? rnn_forward<float, true>(in[0], sums[0]) : rnn_forward<float, false>(in[0], sums[0]);
    own.h = element_as<T>(own.gate[0]);
  } else if constexpr (kGates == 3) {
    const GruGates<float> g = gru_forward(in[0], in[1], in[2], sums[0], sums[1], sums[2], apart);
    own.gate[0] = g.reset;
    own.gate[1] = g.update;
    own.gate[2] = g.fresh;
    own.extra = g.part;
    own.h = element_as<T>(gru_result(g, before));
  } else {
    const LstmGates<float> g = lstm_forward(in[0], in[1], in[2], sums[0], sums[1], sums[2], c);
    own.gate[0] = g.in;
    own.gate[1] = g.forget;
    own.gate[2] = g.fresh;
    own.gate[3] = lstm_out(in[3], sums[3]);
    c = element_as<float>(element_as<T>(g.c));
    own.extra = c;
    own.h = element_as<T>(lstm_result(own.gate[3], c));
  }
  return own;
}

/** Loads the weights of the block's units, eight at a time: those of the warp's patches of h. */
template <class T, int kGates, int kDepth>
__device__ __forceinline__ void load_weights(const RecurrentWeights<T>& weights, int slice,
                                             int warp, int lane,
                                             RightWords (&loaded)[kDepth][kGates][2]) {
#pragma unroll
  for (int d = 0; d < kDepth; ++d) {
    __syncwarp();  // limits how many loads are in flight, and so the registers
#pragma unroll
    for (int gate = 0; gate < kGates; ++gate)
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int of = slice * kPatch + part / 2 * 8 + right_column(lane),
                  j = (warp + d * kPersistentWarps) * kPatch + right_row(lane) + part % 2 * 8;
        loaded[d][gate][part / 2].item[part % 2] = weights.pair(gate, of, j);
      }
  }
}

/** Loads h and c before the first step. `hiddens`, `cells`: those of the thread's elements. */
template <class T>
__device__ __forceinline__ void load_states(const Element<T>& own, T* hiddens, float* cells) {
  const ForwardCall<T>& call = own.call;
  for (int tile = 0; tile < call.layout.tiles; ++tile) {
    const bool exists = own.exists(tile);
    const std::int64_t element = own.offset(tile);
    cells[tile * kPersistentThreads] = exists && call.c ? call.c[element] : 0.0f;
    const T h = exists ? call.h[element] : element_as<T>(0.0f);
    hiddens[tile * kPersistentThreads] = h;
    *own.exchanged(0, tile) = h;
  }
}

template <class T>
__device__ __forceinline__ void store_states(const Element<T>& own, const T* hiddens,
                                             const float* cells) {
  const ForwardCall<T>& call = own.call;
  for (int tile = 0; tile < call.layout.tiles; ++tile) {
    if (!own.exists(tile)) continue;
    const std::int64_t element = own.offset(tile);
    call.h[element] = hiddens[tile * kPersistentThreads];
    if (call.c) call.c[element] = cells[tile * kPersistentThreads];
  }
}

/** Loads W x + b of a step, if the element takes part in it. */
template <class T, int kGates>
__device__ __forceinline__ void load_input(const Element<T>& own, int k, int active, int tile,
                                           float (&input)[kGates]) {
  const ForwardCall<T>& call = own.call;
  const int i = own.sequence(tile);
  const std::int64_t hidden = call.layout.hidden;
  if (!own.exists(tile) || i >= active) return;
  const float* const from =
      call.gates + (call.layout.offset(call.layout.time(k)) + i) * kGates * hidden + own.unit;
#pragma unroll
  for (int gate = 0; gate < kGates; ++gate) input[gate] = from[gate * hidden];
}

/** Loads the warp's patches of h, from `from` on. */
template <class T, int kDepth>
__device__ __forceinline__ void load_patches(const T* from, int patches, LeftWords (&h)[kDepth]) {
#pragma unroll
  for (int d = 0; d < kDepth; ++d)
    if (d * kPersistentWarps < patches)
      h[d] = *reinterpret_cast<const LeftWords*>(from + d * kExchangeStep);
}

/** Multiplies the warp's patches of h by its weights, and stores the sums to its strip. All threads
 *  of a block must call it. */
template <class T, int kGates, int kDepth>
__device__ __forceinline__ void multiply(const LeftWords (&h)[kDepth], int patches,
                                         const RightWords (&weights)[kDepth][kGates][2],
                                         float* strip) {
  LaneSums sums[kGates][2];
#pragma unroll
  for (int d = 0; d < kDepth; ++d) {
    if (d * kPersistentWarps >= patches) continue;
#pragma unroll
    for (int i = 0; i < 2 * kGates; ++i)
      add_product<T>(sums[i / 2][i % 2], h[d], weights[d][i / 2][i % 2]);
  }
  __syncthreads();  // earlier sums have been read
#pragma unroll
  for (int i = 0; i < 2 * kGates; ++i)
    store_sums(strip + i * 8, sum_pitch(kGates), sums[i / 2][i % 2]);
  __syncthreads();
}

/** Computes the element of a tile at step k, and passes its h to the other blocks. `h`, `c`: its
 *  states. */
template <class T, int kGates>
__device__ __forceinline__ Computed<T, kGates> finish(const Element<T>& own, int k, int active,
                                                      int tile, float apart,
                                                      const float (&input)[kGates],
                                                      const float* all_sums, T& h, float& c) {
  constexpr int kPitch = sum_pitch(kGates);
  Computed<T, kGates> computed;
  if (own.exists(tile) && own.sequence(tile) < active) {
    float sums[kGates];
#pragma unroll
    for (int gate = 0; gate < kGates; ++gate)
      sums[gate] =
          sum_of_warps(all_sums, kPatch * kPitch, own.row * kPitch + gate * kPatch + own.column);
    computed =
        advance<T, kGates>(own.call.layout.relu, apart, input, sums, element_as<float>(h), c);
    h = computed.h;
  }
  *own.exchanged(k + 1, tile) = h;
  return computed;
}

/** Stores what finish() computed for this tile: y, and what the gradient needs. */
template <class T, int kGates>
__device__ __forceinline__ void store_step(const Element<T>& own, int time, int active, int tile,
                                           const Computed<T, kGates>& computed) {
  const ForwardCall<T>& call = own.call;
  const std::int64_t hidden = call.layout.hidden;
  const int i = own.sequence(tile);
  if (!own.exists(tile) || i >= active) return;
  const std::int64_t row = call.layout.offset(time) + i;
  float* const gates = call.gates + row * kGates * hidden + own.unit;
#pragma unroll
  for (int gate = 0; gate < kGates; ++gate) gates[gate * hidden] = computed.gate[gate];
  if (kGates > 1) call.extra[row * hidden + own.unit] = computed.extra;
  const std::int64_t y_row = std::int64_t{time} * call.layout.batch + call.layout.sequence(i);
  call.y[y_row * hidden + own.unit] = computed.h;
}

template <class T, int kGates, int kDepth>
__global__ void __launch_bounds__(kPersistentThreads, 1)
    persistent_forward_kernel(const ForwardCall<T> __grid_constant__ call) {
  if constexpr (kHasLaneProducts) {
    constexpr int kStrip = kPatch * sum_pitch(kGates);
    MZ_SHARED(float, all_sums, kPersistentWarps* kStrip);
    MZ_SHARED(float, all_cells, kMostTiles* kPersistentThreads);
    MZ_SHARED(T, all_hiddens, kMostTiles * kPersistentThreads);
    const PersistentLayout& layout = call.layout;
    const Element<T> own(call);
    const int warp = own.thread / kWarpSize, lane = own.thread % kWarpSize,
              patches = layout.depth - warp;
    float* const cells = all_cells + own.thread;
    T* const hiddens = all_hiddens + own.thread;
    RightWords weights[kDepth][kGates][2];
    load_weights(call.weights, own.slice, warp, lane, weights);
    load_states(own, hiddens, cells);
    GroupBarrier barrier = layout.barrier();
    barrier.arrive();

    const float apart = kGates == 3 && own.unit < layout.hidden ? call.apart[own.unit] : 0.0f;
    // `input` and `active` belong to this step, `early` and `next_active` to the next.
    int active = layout.active(layout.time(0)), last_active = 0;
    float input[kGates], early[kGates];
    load_input(own, 0, active, 0, input);
    Computed<T, kGates> computed;
    for (int k = 0; k < layout.steps; ++k) {
      const int next_active = k + 1 < layout.steps ? layout.active(layout.time(k + 1)) : 0;
      const T* from = call.exchange.patch(k, own.first_tile, warp) + lane * 8;
      LeftWords h[kDepth];
      barrier.wait();
      load_patches(from, patches, h);
      // What no other block waits for is done while the loads run.
      if (k > 0) store_step(own, layout.time(k - 1), last_active, layout.tiles - 1, computed);
      if (k + 1 < layout.steps) load_input(own, k + 1, next_active, 0, early);
      for (int tile = 0; tile < layout.tiles; ++tile) {
        if (tile > 0) {
          load_patches(from += call.exchange.tile_step(), patches, h);
          store_step(own, layout.time(k), active, tile - 1, computed);
          load_input(own, k, active, tile, input);
        }
        multiply<T>(h, patches, weights, all_sums + warp * kStrip);
        const int state = tile * kPersistentThreads;
        computed =
            finish(own, k, active, tile, apart, input, all_sums, hiddens[state], cells[state]);
      }
      if (k + 1 < layout.steps) barrier.arrive();
#pragma unroll
      for (int gate = 0; gate < kGates; ++gate) input[gate] = early[gate];
      last_active = active;
      active = next_active;
    }
    store_step(own, layout.time(layout.steps - 1), last_active, layout.tiles - 1, computed);
    barrier.leave();
    store_states(own, hiddens, cells);
  }
}

PersistentSizes sizes_of(CellKind kind, std::int64_t steps, std::int64_t batch,
                         std::int64_t hidden) {
  return {.gates = op::gates_of(kind), .steps = steps, .batch = batch, .hidden = hidden};
}

std::optional<PersistentPlan> plan_for(const PersistentSizes& sizes, DType dtype, Device device) {
  if (!supports_persistent(dtype, device)) return std::nullopt;
  std::optional<PersistentPlan> plan;
  visit_persistent(dtype, sizes, [&]<class T, int kGates, int kDepth>() {
    plan = sizes.plan(resident_blocks(&persistent_forward_kernel<T, kGates, kDepth>,
                                      {.threads = kPersistentThreads}, device.index));
  });
  return plan;
}

}  // namespace

bool supports_persistent(DType dtype, Device device) {
  return is_low(dtype) && has_lane_products(runtime::compute_capability(device.index));
}

bool persists(const op::RecurrentAttrs& attrs, const Tensor& x, std::int64_t hidden,
              bool projects) {
  return !projects &&
         plan_for(sizes_of(attrs.kind, x.shape()[0], x.shape()[1], hidden), x.dtype(), x.device());
}

bool run_persistent(CellKind kind, const Sequences& sequences, const PersistentForward& a) {
  const Device device = a.y.device();
  const DType dtype = a.y.dtype();
  const PersistentSizes sizes = sizes_of(kind, sequences.steps, sequences.batch, a.h.shape()[1]);
  const std::optional<PersistentPlan> plan = plan_for(sizes, dtype, device);
  if (!plan) return false;
  const PersistentLayout layout(kind, sequences, sizes, *plan, device);
  const Tensor weights = row_major(a.weights);
  const Tensor exchange =
      work_tensor({Exchange<Half>::elements(layout.depth, layout.all_tiles)}, dtype, device);
  visit_persistent(dtype, sizes, [&]<class T, int kGates, int kDepth>() {
    const ForwardCall<T> call{
        .layout = layout,
        .weights = {weights.raw_data(), layout.hidden},
        .exchange = {static_cast<T*>(exchange.raw_data()), layout.depth, layout.all_tiles},
        .h = static_cast<T*>(a.h.raw_data()),
        .y = static_cast<T*>(a.y.raw_data()),
        .c = kind == CellKind::lstm ? a.c.data<float>() : nullptr,
        .gates = a.gates,
        .extra = a.extra,
        .apart = a.apart};
    launch_together(&persistent_forward_kernel<T, kGates, kDepth>,
                    {.blocks = plan->blocks(), .threads = kPersistentThreads},
                    current_stream(device), call);
  });
  return true;
}

}  // namespace mezzo::gpu
