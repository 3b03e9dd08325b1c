// The gradients of recurrent layers back through time, in one launch for all steps.
#include "../../../tensor/ops/recurrent/recurrent_formulas_cpu.h"
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

/** A thread's element of a part of the block's units, in a tile. */
struct Place {
  int i, unit;      // the sequence and the unit
  int row, column;  // in the tile
  int state;        // index in the block's gradients of h and c
  bool exists;
};

/** The elements of the calling thread in the tiles. A block has kParts patches of units. */
template <class T, int kParts> struct Elements {
  static constexpr int kUnits = kParts * kPatch, kStates = kPatch * kUnits;
  const BackwardCall<T>& call;
  int thread, slice, first_tile;

  __device__ __forceinline__ explicit Elements(const BackwardCall<T>& c)
      : call(c),
        thread(static_cast<int>(threadIdx.x)),
        slice(c.layout.slice()),
        first_tile(c.layout.first_tile()) {}

  __device__ __forceinline__ Place place(int tile, int part) const {
    const int row = thread / kPatch, column = part * kPatch + thread % kPatch,
              i = (first_tile + tile) * kPatch + row, unit = slice * kUnits + column;
    return {i,
            unit,
            row,
            column,
            tile * kStates + row * kUnits + column,
            i < call.layout.batch && unit < call.layout.hidden};
  }
  /** Returns the offset of an element in the gradients of h and c. */
  __device__ __forceinline__ std::int64_t offset(const Place& at) const {
    return at.i * std::int64_t{call.layout.hidden} + at.unit;
  }
};

/** Loads the rows of the weights that belong to the warp's patches of gates, for the block's units,
 *  eight at a time. */
template <class T, int kGates, int kDepth, int kParts>
__device__ __forceinline__ void load_weights(const Elements<T, kParts>& own, int warp, int lane,
                                             RightWords (&loaded)[kGates * kDepth][2 * kParts]) {
  const BackwardCall<T>& call = own.call;
  const PersistentLayout& layout = call.layout;
  const int patches = kGates * layout.depth;
#pragma unroll
  for (int d = 0; d < kGates * kDepth; ++d) {
    const int patch = warp + d * kPersistentWarps;
    const bool exists = patch < patches;
#pragma unroll
    for (int i = 0; i < 4 * kParts; ++i) {
      const int unit = patch % layout.depth * kPatch + right_row(lane) + i % 2 * 8,
                j = own.slice * own.kUnits + i / 2 * 8 + right_column(lane),
                gate = patch / layout.depth;
      loaded[d][i / 2].item[i % 2] =
          exists ? call.weights.bits(gate, unit, j) | call.weights.bits(gate, unit + 1, j) << 16
                 : 0u;
    }
  }
}

/** Loads the gradients of h and c after the last step. */
template <class T, int kGates, int kParts>
__device__ __forceinline__ void load_states(const Elements<T, kParts>& own, float* gh, float* gc) {
  const BackwardCall<T>& call = own.call;
  for (int tile = 0; tile < call.layout.tiles; ++tile)
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const Place at = own.place(tile, part);
      const std::int64_t element = own.offset(at);
      gh[at.state] = at.exists ? call.gh[element] : 0.0f;
      gc[at.state] = at.exists && kGates == 4 ? call.gc[element] : 0.0f;
    }
}

/** Stores the gradients of the first h and c. */
template <class T, int kGates, int kParts>
__device__ __forceinline__ void store_states(const Elements<T, kParts>& own, const float* gh,
                                             const float* gc) {
  const BackwardCall<T>& call = own.call;
  for (int tile = 0; tile < call.layout.tiles; ++tile)
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const Place at = own.place(tile, part);
      if (!at.exists) continue;
      const std::int64_t element = own.offset(at);
      call.gh[element] = gh[at.state];
      if (kGates == 4) call.gc[element] = gc[at.state];
    }
}

/** Loads what the thread's elements of a tile need for a step. */
template <class T, int kGates, int kParts>
__device__ __forceinline__ void load_inputs(const Elements<T, kParts>& own, const TwoSteps& steps,
                                            int tile, Loaded<kGates> (&loaded)[kParts]) {
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const Place at = own.place(tile, part);
    if (at.exists && at.i < steps.active)
      loaded[part] = load_step<T, kGates>(own.call, steps, at.i, at.unit);
  }
}

/** Computes and stores the gradients of the gates of an element. `narrow` becomes those of U h, and
 *  gh the part of the gradient of h that does not pass the weights. */
template <class T, int kGates>
__device__ __forceinline__ void step_back(const BackwardCall<T>& call, std::int64_t row, int unit,
                                          const Loaded<kGates>& x, float& gh, float& gc,
                                          T (&narrow)[kGates]) {
  const std::int64_t hidden = call.layout.hidden;
  const GateGradients<kGates> g = differentiate<kGates>(call.layout.relu, x, gh + x.gy, gc);
  gh = g.direct;
  const std::int64_t first = row * kGates * hidden + unit;
#pragma unroll
  for (int gate = 0; gate < kGates; ++gate) {
    const T own = element_as<T>(g.input[gate]);
    narrow[gate] = gate + 1 < kGates ? own : element_as<T>(g.last_hidden);
    call.input_gates[first + gate * hidden] = own;
    if (kGates == 3) call.hidden_gates[first + gate * hidden] = narrow[gate];
  }
  call.h_before[row * hidden + unit] = element_as<T>(x.h_before);
}

/** Computes the gradients of the gates of a tile at step k, and passes them to the other blocks. */
template <class T, int kGates, int kParts>
__device__ __forceinline__ void differentiate_tile(const Elements<T, kParts>& own,
                                                   const TwoSteps& steps, int k, int tile,
                                                   const Loaded<kGates> (&loaded)[kParts],
                                                   float* gh, float* gc) {
  const BackwardCall<T>& call = own.call;
  const PersistentLayout& layout = call.layout;
  const int exchange_place = left_place(own.thread / kPatch, own.thread % kPatch);
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const Place at = own.place(tile, part);
    const int unit_patch = own.slice * kParts + part;
    T narrow[kGates];
#pragma unroll
    for (T& x : narrow) x = element_as<T>(0.0f);
    if (at.exists && at.i < steps.active)
      step_back<T, kGates>(call, steps.row + at.i, at.unit, loaded[part], gh[at.state],
                           gc[at.state], narrow);
    if (unit_patch < layout.depth)
#pragma unroll
      for (int gate = 0; gate < kGates; ++gate)
        call.exchange.patch(k, own.first_tile + tile,
                            gate * layout.depth + unit_patch)[exchange_place] = narrow[gate];
  }
}

/** Multiplies the warp's patches of gates, from `from` on, by its weights, and stores the sums to
 *  its strip. All threads of a block must call it. */
template <class T, int kGateDepth, int kParts>
__device__ __forceinline__ void multiply(const T* from, int warp, int patches,
                                         const RightWords (&weights)[kGateDepth][2 * kParts],
                                         float* strip) {
  constexpr int kLoads = 8;
  LaneSums sums[2 * kParts];
#pragma unroll
  for (int d = 0; d < kGateDepth; ++d) {
    if (warp + d * kPersistentWarps >= patches) continue;
    // Limits how many loads are in flight, and so the registers.
    if (d % kLoads == 0 && d > 0) __syncwarp();
    const LeftWords gates = *reinterpret_cast<const LeftWords*>(from + d * kExchangeStep);
#pragma unroll
    for (int i = 0; i < 2 * kParts; ++i) add_product<T>(sums[i], gates, weights[d][i]);
  }
  __syncthreads();  // earlier sums have been read
#pragma unroll
  for (int i = 0; i < 2 * kParts; ++i) store_sums(strip + i * 8, sum_pitch(kParts), sums[i]);
  __syncthreads();
}

/** Adds the sums of all warps to the gradients of h of a tile. */
template <class T, int kParts>
__device__ __forceinline__ void add_sums(const Elements<T, kParts>& own, int active, int tile,
                                         const float* all_sums, float* gh) {
  constexpr int kPitch = sum_pitch(kParts), kStrip = kPatch * kPitch;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const Place at = own.place(tile, part);
    if (!at.exists || at.i >= active) continue;
    gh[at.state] += sum_of_warps(all_sums, kStrip, at.row * kPitch + at.column);
  }
}

/** kParts: patches of units of a block. */
template <class T, int kGates, int kDepth, int kParts>
__global__ void __launch_bounds__(kPersistentThreads, 1)
    persistent_backward_kernel(const BackwardCall<T> __grid_constant__ call) {
  if constexpr (kHasLaneProducts) {
    constexpr int kStrip = kPatch * sum_pitch(kParts), kStates = Elements<T, kParts>::kStates;
    MZ_SHARED(float, all_sums, kPersistentWarps* kStrip);
    MZ_SHARED(float, gh, kMostTiles* kStates);
    MZ_SHARED(float, gc, kMostTiles* kStates);
    const PersistentLayout& layout = call.layout;
    const Elements<T, kParts> own(call);
    const int warp = own.thread / kWarpSize, lane = own.thread % kWarpSize;
    RightWords weights[kGates * kDepth][2 * kParts];
    load_weights<T, kGates, kDepth>(own, warp, lane, weights);
    load_states<T, kGates>(own, gh, gc);
    GroupBarrier barrier = layout.barrier();

    Loaded<kGates> loaded[kParts];
    load_inputs(own, TwoSteps(layout, layout.steps - 1), 0, loaded);
    for (int k = layout.steps - 1; k >= 0; --k) {
      const TwoSteps steps(layout, k);
      for (int tile = 0; tile < layout.tiles; ++tile) {
        if (tile > 0) load_inputs(own, steps, tile, loaded);
        differentiate_tile(own, steps, k, tile, loaded, gh, gc);
      }
      barrier.arrive();
      if (k > 0) load_inputs(own, TwoSteps(layout, k - 1), 0, loaded);
      barrier.wait();
      for (int tile = 0; tile < layout.tiles; ++tile) {
        multiply<T, kGates * kDepth, kParts>(
            call.exchange.patch(k, own.first_tile + tile, warp) + lane * 8, warp,
            kGates * layout.depth, weights, all_sums + warp * kStrip);
        add_sums(own, steps.active, tile, all_sums, gh);
      }
    }
    barrier.leave();
    store_states<T, kGates>(own, gh, gc);
  }
}

template <class T, int kGates, int kDepth>
inline constexpr auto kKernel = &persistent_backward_kernel < T,
                      kGates, kDepth, kDepth == kMostDepth ? 1 : 2 > ;

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
                               .weights = {weights.raw_data(), layout.hidden},
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
