// The CUDA kernels of batch_norm with and without a fused relu, of their gradients, and of the
// update of running statistics. A channel that is small enough for one block is normalised in one
// launch: the block computes the statistics, and its second pass over x reads from the cache.
// Larger ones take two launches, or three in 16-byte packs if the channels are innermost
// (channel_rows.h).
#include <algorithm>

#include "../../../tensor/core/late_result.h"
#include "../../../tensor/ops/pool/pool.h"
#include "../../attach.h"
#include "../channel_packs.h"
#include "../map.h"

namespace mezzo::gpu {

namespace {

// ---- forward ------------------------------------------------------------------------------------

/** Returns the value rounded to a dtype of 16 bits, or as it is. */
template <class C> __device__ C rounded(C value, DType dtype) {
  if (dtype == DType::f16) return element_as<C>(element_as<Half>(value));
  if (dtype == DType::bf16) return element_as<C>(element_as<BFloat16>(value));
  return value;
}

/** Computes relu(normal + residual), after rounding the normalised value to the result's dtype. */
struct ReluTail {
  Array residual;

  template <class C> __device__ C operator()(C normal, std::int64_t place) const {
    return op::Relu::forward<C>(
        residual.data ? rounded(normal, residual.dtype) + residual.load<C>(place) : normal);
  }
};

template <class T> RowTail<T> tail_of_rows(const AsIs&) { return {}; }
template <class T> RowTail<T> tail_of_rows(const ReluTail& tail) {
  return {static_cast<const T*>(tail.residual.data), true};
}

template <class C, class After>
__global__ void __launch_bounds__(kWholeThreads)
    whole_norm_kernel(const Normalisation<C> __grid_constant__ norm,
                      const After __grid_constant__ after) {
  MZ_SHARED(MomentsState<C>, room, kWholeThreads);
  const ChannelWalk walk(norm.runs);
  const MomentsState<C> state = moments_over<C>(walk, norm.x, room);
  normalise_runs(norm, after, walk, norm.statistics(walk, walk.channel, state, room));
}

/** Combines the moments of all chunks and writes the statistics of each channel. */
__global__ void __launch_bounds__(kSpreadThreads)
    join_moments_kernel(const RowChunks __grid_constant__ rows,
                        const Normalisation<float> __grid_constant__ norm) {
  MZ_SHARED(MomentsState<float>, room, kSpreadThreads);
  const Role at = role_in(join_spread());
  const std::int64_t channel =
      static_cast<std::int64_t>(blockIdx.x) * join_spread().slots + at.slot;
  const MomentsState<float> all =
      joined_rows(rows, norm.partial, room, channel, at, CombineMoments<float>{});
  const Statistics<float> of = safe_statistics<float>(norm.x, norm.lines, join_spread(), at,
                                                      channel < rows.channels, channel, all, room);
  if (channel < rows.channels && at.part == 0) norm.write_statistics(channel, of);
}

/** Normalises a row-major tensor of packs, in training or with given statistics. */
template <class After>
void normalise_runs_of_packs(Normalisation<float> norm, const After& after, const Sizes& s,
                             bool training, Device device) {
  visit_runs(s, norm.x.dtype,
             [&]<class T, int width>(std::type_identity<T>, std::integral_constant<int, width>) {
               const Channels whole = whole_channels(s.samples, s.channels, s.inner, width);
               const RowTail<T> tail = tail_of_rows<T>(after);
               if (training && whole.is_small()) {
                 norm.runs = whole;
                 norm.lines = StatisticLines(whole);
                 return launch(&packed_whole_norm_kernel<T, width>, grid_of(whole),
                               current_stream(device), norm, tail);
               }
               norm.runs = spread_channels(s.samples, s.channels, s.inner, width);
               normalise_in_packs<width>(norm, tail, training ? &norm.runs : nullptr, device);
             });
}

/** Normalises rows of channels, in training or with given statistics. */
template <class After>
void normalise_rows(Normalisation<float> norm, const After& after, bool training, Device device) {
  const Channels& sizes = norm.runs;
  visit_packed(norm.x.dtype, [&]<class T>(std::type_identity<T>) {
    const RowChunks rows(sizes.samples, sizes.channels, norm.x.dtype, kNormaliseResident<T>);
    const runtime::Stream stream = current_stream(device);
    const auto* const x = static_cast<const T*>(norm.x.data);
    Tensor room;
    if (training) {
      const RowChunks sums(sizes.samples, sizes.channels, norm.x.dtype, kMomentsResident);
      room = workspace(sums.partials() * static_cast<std::int64_t>(sizeof(MomentsState<float>)),
                       device);
      auto* const partial = static_cast<MomentsState<float>*>(room.raw_data());
      norm.partial = partial;
      norm.lines = StatisticLines(sizes);
      launch(&packed_moments_kernel<T>, sums.grid(), stream, sums, x, partial);
      launch(&join_moments_kernel, join_grid(sums.channels), stream, sums, norm);
    }
    launch(&packed_normalise_kernel<T>, rows.grid(), stream, rows, norm, x,
           static_cast<T*>(norm.y.data), tail_of_rows<T>(after));
  });
}

template <class After>
void forward(Inputs in, Outputs out, const op::BatchNorm::Attrs& attrs, const After& after) {
  const Tensor x = aligned(channels_as_in(out[0], in[0])), weight = row_major(in[1]),
               bias = row_major(in[2]);
  const Tensor mean = row_major(in[3]), var = row_major(in[4]);
  const Sizes s(x.shape());
  const Channels runs = spread_channels(s.samples, s.channels, s.inner),
                 whole = whole_channels(s.samples, s.channels, s.inner);
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    Normalisation<C> norm{.runs = runs,
                          .sharing = {1, s.channels},
                          .x = Array(x),
                          .weight = Array(weight),
                          .bias = Array(bias),
                          .given_mean = Array(mean),
                          .given_var = Array(var),
                          .eps = attrs.eps};
    norm.write_to(out);
    if (attrs.training && attrs.tracks) {
      norm.running_mean = Array(in[3]);
      norm.running_var = Array(in[4]);
      norm.move_mean = {attrs.momentum, 1};
      norm.move_var = {attrs.momentum, op::unbiased_scale(runs.length())};
      norm.batches = in[5].defined() ? in[5].data<std::int64_t>() : nullptr;
    }
    if constexpr (std::is_same_v<C, float>) {
      if (takes_rows(s, x.dtype(), attrs.training))
        return normalise_rows(norm, after, attrs.training, x.device());
      if (takes_runs(s, x.dtype()))
        return normalise_runs_of_packs(norm, after, s, attrs.training, x.device());
    }
    if (attrs.training && whole.is_small()) {
      norm.runs = whole;
      norm.lines = StatisticLines(whole);
      launch(&whole_norm_kernel<C, After>, grid_of(whole), current_stream(x.device()), norm, after);
    } else {
      normalise(norm, after, attrs.training ? &runs : nullptr, x.device());
    }
  });
}

void batch_norm(Inputs in, Outputs out, const op::BatchNorm::Attrs& attrs) {
  forward(in, out, attrs, AsIs{});
}

void batch_norm_relu(Inputs in, Outputs out, const op::BatchNorm::Attrs& attrs) {
  const Tensor residual = aligned(channels_as_in(out[0], in[6]));
  forward(in, out, attrs, ReluTail{Array(residual)});
}

// ---- gradients ----------------------------------------------------------------------------------

/** The gradient of relu, by its result y if given, else by the recomputed normalised value. The
 *  gated gradient is also that of the residual. */
struct ReluGate {
  static constexpr bool kReadsX = true;
  Array y, other, g_residual;  // `other`: added to g, with one rounding; may be absent
  double zero = 0;             // values up to it were rounded to 0 or are negative

  template <class C> __device__ C operator()(C g, C normal, std::int64_t place) const {
    if (!y.data) return normal <= static_cast<C>(zero) ? C(0) : g;
    const C result = y.load<C>(place);
    const C all = other.data ? rounded(g + other.load<C>(place), other.dtype) : g;
    return op::Relu::gradient<C>(all, result, result);
  }
  template <class C> __device__ void keep(C g, std::int64_t place) const {
    if (g_residual.data) g_residual.store<C>(place, g);
  }
};

template <class T> RowGate<T> gate_of_rows(const NoGate&) { return {}; }
template <class T> RowGate<T> gate_of_rows(const ReluGate& gate) {
  return {.y = static_cast<const T*>(gate.y.data),
          .other = static_cast<const T*>(gate.other.data),
          .g_residual = static_cast<T*>(gate.g_residual.data),
          .has_relu = true,
          .zero = static_cast<float>(gate.zero)};
}

template <class C, class Gate>
__global__ void __launch_bounds__(kWholeThreads)
    whole_backward_kernel(const NormBackward<C> __grid_constant__ norm,
                          const Gate __grid_constant__ gate) {
  MZ_SHARED(GradientSums<C>, room, kWholeThreads);
  const ChannelWalk walk(norm.runs);
  const RunCoefficients<C> run(norm, walk);
  differentiate_runs(norm, gate, walk, run, gradient_sums_over(norm, gate, walk, run, room));
}

/** The operands of a gradient: in[0..4]. With a pooling, the first is the gradient of its maxima.
 */
struct GradientOperands {
  Tensor in[5];
  PooledPairs pool = {};

  /** Without a pooling. */
  explicit GradientOperands(Inputs all) { std::copy_n(all.begin(), 5, in); }
};

/** Returns the operands; with a pooling if the gradient that was passed is late and follows from
 *  that of the maxima, and the kernels of packs take it. */
GradientOperands pooled_operands(Inputs in) {
  GradientOperands all(in);
  const Tensor& g = in[0];
  if (!takes_runs(Sizes(g.shape()), g.dtype()) || g.numel() > std::int64_t{1} << 30) return all;
  const std::vector<Tensor> pooled = late_operands(op_info<op::MaxPoolBackward>, g);
  if (pooled.empty() || pooled[1].size(-1) < PooledPairs::kLeast) return all;
  all.in[0] = pooled[0];
  all.pool = {pooled[1].data<std::uint8_t>(),
              Divider(static_cast<std::uint32_t>(pooled[1].size(-1)))};
  return all;
}

/** Computes the gradients of a row-major tensor of packs. */
template <class Gate>
void differentiate_runs_of_packs(const NormBackward<float>& norm, const Gate& gate,
                                 const PooledPairs& pool, const Sizes& s, Device device) {
  const auto differentiate = [&]<class T, int width, bool pooled>(
                                 std::type_identity<T>, std::integral_constant<int, width>,
                                 std::bool_constant<pooled>) {
    RunGradients<T> of = run_gradients<T>(norm, gate_of_rows<T>(gate));
    of.pool = pool;
    const runtime::Stream stream = current_stream(device);
    of.norm.runs = whole_channels(s.samples, s.channels, s.inner, width);
    if (of.norm.runs.is_small())
      return launch(&packed_whole_gradient_kernel<T, width, pooled>, grid_of(of.norm.runs), stream,
                    of);
    of.norm.runs = spread_channels(s.samples, s.channels, s.inner, width);
    const Tensor room = sums_room<float>(s.channels * of.norm.runs.chunks, device);
    auto* const partial = static_cast<GradientSums<float>*>(room.raw_data());
    launch(&packed_run_sums_kernel<T, width, pooled>, grid_of(of.norm.runs), stream, of, partial);
    launch(&packed_run_gradient_kernel<T, width, pooled>, grid_of(of.norm.runs), stream, of,
           partial, of.norm.runs.chunks);
  };
  visit_runs(s, norm.x.dtype, [&](auto type, auto width) {
    if (pool.positions) return differentiate(type, width, std::true_type{});
    differentiate(type, width, std::false_type{});
  });
}

/** Computes the gradients of rows of channels. */
template <class Gate>
void differentiate_rows(const NormBackward<float>& norm, const Gate& gate, const Sizes& s,
                        Device device) {
  visit_packed(norm.x.dtype, [&]<class T>(std::type_identity<T>) {
    const RowGradients<T> of = row_gradients<T>(norm, s, gate_of_rows<T>(gate));
    const Tensor room = workspace(
        (of.rows.partials() + s.channels) * static_cast<std::int64_t>(sizeof(RowSums)), device);
    auto* const partial = static_cast<RowSums*>(room.raw_data());
    auto* const totals = partial + of.rows.partials();
    const runtime::Stream stream = current_stream(device);
    launch(&packed_gradient_sums_kernel<T>, of.rows.grid(), stream, of, partial);
    launch(&join_gradient_sums_kernel<RowSums>, join_grid(s.channels), stream, of.rows, norm,
           partial, totals);
    launch(&packed_norm_gradient_kernel<T>, of.rows.grid(), stream, of, totals);
  });
}

template <class Gate>
void backward(const GradientOperands& operands, Outputs out, const Tensor& bias, bool training,
              const Gate& gate) {
  NormOperands held(operands.in, out[0]);
  held.g = aligned(held.g);
  held.x = aligned(held.x);
  const Device device = held.x.device();
  const Sizes s(held.x.shape());
  const Channels whole = whole_channels(s.samples, s.channels, s.inner);
  const runtime::Stream stream = current_stream(device);
  visit_floating_compute(held.x.dtype(), [&]<class C>(std::type_identity<C>) {
    NormBackward<C> norm = held.operands<C>(out);
    norm.bias = Array(bias);
    norm.sharing = {1, s.channels};
    norm.count = static_cast<C>(whole.length());
    norm.through_statistics = training;
    if constexpr (std::is_same_v<C, float>) {
      if (takes_rows(s, held.x.dtype(), true)) return differentiate_rows(norm, gate, s, device);
      if (takes_runs(s, held.x.dtype()))
        return differentiate_runs_of_packs(norm, gate, operands.pool, s, device);
    }
    if (whole.is_small()) {
      norm.runs = whole;
      launch(&whole_backward_kernel<C, Gate>, grid_of(whole), stream, norm, gate);
      return;
    }
    norm.runs = spread_channels(s.samples, s.channels, s.inner);
    const Tensor room = sums_room<C>(s.channels * norm.runs.chunks, device);
    auto* const partial = static_cast<GradientSums<C>*>(room.raw_data());
    launch(&gradient_sums_kernel<C, Gate>, grid_of(norm.runs), stream, norm, gate, partial);
    launch(&norm_backward_kernel<C, Gate>, grid_of(norm.runs), stream, norm, gate, partial,
           norm.runs.chunks);
  });
}

void batch_norm_backward(Inputs in, Outputs out, const op::BatchNorm::Attrs& attrs) {
  backward(pooled_operands(in), out, {}, attrs.training, NoGate{});
}

void batch_norm_relu_backward(Inputs in, Outputs out, const op::BatchNorm::Attrs& attrs) {
  const Tensor bias = row_major(in[5]), y = aligned(channels_as_in(out[0], in[6])),
               other = aligned(channels_as_in(out[0], in[7]));
  const double zero = op::largest_rounded_to_zero(in[1].dtype());
  const Array g_residual = y.defined() ? Array(out[3]) : Array();
  const ReluGate gate{Array(y), Array(other), g_residual, zero};
  backward(y.defined() ? GradientOperands(in) : pooled_operands(in), out, bias, attrs.training,
           gate);
}

// ---- running statistics -------------------------------------------------------------------------

template <class C>
__global__ void __launch_bounds__(kMapThreads)
    update_kernel(const Map __grid_constant__ map, const op::UpdateRunning::Attrs attrs) {
  for_each_run(map, [&](std::int64_t at, int n) {
    C running[kRun], batch[kRun];
    load_run<C>(map, map.in[0], at, n, running);
    load_run<C>(map, map.in[1], at, n, batch);
#pragma unroll
    for (int k = 0; k < kRun; ++k)
      if (k < n) running[k] = op::updated_running<C>(attrs, running[k], batch[k]);
    store_run<C>(map, map.out[0], at, n, running);
  });
}

template <class C> void launch_update(const Map& map, const void* attrs, runtime::Stream stream) {
  launch(&update_kernel<C>, map_grid(map), stream, map,
         *static_cast<const op::UpdateRunning::Attrs*>(attrs));
}

void update_running(Inputs in, Outputs out, const op::UpdateRunning::Attrs& attrs) {
  constexpr MapFns fns{&launch_update<float>, &launch_update<double>};
  map_elements(fns, compute_dtype(in[1].dtype()), in, out, &attrs);
}

}  // namespace

void attach_batch_norm() {
  attach<op::BatchNorm, batch_norm>();
  attach<op::BatchNormBackward, batch_norm_backward>();
  attach<op::BatchNormRelu, batch_norm_relu>();
  attach<op::BatchNormReluBackward, batch_norm_relu_backward>();
  attach<op::UpdateRunning, update_running>();
}

}  // namespace mezzo::gpu
