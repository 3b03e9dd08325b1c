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

/** Computes a step of one unit. `in`: W x + b, `sums`: U h. Stores what the gradient needs, and
 *  returns h. */
template <class T, int kGates>
__device__ float advance(const ForwardCall<T>& call, std::int64_t row, int unit, const float* in,
                         const float* sums, float before, float& c) {
  const std::int64_t hidden = call.layout.hidden;
  float* const gates = call.gates + row * kGates * hidden + unit;
  if constexpr (kGates == 1) {
    const float h = call.layout.relu ? rnn_forward<float, true>(in[0], sums[0])
                                     : rnn_forward<float, false>(in[0], sums[0]);
    gates[0] = h;
    return h;
  } else if constexpr (kGates == 3) {
    const GruGates<float> g =
        gru_forward(in[0], in[1], in[2], sums[0], sums[1], sums[2], call.apart[unit]);
    gates[0] = g.reset;
    gates[hidden] = g.update;
    gates[2 * hidden] = g.fresh;
    call.extra[row * hidden + unit] = g.part;
    return gru_result(g, before);
  } else {
    const LstmGates<float> g = lstm_forward(in[0], in[1], in[2], sums[0], sums[1], sums[2], c);
    const float out = lstm_out(in[3], sums[3]);
    c = element_as<float>(element_as<T>(g.c));
    gates[0] = g.in;
    gates[hidden] = g.forget;
    gates[2 * hidden] = g.fresh;
    gates[3 * hidden] = out;
    call.extra[row * hidden + unit] = c;
    return lstm_result(out, c);
  }
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

/** Loads h and c before the first step. `cells`: c of the thread's elements. */
template <class T>
__device__ __forceinline__ void load_states(const Element<T>& own, float* cells) {
  const ForwardCall<T>& call = own.call;
  for (int tile = 0; tile < call.layout.tiles; ++tile) {
    const bool exists = own.exists(tile);
    const std::int64_t element = own.offset(tile);
    cells[tile * kPersistentThreads] = exists && call.c ? call.c[element] : 0.0f;
    *own.exchanged(0, tile) = exists ? call.h[element] : element_as<T>(0.0f);
  }
}

template <class T>
__device__ __forceinline__ void store_states(const Element<T>& own, const float* cells) {
  const ForwardCall<T>& call = own.call;
  for (int tile = 0; tile < call.layout.tiles; ++tile) {
    if (!own.exists(tile)) continue;
    const std::int64_t element = own.offset(tile);
    call.h[element] = *own.exchanged(call.layout.steps, tile);
    if (call.c) call.c[element] = cells[tile * kPersistentThreads];
  }
}

/** Loads W x + b of a step, if the element takes part in it. */
template <class T, int kGates>
__device__ __forceinline__ void load_input(const Element<T>& own, int k, int tile,
                                           float (&input)[kGates]) {
  const ForwardCall<T>& call = own.call;
  const int time = call.layout.time(k), i = own.sequence(tile);
  const std::int64_t hidden = call.layout.hidden;
  if (!own.exists(tile) || i >= call.layout.active(time)) return;
  const float* const from =
      call.gates + (call.layout.offset(time) + i) * kGates * hidden + own.unit;
#pragma unroll
  for (int gate = 0; gate < kGates; ++gate) input[gate] = from[gate * hidden];
}

/** Multiplies the warp's patches of h, from `from` on, by its weights, and stores the sums to its
 *  strip. All threads of a block must call it. */
template <class T, int kGates, int kDepth>
__device__ __forceinline__ void multiply(const T* from, int patches,
                                         const RightWords (&weights)[kDepth][kGates][2],
                                         float* strip) {
  LaneSums sums[kGates][2];
#pragma unroll
  for (int d = 0; d < kDepth; ++d) {
    if (d * kPersistentWarps >= patches) continue;
    const LeftWords h = *reinterpret_cast<const LeftWords*>(from + d * kExchangeStep);
#pragma unroll
    for (int i = 0; i < 2 * kGates; ++i)
      add_product<T>(sums[i / 2][i % 2], h, weights[d][i / 2][i % 2]);
  }
  __syncthreads();  // earlier sums have been read
#pragma unroll
  for (int i = 0; i < 2 * kGates; ++i)
    store_sums(strip + i * 8, sum_pitch(kGates), sums[i / 2][i % 2]);
  __syncthreads();
}

/** Computes and stores the element of a tile at step k. */
template <class T, int kGates>
__device__ __forceinline__ void finish(const Element<T>& own, int k, int time, int active, int tile,
                                       const float (&input)[kGates], const float* all_sums,
                                       float& c) {
  constexpr int kPitch = sum_pitch(kGates);
  const ForwardCall<T>& call = own.call;
  const std::int64_t hidden = call.layout.hidden;
  const int i = own.sequence(tile);
  T result = own.exists(tile) ? *own.exchanged(k, tile) : element_as<T>(0.0f);
  if (own.exists(tile) && i < active) {
    float sums[kGates];
#pragma unroll
    for (int gate = 0; gate < kGates; ++gate)
      sums[gate] =
          sum_of_warps(all_sums, kPatch * kPitch, own.row * kPitch + gate * kPatch + own.column);
    result = element_as<T>(advance<T, kGates>(call, call.layout.offset(time) + i, own.unit, input,
                                              sums, element_as<float>(result), c));
    const std::int64_t row = std::int64_t{time} * call.layout.batch + call.layout.sequence(i);
    call.y[row * hidden + own.unit] = result;
  }
  *own.exchanged(k + 1, tile) = result;
}

template <class T, int kGates, int kDepth>
__global__ void __launch_bounds__(kPersistentThreads, 1)
    persistent_forward_kernel(const ForwardCall<T> __grid_constant__ call) {
  if constexpr (kHasLaneProducts) {
    constexpr int kStrip = kPatch * sum_pitch(kGates);
    MZ_SHARED(float, all_sums, kPersistentWarps* kStrip);
    MZ_SHARED(float, all_cells, kMostTiles* kPersistentThreads);
    const PersistentLayout& layout = call.layout;
    const Element<T> own(call);
    const int warp = own.thread / kWarpSize, lane = own.thread % kWarpSize;
    float* const cells = all_cells + own.thread;
    RightWords weights[kDepth][kGates][2];
    load_weights(call.weights, own.slice, warp, lane, weights);
    load_states(own, cells);
    GroupBarrier barrier = layout.barrier();
    barrier.arrive();

    float input[kGates];
    load_input(own, 0, 0, input);
    for (int k = 0; k < layout.steps; ++k) {
      const int time = layout.time(k), active = layout.active(time);
      barrier.wait();
      for (int tile = 0; tile < layout.tiles; ++tile) {
        if (tile > 0) load_input(own, k, tile, input);
        multiply<T>(call.exchange.patch(k, own.first_tile + tile, warp) + lane * 8,
                    layout.depth - warp, weights, all_sums + warp * kStrip);
        finish<T>(own, k, time, active, tile, input, all_sums, cells[tile * kPersistentThreads]);
      }
      if (k + 1 == layout.steps) break;
      barrier.arrive();
      load_input(own, k + 1, 0, input);
    }
    barrier.leave();
    store_states(own, cells);
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
