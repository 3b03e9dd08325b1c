// The gradients of recurrent layers back through time, in one launch for all steps.
#include <algorithm>

#include "../../../tensor/ops/recurrent/recurrent_formulas_cpu.h"
#include "../../runtime/shared_memory.h"
#include "../async_copy.h"
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

/** What a unit of a sequence loads for a step. Numbers of T are converted where they are used, so
 *  that no thread waits for them before. */
template <class T, int kGates> struct Loaded {
  float gate[kGates], extra = 0, c_before = 0;
  T h_before = element_as<T>(0.0f), gy = element_as<T>(0.0f);

  /** Computes what needs no other block. */
  __device__ void prepare() {
    if constexpr (kGates == 4) extra = math::tanh(extra);
  }
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
__device__ Loaded<T, kGates> load_step(const BackwardCall<T>& call, const TwoSteps& s, int i,
                                       int unit) {
  const std::int64_t hidden = call.layout.hidden;
  const int sequence = call.layout.sequence(i);
  Loaded<T, kGates> x;
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
  if (h) x.h_before = h[sequence * hidden + unit];
  if (call.gy)
    x.gy = call.gy[(std::int64_t{s.time} * call.layout.batch + sequence) * hidden + unit];
  return x;
}

/** The gradients of the gates of a unit, and of its state where it does not pass the weights. */
template <class N, int kGates> struct GateGradients {
  N input[kGates], last_hidden;  // the last gate of U h; others are those of the input
  float direct = 0;

  __device__ N hidden(int gate) const { return gate + 1 < kGates ? input[gate] : last_hidden; }
};

/** `x`: prepared. */
template <class T, int kGates>
__device__ GateGradients<float, kGates> differentiate(bool relu, const Loaded<T, kGates>& x,
                                                      float gh, float& gc) {
  GateGradients<float, kGates> all;
  if constexpr (kGates == 1) {
    all.input[0] =
        relu ? rnn_backward<float, true>(x.gate[0], gh) : rnn_backward<float, false>(x.gate[0], gh);
    all.last_hidden = all.input[0];
  } else if constexpr (kGates == 3) {
    const GruGradients<float> g = gru_backward<float>({x.gate[0], x.gate[1], x.gate[2], x.extra},
                                                      element_as<float>(x.h_before), gh);
    all.input[0] = g.r;
    all.input[1] = g.z;
    all.input[2] = g.n;
    all.last_hidden = g.hidden_n;
    all.direct = g.direct;
  } else {
    const LstmGradients<float> g = lstm_backward_of_tanh(x.gate[0], x.gate[1], x.gate[2], x.gate[3],
                                                         x.extra, x.c_before, gh, gc);
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

/** Loads the rows of the weights that belong to the warp's patches of gates, for the block's units:
 *  those of a patch at a time. */
template <class T, int kGates, int kDepth, int kParts>
__device__ __forceinline__ void load_weights(const Elements<T, kParts>& own, int warp, int lane,
                                             RightWords (&loaded)[kGates * kDepth][2 * kParts]) {
  const BackwardCall<T>& call = own.call;
  const PersistentLayout& layout = call.layout;
  const int patches = kGates * layout.depth;
#pragma unroll
  for (int d = 0; d < kGates * kDepth; ++d) {
    const int patch = warp + d * kPersistentWarps, gate = patch / layout.depth,
              first = patch % layout.depth * kPatch + right_row(lane);
    std::uint32_t bits[4 * kParts][2] = {};
    if (patch < patches)
#pragma unroll
      for (int i = 0; i < 8 * kParts; ++i)
        bits[i / 2][i % 2] =
            call.weights.bits(gate, first + i / 2 % 2 * 8 + i % 2,
                              own.slice * own.kUnits + i / 4 * 8 + right_column(lane));
#pragma unroll
    for (int i = 0; i < 4 * kParts; ++i)
      loaded[d][i / 2].item[i % 2] = bits[i][0] | bits[i][1] << 16;
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
                                            int tile, Loaded<T, kGates> (&loaded)[kParts]) {
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const Place at = own.place(tile, part);
    if (at.exists && at.i < steps.active)
      loaded[part] = load_step<T, kGates>(own.call, steps, at.i, at.unit);
  }
}

/** Computes the gradients of the gates of a tile at step k, and passes them to the other blocks. gh
 *  becomes the part of the gradient of h that does not pass the weights. */
template <class T, int kGates, int kParts>
__device__ __forceinline__ void differentiate_tile(const Elements<T, kParts>& own,
                                                   const TwoSteps& steps, int k, int tile,
                                                   const Loaded<T, kGates> (&loaded)[kParts],
                                                   float* gh, float* gc,
                                                   GateGradients<T, kGates> (&narrow)[kParts]) {
  const BackwardCall<T>& call = own.call;
  const PersistentLayout& layout = call.layout;
  const int exchange_place = left_place(own.thread / kPatch, own.thread % kPatch);
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const Place at = own.place(tile, part);
    const int unit_patch = own.slice * kParts + part;
    GateGradients<float, kGates> g{};
    if (at.exists && at.i < steps.active) {
      const float gradient = gh[at.state] + element_as<float>(loaded[part].gy);
      g = differentiate(layout.relu, loaded[part], gradient, gc[at.state]);
      gh[at.state] = g.direct;
    }
#pragma unroll
    for (int gate = 0; gate < kGates; ++gate)
      narrow[part].input[gate] = element_as<T>(g.input[gate]);
    narrow[part].last_hidden = element_as<T>(g.last_hidden);
    if (unit_patch < layout.depth)
#pragma unroll
      for (int gate = 0; gate < kGates; ++gate)
        call.exchange.patch(k, own.first_tile + tile,
                            gate * layout.depth + unit_patch)[exchange_place] =
            narrow[part].hidden(gate);
  }
}

/** Stores what differentiate_tile() computed for this tile, and h before the step. */
template <class T, int kGates, int kParts>
__device__ __forceinline__ void store_tile(const Elements<T, kParts>& own, const TwoSteps& steps,
                                           int tile, const Loaded<T, kGates> (&loaded)[kParts],
                                           const GateGradients<T, kGates> (&narrow)[kParts]) {
  const BackwardCall<T>& call = own.call;
  const std::int64_t hidden = call.layout.hidden;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const Place at = own.place(tile, part);
    if (!at.exists || at.i >= steps.active) continue;
    const std::int64_t row = steps.row + at.i, first = row * kGates * hidden + at.unit;
#pragma unroll
    for (int gate = 0; gate < kGates; ++gate) {
      call.input_gates[first + gate * hidden] = narrow[part].input[gate];
      if (kGates == 3) call.hidden_gates[first + gate * hidden] = narrow[part].hidden(gate);
    }
    call.h_before[row * hidden + at.unit] = loaded[part].h_before;
  }
}

/** Copies of patches: those of a group, groups that are on the way at once, and places for them in
 *  shared memory. */
inline constexpr int kGroupCopies = 4, kGroupsAhead = 4;
template <int kGateDepth>
inline constexpr int kCopySlots = std::min(kGateDepth, kGroupCopies* kGroupsAhead);

/** Copies a warp's patches of gates into its room in shared memory. 16 loads of a thread are on the
 *  way, for which it has no registers. Each lane copies the words that it multiplies. */
template <class T, int kGateDepth> class PatchCopies {
 public:
  /** `words`: the lane's in the first slot. `patches`: from the warp's first on. */
  __device__ __forceinline__ PatchCopies(LeftWords* words, int patches)
      : words_(words), patches_(patches) {}

  __device__ __forceinline__ bool exists(int d) const {
    return d < kGateDepth && d * kPersistentWarps < patches_;
  }
  /** Begins to copy the first groups, from `from` on. */
  __device__ __forceinline__ void begin(const T* from) {
    copies_.set_places(words_, from);
    begin_group<0>();
    begin_group<1>();
    begin_group<2>();
    begin_group<3>();
    static_assert(kGroupsAhead == 4);
  }
  /** Begins to copy a group, or none beyond the last. */
  template <int group> __device__ __forceinline__ void begin_group() {
    begin_patch<group * kGroupCopies>();
    begin_patch<group * kGroupCopies + 1>();
    begin_patch<group * kGroupCopies + 2>();
    begin_patch<group * kGroupCopies + 3>();
    static_assert(kGroupCopies == 4);
    copies_.end_group();
  }
  /** Waits for the first group that was not waited for. */
  __device__ __forceinline__ void wait() { copies_.template wait<kGroupsAhead - 1>(); }
  __device__ __forceinline__ LeftWords word(int d) const {
    return words_[d % kCopySlots<kGateDepth> * kWarpSize];
  }

 private:
  template <int d> __device__ __forceinline__ void begin_patch() {
    constexpr int kWords = kWarpSize * static_cast<int>(sizeof(LeftWords)),
                  kStep = kExchangeStep * static_cast<int>(sizeof(T));
    if (exists(d)) copies_.template begin<d % kCopySlots<kGateDepth> * kWords, d * kStep>();
  }

  AsyncCopies copies_;
  LeftWords* words_;
  int patches_;
};

/** Adds the products of a group of patches and those after it. */
template <int group, class T, int kGateDepth, int kParts>
__device__ __forceinline__ void add_groups(PatchCopies<T, kGateDepth>& copies,
                                           const RightWords (&weights)[kGateDepth][2 * kParts],
                                           LaneSums (&sums)[2 * kParts]) {
  if constexpr (group * kGroupCopies < kGateDepth) {
    copies.wait();
#pragma unroll
    for (int i = 0; i < kGroupCopies; ++i) {
      const int d = group * kGroupCopies + i;
      if (!copies.exists(d)) continue;
      const LeftWords gates = copies.word(d);
#pragma unroll
      for (int j = 0; j < 2 * kParts; ++j) add_product<T>(sums[j], gates, weights[d][j]);
    }
    copies.template begin_group<group + kGroupsAhead>();
    add_groups<group + 1, T, kGateDepth, kParts>(copies, weights, sums);
  }
}

/** Multiplies the warp's patches of gates, whose copies have begun, by its weights, and stores the
 *  sums to its strip, which is in the room of the copies. All threads of a block must call it. */
template <class T, int kGateDepth, int kParts>
__device__ __forceinline__ void multiply(PatchCopies<T, kGateDepth>& copies,
                                         const RightWords (&weights)[kGateDepth][2 * kParts],
                                         float* strip) {
  LaneSums sums[2 * kParts];
  add_groups<0, T, kGateDepth, kParts>(copies, weights, sums);
  __syncwarp();  // the lanes have read their words
#pragma unroll
  for (int i = 0; i < 2 * kParts; ++i) store_sums(strip + i * 8, sum_pitch(kParts), sums[i]);
  __syncthreads();
}

/** Adds the sums of all warps to the gradients of h of a tile. */
template <class T, int kParts, int kRoom>
__device__ __forceinline__ void add_sums(const Elements<T, kParts>& own, int active, int tile,
                                         const float* all_sums, float* gh) {
  constexpr int kPitch = sum_pitch(kParts);
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const Place at = own.place(tile, part);
    if (!at.exists || at.i >= active) continue;
    gh[at.state] += sum_of_warps(all_sums, kRoom, at.row * kPitch + at.column);
  }
}

/** Returns the floats of shared memory that a warp has for its copies and then for its sums. */
template <int kGateDepth, int kParts> constexpr int warp_room() {
  constexpr int kWords = kCopySlots<kGateDepth> * kWarpSize * 4,
                kStrip = kPatch * sum_pitch(kParts);
  return std::max(kWords, kStrip);
}

/** kParts: patches of units of a block. */
template <class T, int kGates, int kDepth, int kParts>
__global__ void __launch_bounds__(kPersistentThreads, 1)
    persistent_backward_kernel(const BackwardCall<T> __grid_constant__ call) {
  if constexpr (kHasLaneProducts) {
    constexpr int kStates = Elements<T, kParts>::kStates,
                  kRoom = warp_room<kGates * kDepth, kParts>();
    MZ_DYNAMIC_SHARED(float, rooms);
    float *const gh = rooms + kPersistentWarps * kRoom, *const gc = gh + kMostTiles * kStates;
    const PersistentLayout& layout = call.layout;
    const Elements<T, kParts> own(call);
    const int warp = own.thread / kWarpSize, lane = own.thread % kWarpSize;
    float* const room = rooms + warp * kRoom;
    RightWords weights[kGates * kDepth][2 * kParts];
    load_weights<T, kGates, kDepth>(own, warp, lane, weights);
    load_states<T, kGates>(own, gh, gc);
    GroupBarrier barrier = layout.barrier();
    PatchCopies<T, kGates * kDepth> copies(reinterpret_cast<LeftWords*>(room) + lane,
                                           kGates * layout.depth - warp);

    // `loaded` belongs to this step, `early` to the next.
    TwoSteps steps(layout, layout.steps - 1), next(layout, layout.steps - 2);
    Loaded<T, kGates> loaded[kParts], early[kParts];
    load_inputs(own, steps, 0, loaded);
    load_inputs(own, next, 0, early);
    for (Loaded<T, kGates>& each : loaded) each.prepare();
    for (int k = layout.steps - 1; k >= 0; --k) {
      const T* from = call.exchange.patch(k, own.first_tile, warp) + lane * 8;
      GateGradients<T, kGates> narrow[kParts];
      for (int tile = 0; tile < layout.tiles; ++tile) {
        if (tile > 0) {
          store_tile(own, steps, tile - 1, loaded, narrow);
          load_inputs(own, steps, tile, loaded);
          for (Loaded<T, kGates>& each : loaded) each.prepare();
        }
        differentiate_tile(own, steps, k, tile, loaded, gh, gc, narrow);
      }
      barrier.arrive();
      barrier.wait();
      copies.begin(from);
      // What no other block waits for is done while the copies run.
      store_tile(own, steps, layout.tiles - 1, loaded, narrow);
      const int active = steps.active;
      steps = next;
      next = TwoSteps(layout, k > 1 ? k - 2 : 0);
#pragma unroll
      for (int part = 0; part < kParts; ++part) loaded[part] = early[part];
      if (k > 1) load_inputs(own, next, 0, early);
      for (Loaded<T, kGates>& each : loaded) each.prepare();
      for (int tile = 0; tile < layout.tiles; ++tile) {
        if (tile > 0) {
          __syncthreads();  // earlier sums have been read
          copies.begin(from += call.exchange.tile_step());
        }
        multiply<T, kGates * kDepth, kParts>(copies, weights, room);
        add_sums<T, kParts, kRoom>(own, active, tile, rooms, gh);
      }
    }
    barrier.leave();
    store_states<T, kGates>(own, gh, gc);
  }
}

template <int kDepth> inline constexpr int kPartsOf = kDepth == kMostDepth ? 1 : 2;
template <class T, int kGates, int kDepth>
inline constexpr auto kKernel = &persistent_backward_kernel<T, kGates, kDepth, kPartsOf<kDepth>>;

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
    constexpr std::size_t kShared =
        sizeof(float) * (kPersistentWarps * warp_room<kGates * kDepth, kPartsOf<kDepth>>() +
                         2 * kMostTiles * Elements<T, kPartsOf<kDepth>>::kStates);
    const auto allow = [&] {
      runtime::allow_shared(reinterpret_cast<const void*>(kernel), kShared);
    };
    allow();  // before the device is asked how many blocks fit, and before the launch
    const std::optional<PersistentPlan> plan = sizes.plan(
        resident_blocks(kernel, {.threads = kPersistentThreads, .shared = kShared}, device.index));
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
    allow();
    launch_together(kernel,
                    {.blocks = plan->blocks(), .threads = kPersistentThreads, .shared = kShared},
                    current_stream(device), call);
    done = true;
  });
  return done;
}

}  // namespace mezzo::gpu
