// The gradients of recurrent layers back through time, in one launch for all steps.
#include "../../tensor/cpu/recurrent_formulas.h"
#include "recurrent_persistent.h"

namespace mezzo::gpu {

namespace {

using namespace cpu_kernels;
using op::CellKind;

template <class T> struct BackwardCall {
  PersistentLayout layout;
  RecurrentWeights<T> weights;
  Exchange<T> exchange;
  const T *y, *h0, *gy;  // h0 and gy may be null
  const float *c0, *gates, *extra;
  float *gh, *gc;
  T *input_gates, *hidden_gates, *h_before;
};

/** What a unit of a sequence loads for a step. */
template <int kGates> struct Loaded {
  float gate[kGates], extra = 0, c_before = 0, h_before = 0, gy = 0;
};

/** The step that is computed, and the one before it in the order of the forward pass. */
struct TwoSteps {
  int time, active, row, earlier, earlier_active, earlier_row;

  __device__ TwoSteps(const PersistentLayout& layout, int k)
      : time(layout.time(k)),
        active(layout.active(time)),
        row(layout.offset(time)),
        earlier(k == 0 ? 0 : layout.time(k - 1)),
        earlier_active(k == 0 ? 0 : layout.active(earlier)),
        earlier_row(k == 0 ? 0 : layout.offset(earlier)) {}
};

template <class T, int kGates>
__device__ Loaded<kGates> load_step(const BackwardCall<T>& call, const TwoSteps& s, int i,
                                    int unit) {
  const std::int64_t hidden = call.layout.hidden;
  const int sequence = call.layout.sequence(i);
  Loaded<kGates> x;
  const float* const gates = call.gates + (s.row + i) * kGates * hidden + unit;
#pragma unroll
  for (int gate = 0; gate < kGates; ++gate) x.gate[gate] = gates[gate * hidden];
  const bool has_earlier = i < s.earlier_active;
  if constexpr (kGates > 1) x.extra = call.extra[(s.row + i) * hidden + unit];
  if constexpr (kGates == 4)
    x.c_before =
        has_earlier ? call.extra[(s.earlier_row + i) * hidden + unit] : call.c0[i * hidden + unit];
  const T* const h =
      has_earlier ? call.y + std::int64_t{s.earlier} * call.layout.batch * hidden : call.h0;
  if (h) x.h_before = element_as<float>(h[sequence * hidden + unit]);
  if (call.gy)
    x.gy = element_as<float>(
        call.gy[(std::int64_t{s.time} * call.layout.batch + sequence) * hidden + unit]);
  return x;
}

/** The gradients of the gates of a unit, and of its state where it does not pass the weights. */
template <int kGates> struct GateGradients {
  float input[kGates], last_hidden;  // the last gate of U h; others are those of the input
  float direct = 0;
};

template <int kGates>
__device__ GateGradients<kGates> differentiate(bool relu, const Loaded<kGates>& x, float gh,
                                               float& gc) {
  GateGradients<kGates> all;
  if constexpr (kGates == 1) {
    all.input[0] =
        relu ? rnn_backward<float, true>(x.gate[0], gh) : rnn_backward<float, false>(x.gate[0], gh);
    all.last_hidden = all.input[0];
  } else if constexpr (kGates == 3) {
    const GruGradients<float> g =
        gru_backward<float>({x.gate[0], x.gate[1], x.gate[2], x.extra}, x.h_before, gh);
    all.input[0] = g.r;
    all.input[1] = g.z;
    all.input[2] = g.n;
    all.last_hidden = g.hidden_n;
    all.direct = g.direct;
  } else {
    const LstmGradients<float> g =
        lstm_backward(x.gate[0], x.gate[1], x.gate[2], x.gate[3], x.extra, x.c_before, gh, gc);
    all.input[0] = g.i;
    all.input[1] = g.f;
    all.input[2] = g.g;
    all.input[3] = g.o;
    all.last_hidden = g.o;
    gc = g.c;
  }
  return all;
}

/** kParts: patches of units of a block. */
template <class T, int kGates, int kDepth, int kParts>
__global__ void __launch_bounds__(kPersistentThreads, 1)
    persistent_backward_kernel(const __grid_constant__ BackwardCall<T> call) {
  if constexpr (kHasLaneProducts) {
    constexpr int kUnits = kParts * kPatch, kPitch = sum_pitch(kParts), kStrip = kPatch * kPitch,
                  kStates = kPatch * kUnits, kLoads = 8;
    MZ_SHARED(float, all_sums, kPersistentWarps* kStrip);
    MZ_SHARED(float, h_gradients, kMostTiles* kStates);
    MZ_SHARED(float, c_gradients, kMostTiles* kStates);
    const PersistentLayout& layout = call.layout;
    const std::int64_t hidden = layout.hidden;
    const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarpSize,
              slice = layout.slice(), first_tile = layout.first_tile(),
              patches = kGates * layout.depth;

    // A thread has an element of each part.
    struct Place {
      int i, unit;
      int state, row, column;
      bool exists;
    };
    const auto place = [&](int tile, int part) {
      const int row = thread / kPatch, column = part * kPatch + thread % kPatch;
      const int i = (first_tile + tile) * kPatch + row, unit = slice * kUnits + column;
      return Place{i,   unit,   tile * kStates + row * kUnits + column,
                   row, column, i < layout.batch && unit < hidden};
    };

    // the rows of the weights that belong to the warp's patches of gates, for the block's units,
    // eight at a time
    const int lane = thread % kWarpSize;
    RightWords weights[kGates * kDepth][2 * kParts];
#pragma unroll
    for (int d = 0; d < kGates * kDepth; ++d) {
      const int patch = warp + d * kPersistentWarps;
      const bool exists = patch < patches;
#pragma unroll
      for (int i = 0; i < 4 * kParts; ++i) {
        const int unit = patch % layout.depth * kPatch + right_row(lane) + i % 2 * 8,
                  j = slice * kUnits + i / 2 * 8 + right_column(lane), gate = patch / layout.depth;
        weights[d][i / 2].item[i % 2] =
            exists ? call.weights.bits(gate, unit, j) | call.weights.bits(gate, unit + 1, j) << 16
                   : 0u;
      }
    }
    for (int tile = 0; tile < layout.tiles; ++tile)
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const Place at = place(tile, part);
        const std::int64_t element = at.i * hidden + at.unit;
        h_gradients[at.state] = at.exists ? call.gh[element] : 0.0f;
        c_gradients[at.state] = at.exists && kGates == 4 ? call.gc[element] : 0.0f;
      }
    GroupBarrier barrier = layout.barrier();
    const int exchange_place = left_place(thread / kPatch, thread % kPatch);

    Loaded<kGates> loaded[kParts];
    const auto load_inputs = [&](const TwoSteps& steps, int tile) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const Place at = place(tile, part);
        if (at.exists && at.i < steps.active)
          loaded[part] = load_step<T, kGates>(call, steps, at.i, at.unit);
      }
    };
    load_inputs(TwoSteps(layout, layout.steps - 1), 0);
    for (int k = layout.steps - 1; k >= 0; --k) {
      const TwoSteps steps(layout, k);
      for (int tile = 0; tile < layout.tiles; ++tile) {
        if (tile > 0) load_inputs(steps, tile);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const Place at = place(tile, part);
          const int unit_patch = slice * kParts + part;
          T narrow[kGates];
#pragma unroll
          for (T& x : narrow) x = element_as<T>(0.0f);
          if (at.exists && at.i < steps.active) {
            const Loaded<kGates>& x = loaded[part];
            float& gh = h_gradients[at.state];
            const GateGradients<kGates> g =
                differentiate<kGates>(layout.relu, x, gh + x.gy, c_gradients[at.state]);
            gh = g.direct;
            const std::int64_t row = steps.row + at.i, first = row * kGates * hidden + at.unit;
#pragma unroll
            for (int gate = 0; gate < kGates; ++gate) {
              const T own = element_as<T>(g.input[gate]);
              narrow[gate] = gate + 1 < kGates ? own : element_as<T>(g.last_hidden);
              call.input_gates[first + gate * hidden] = own;
              if (kGates == 3) call.hidden_gates[first + gate * hidden] = narrow[gate];
            }
            call.h_before[row * hidden + at.unit] = element_as<T>(x.h_before);
          }
          if (unit_patch < layout.depth)
#pragma unroll
            for (int gate = 0; gate < kGates; ++gate)
              call.exchange.patch(k, first_tile + tile,
                                  gate * layout.depth + unit_patch)[exchange_place] = narrow[gate];
        }
      }
      barrier.arrive();
      if (k > 0) load_inputs(TwoSteps(layout, k - 1), 0);
      barrier.wait();
      for (int tile = 0; tile < layout.tiles; ++tile) {
        LaneSums sums[2 * kParts];
        const T* const from = call.exchange.patch(k, first_tile + tile, warp) + lane * 8;
#pragma unroll
        for (int d = 0; d < kGates * kDepth; ++d) {
          if (warp + d * kPersistentWarps >= patches) continue;
          // Limits how many loads are in flight, and so the registers.
          if (d % kLoads == 0 && d > 0) __syncwarp();
          const LeftWords gates = *reinterpret_cast<const LeftWords*>(from + d * kExchangeStep);
#pragma unroll
          for (int i = 0; i < 2 * kParts; ++i) add_product<T>(sums[i], gates, weights[d][i]);
        }
        __syncthreads();  // earlier sums have been read
#pragma unroll
        for (int i = 0; i < 2 * kParts; ++i)
          store_sums(all_sums + warp * kStrip + i * 8, kPitch, sums[i]);
        __syncthreads();
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const Place at = place(tile, part);
          if (!at.exists || at.i >= steps.active) continue;
          float sum = 0;
#pragma unroll
          for (int other = 0; other < kPersistentWarps; ++other)
            sum += all_sums[other * kStrip + at.row * kPitch + at.column];
          h_gradients[at.state] += sum;
        }
      }
    }
    barrier.leave();
    for (int tile = 0; tile < layout.tiles; ++tile)
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const Place at = place(tile, part);
        if (!at.exists) continue;
        const std::int64_t element = at.i * hidden + at.unit;
        call.gh[element] = h_gradients[at.state];
        if (kGates == 4) call.gc[element] = c_gradients[at.state];
      }
  }
}

template <class T, int kGates, int kDepth>
inline constexpr auto kKernel =
    &persistent_backward_kernel<T, kGates, kDepth, kDepth == kMostDepth ? 1 : 2>;

}  // namespace

bool run_persistent_backward(CellKind kind, const Sequences& sequences,
                             const PersistentBackward& a) {
  const Device device = a.y.device();
  const DType dtype = a.y.dtype();
  if (!supports_persistent(dtype, device)) return false;
  const PersistentSizes sizes{.gates = op::gates_of(kind),
                              .steps = sequences.steps,
                              .batch = sequences.batch,
                              .hidden = a.gh.shape()[1],
                              .backward = true};
  bool done = false;
  visit_persistent(dtype, sizes, [&]<class T, int kGates, int kDepth>() {
    const auto kernel = kKernel<T, kGates, kDepth>;
    const std::optional<PersistentPlan> plan =
        sizes.plan(resident_blocks(kernel, {.threads = kPersistentThreads}, device.index));
    if (!plan) return;
    const PersistentLayout layout(kind, sequences, sizes, *plan, device);
    const Tensor weights = row_major(a.weights);
    const int patches = kGates * layout.depth;
    const Tensor exchange =
        work_tensor({Exchange<T>::elements(patches, layout.all_tiles)}, dtype, device);
    const auto at = [](const Tensor& x) {
      return x.defined() ? static_cast<T*>(x.raw_data()) : nullptr;
    };
    const BackwardCall<T> call{.layout = layout,
                               .weights = {at(weights), layout.hidden},
                               .exchange = {at(exchange), patches, layout.all_tiles},
                               .y = at(a.y),
                               .h0 = at(a.h0),
                               .gy = at(a.gy),
                               .c0 = a.c0.data<float>(),
                               .gates = a.gates,
                               .extra = a.extra,
                               .gh = a.gh.data<float>(),
                               .gc = a.gc.data<float>(),
                               .input_gates = at(a.input_gates),
                               .hidden_gates = at(a.hidden_gates),
                               .h_before = at(a.h_before)};
    launch_together(kernel, {.blocks = plan->blocks(), .threads = kPersistentThreads},
                    current_stream(device), call);
    done = true;
  });
  return done;
}

}  // namespace mezzo::gpu
