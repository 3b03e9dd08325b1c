// The forward pass of recurrent layers in one launch for all steps.
#include "recurrent_persistent.h"

#include "../../tensor/cpu/recurrent_formulas.h"
#include "../runtime/device.h"

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

/** The sequence of a thread in a tile, and whether the thread has an element there. */
struct Place {
  int i;
  bool exists;
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

template <class T, int kGates, int kDepth>
__global__ void __launch_bounds__(kPersistentThreads, 1)
    persistent_forward_kernel(const __grid_constant__ ForwardCall<T> call) {
  if constexpr (kHasLaneProducts) {
    constexpr int kPitch = sum_pitch(kGates), kStrip = kPatch * kPitch;
    MZ_SHARED(float, all_sums, kPersistentWarps* kStrip);
    MZ_SHARED(float, cells, kMostTiles* kPersistentThreads);
    const PersistentLayout& layout = call.layout;
    const std::int64_t hidden = layout.hidden;
    const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarpSize,
              row = thread / kPatch, column = thread % kPatch, slice = layout.slice(),
              first_tile = layout.first_tile();
    const int unit = slice * kPatch + column;
    const auto place = [&](int tile) {
      const int i = (first_tile + tile) * kPatch + row;
      return Place{i, i < layout.batch && unit < hidden};
    };
    const auto exchanged = [&](int turn, int tile) {
      return call.exchange.patch(turn, first_tile + tile, slice) + left_place(row, column);
    };

    // the weights of the block's units, eight at a time: those of the warp's patches of h
    const int lane = thread % kWarpSize;
    RightWords weights[kDepth][kGates][2];
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      __syncwarp();  // limits how many loads are in flight, and so the registers
#pragma unroll
      for (int gate = 0; gate < kGates; ++gate)
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const int of = slice * kPatch + part / 2 * 8 + right_column(lane),
                    j = (warp + d * kPersistentWarps) * kPatch + right_row(lane) + part % 2 * 8;
          weights[d][gate][part / 2].item[part % 2] =
              call.weights.bits(gate, of, j) | call.weights.bits(gate, of, j + 1) << 16;
        }
    }
    for (int tile = 0; tile < layout.tiles; ++tile) {
      const Place at = place(tile);
      const std::int64_t element = at.i * hidden + unit;
      cells[tile * kPersistentThreads + thread] = at.exists && call.c ? call.c[element] : 0.0f;
      *exchanged(0, tile) = at.exists ? call.h[element] : element_as<T>(0.0f);
    }
    GroupBarrier barrier = layout.barrier();
    barrier.arrive();

    float input[kGates];
    const auto load_input = [&](int k, int tile) {
      const Place at = place(tile);
      const int time = layout.time(k);
      if (!at.exists || at.i >= layout.active(time)) return;
      const float* const from = call.gates + (layout.offset(time) + at.i) * kGates * hidden + unit;
#pragma unroll
      for (int gate = 0; gate < kGates; ++gate) input[gate] = from[gate * hidden];
    };
    load_input(0, 0);
    for (int k = 0; k < layout.steps; ++k) {
      const int time = layout.time(k), active = layout.active(time);
      barrier.wait();
      for (int tile = 0; tile < layout.tiles; ++tile) {
        if (tile > 0) load_input(k, tile);
        LaneSums sums[kGates][2];
        const T* const from = call.exchange.patch(k, first_tile + tile, warp) + lane * 8;
#pragma unroll
        for (int d = 0; d < kDepth; ++d) {
          if (warp + d * kPersistentWarps >= layout.depth) continue;
          const LeftWords h = *reinterpret_cast<const LeftWords*>(from + d * kExchangeStep);
#pragma unroll
          for (int i = 0; i < 2 * kGates; ++i)
            add_product<T>(sums[i / 2][i % 2], h, weights[d][i / 2][i % 2]);
        }
        __syncthreads();  // earlier sums have been read
#pragma unroll
        for (int i = 0; i < 2 * kGates; ++i)
          store_sums(all_sums + warp * kStrip + i * 8, kPitch, sums[i / 2][i % 2]);
        __syncthreads();
        const Place at = place(tile);
        T result = at.exists ? *exchanged(k, tile) : element_as<T>(0.0f);
        if (at.exists && at.i < active) {
          float own[kGates];
#pragma unroll
          for (int gate = 0; gate < kGates; ++gate) {
            float sum = 0;
#pragma unroll
            for (int other = 0; other < kPersistentWarps; ++other)
              sum += all_sums[other * kStrip + row * kPitch + gate * kPatch + column];
            own[gate] = sum;
          }
          float& c = cells[tile * kPersistentThreads + thread];
          result = element_as<T>(advance<T, kGates>(call, layout.offset(time) + at.i, unit, input,
                                                    own, element_as<float>(result), c));
          call.y[(std::int64_t{time} * layout.batch + layout.sequence(at.i)) * hidden + unit] =
              result;
        }
        *exchanged(k + 1, tile) = result;
      }
      if (k + 1 == layout.steps) break;
      barrier.arrive();
      load_input(k + 1, 0);
    }
    barrier.leave();
    for (int tile = 0; tile < layout.tiles; ++tile) {
      const Place at = place(tile);
      if (!at.exists) continue;
      const std::int64_t element = at.i * hidden + unit;
      call.h[element] = *exchanged(layout.steps, tile);
      if (call.c) call.c[element] = cells[tile * kPersistentThreads + thread];
    }
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
        .weights = {static_cast<const T*>(weights.raw_data()), layout.hidden},
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
