// The CUDA kernels of layer_norm, also of a sum, and of rms_norm.
// See also: layer_norm_backward.cu (gradients).
#include "layer_norm.h"

#include <optional>
#include <vector>

#include "../../../tensor/core/late_result.h"
#include "../../../tensor/core/registry.h"
#include "../../../tensor/cpu/moments.h"
#include "../../../tensor/math/safe_sum.h"
#include "../../../tensor/ops/elementwise/arithmetic.h"
#include "../../../tensor/ops/index/embedding.h"
#include "../../attach.h"
#include "../names.h"

namespace mezzo::gpu {

void add_into(const Tensor& a, const Tensor& b, Tensor& out) {
  const Tensor in[] = {a, b};
  constexpr op::Add::Attrs attrs;
  static const OpInfo& info = *find_op(op::Add::traits.name);
  info.kernel[static_cast<std::size_t>(DeviceKind::cuda)](info, Inputs(in), {&out, 1}, &attrs);
}

namespace {

using cpu_kernels::Moments;
using cpu_kernels::Plus;
using math::detail::multiply_add;

/** Operands of the kernels: rows of x, one weight and bias per column (or none), one mean
 *  (layer_norm only) and rstd per row. */
struct RowNorm {
  Lines rows;
  Array x, weight, bias, y, mean, rstd;
  double eps = 0;
  Array branch = {}, sum = {};  // add_layer_norm: x + branch is written and normalised
  // of a Repeated branch: its rows, and the names, if x is a table, that select the rows of x
  std::int64_t branch_rows = 0;
  NamesHere names = {};
};

/** What is added to x in packs of T: nothing, a branch of T, or one whose rows repeat, to x or to
 *  selected rows of it. */
template <class T> using NoBranch = void;
template <class T> using Branch = T;
template <class T> struct Repeated {};

/** The factor of the slow way, for rows whose sums overflowed. */
template <class C>
inline constexpr C kDownScale = static_cast<C>(std::is_same_v<C, float> ? 0x1p-80 : 0x1p-600);

/** The mean and rstd of a row. */
template <class C> struct RowMoments {
  C mean, rstd;

  /** For the moments of the row multiplied by `scale`. */
  __device__ RowMoments(C scaled_mean, C squares, C count, double eps, C scale = C(1))
      : mean(scaled_mean / scale),
        rstd(scale / std::sqrt(squares / count + static_cast<C>(eps) * scale * scale)) {}
};

/** Returns the moments, or with a mean of 0 the squares, of the calling thread's elements of a
 *  scaled row. Not inlined: this is the slow way. */
template <class C, bool centred>
__device__ __noinline__ typename Moments<C>::State scaled_moments(const LineWalk& walk,
                                                                  const Array& x) {
  typename Moments<C>::State state{C(0), C(0), C(0)};
  walk.for_each([&](std::int64_t place, std::int64_t) {
    const C value = x.load<C>(place) * kDownScale<C>;
    if (centred)
      state = Moments<C>{}.combine(state, {C(1), value, C(0)});
    else
      state.squares += value * value;
  });
  return state;
}

/** Returns the sum of the calling thread's elements of a scaled row of packs, or of their squared
 *  deviations from the mean. Not inlined: this is the slow way. */
template <class T>
__device__ __noinline__ float scaled_sum(const T* row, int packs, int lanes, int lane, float mean,
                                         bool squares) {
  constexpr int kWidth = kPerPack<T>;
  float sum = 0;
  for (int at = lane; at < packs; at += lanes) {
    float values[kWidth];
    load_values<kWidth>(row + static_cast<std::int64_t>(at) * kWidth, values);
    for (int k = 0; k < kWidth; ++k) {
      const float step = values[k] * kDownScale<float> - mean;
      sum += squares ? step * step : step;
    }
  }
  return sum;
}

/** Computes y = (x - mean) * rstd * weight + bias. */
template <class C, bool centred>
__global__ void __launch_bounds__(kSpreadThreads)
    row_norm_kernel(const RowNorm __grid_constant__ norm) {
  using State = typename Moments<C>::State;
  MZ_SHARED(State, room, kSpreadThreads);
  const LineWalk walk(norm.rows);
  const auto combine = [](State a, State b) { return Moments<C>{}.combine(a, b); };
  const auto sum = [](State a, State b) -> State { return {C(0), C(0), a.squares + b.squares}; };
  const State none{C(0), C(0), C(0)};
  State state = none;
  if constexpr (centred)
    state = walk.fold(room, none, combine, [&](std::int64_t place, std::int64_t) -> State {
      return {C(1), norm.x.load<C>(place), C(0)};
    });
  else
    state = walk.fold(room, none, sum, [&](std::int64_t place, std::int64_t) -> State {
      const C x = norm.x.load<C>(place);
      return {C(0), C(0), x * x};
    });
  const C count = static_cast<C>(norm.rows.length);
  RowMoments<C> of(state.mean, state.squares, count, norm.eps);
  const bool repeats = walk.has_line && !math::is_finite(state.squares);
  if (__syncthreads_or(repeats)) {
    if (repeats) state = scaled_moments<C, centred>(walk, norm.x);
    const auto either = [&](State a, State b) { return centred ? combine(a, b) : sum(a, b); };
    state = joined(norm.rows.spread, walk.at, room, state, either);
    if (repeats) of = RowMoments<C>(state.mean, state.squares, count, norm.eps, kDownScale<C>);
  }
  const C mean = of.mean, rstd = of.rstd;
  if (walk.is_first()) {
    if (centred) norm.mean.store<C>(walk.line, mean);
    norm.rstd.store<C>(walk.line, rstd);
  }
  walk.for_each([&](std::int64_t place, std::int64_t i) {
    const C scaled = (norm.x.load<C>(place) - mean) * rstd * norm.weight.load_or(i, C(1));
    norm.y.store<C>(place, scaled + norm.bias.load_or(i, C(0)));
  });
}

/** Writes x + branch, rounded to T, to the row of `sums`. If it is one chunk it is held there. */
template <class T, class B>
__device__ void take_sums(RowPacks<T, 1>& sums, const T* x, const B* branch, T* to) {
  constexpr int kWidth = kPerPack<T>;
#pragma unroll 1
  for (int chunk = 0; chunk < sums.packs; chunk += kHeldPacks * sums.lanes) {
    WordsOf<B, kWidth> other[kHeldPacks];
#pragma unroll
    for (int j = 0; j < kHeldPacks; ++j) {
      const int at = chunk + j * sums.lanes + sums.lane;
      if (at >= sums.packs) break;
      sums.pack[j][0] = reinterpret_cast<const PackWords*>(x)[at];
      other[j] = reinterpret_cast<const WordsOf<B, kWidth>*>(branch)[at];
    }
#pragma unroll
    for (int j = 0; j < kHeldPacks; ++j) {
      const int at = chunk + j * sums.lanes + sums.lane;
      if (at >= sums.packs) break;
      sums.pack[j][0] = sum_of<T, B>(sums.pack[j][0], other[j]);
      store_words(to + at * kWidth, sums.pack[j][0]);
    }
    sums.held = chunk;
  }
}

/** The same for rows of packs of T, with weight and bias of W, of x + branch unless B, the type of
 *  the branch, is void. */
template <class T, class W, bool centred, class B>
__global__ void __launch_bounds__(kTeamThreads)
    packed_norm_kernel(const RowNorm __grid_constant__ norm, const Teams teams) {
  constexpr int kWidth = kPerPack<T>;
  constexpr bool adds = !std::is_void_v<B>;
  MZ_SHARED(float, room, kTeamWarps);
  const Team team(teams);
  const std::int64_t base = team.row * norm.rows.length;
  RowPacks<T, 1> x(team, teams.packs,
                   static_cast<const T*>(adds ? norm.sum.data : norm.x.data) + base);
  if constexpr (std::is_same_v<B, Repeated<T>>) {
    std::int64_t from = team.has_row ? team.row : 0;
    if (norm.names.data && team.has_row) from = norm.names.row(from);
    if (from < 0) from = 0;  // for an index out of range
    const std::int64_t branch = Split(team.row, norm.branch_rows).rest;
    take_sums(x, static_cast<const T*>(norm.x.data) + from * norm.rows.length,
              static_cast<const T*>(norm.branch.data) + branch * norm.rows.length,
              static_cast<T*>(norm.sum.data) + base);
  } else if constexpr (adds) {
    take_sums(x, static_cast<const T*>(norm.x.data) + base,
              static_cast<const B*>(norm.branch.data) + base,
              static_cast<T*>(norm.sum.data) + base);
  }
  const auto count = static_cast<float>(norm.rows.length);
  float mean = 0, squares = 0;
  if constexpr (centred) {
    x.for_each([&](int, int, const float(&v)[1][kWidth]) {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) mean += v[0][k];
    });
    mean = team.all(mean, Plus{}, room) / count;
  }
  x.for_each([&](int, int, const float(&v)[1][kWidth]) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const float step = v[0][k] - mean;
      squares = multiply_add(step, step, squares);
    }
  });
  squares = team.all(squares, Plus{}, room);
  float rstd = 1.0f / std::sqrt(squares / count + static_cast<float>(norm.eps));
  const bool repeats = team.has_row && !math::is_finite(squares);
  if (__any_sync(kAllLanes, repeats)) {  // a team of several warps agrees
    const T* const row = static_cast<const T*>(adds ? norm.sum.data : norm.x.data) + base;
    const int packs = repeats ? teams.packs : 0;
    const auto total = [&](float around, bool of_squares) {
      return team.all(scaled_sum(row, packs, team.lanes, team.lane, around, of_squares), Plus{},
                      room);
    };
    const float around = centred ? total(0, false) / count : 0.0f;
    const RowMoments<float> of(around, total(around, true), count, norm.eps, kDownScale<float>);
    if (repeats) {
      mean = of.mean;
      rstd = of.rstd;
    }
  }
  if (team.is_first()) {
    if (centred) norm.mean.store<float>(team.row, mean);
    norm.rstd.store<float>(team.row, rstd);
  }
  const W* const weight = static_cast<const W*>(norm.weight.data);
  const W* const bias = static_cast<const W*>(norm.bias.data);
  x.for_each([&](int, int at, const float(&v)[1][kWidth]) {
    float y[kWidth], affine[kWidth];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) y[k] = (v[0][k] - mean) * rstd;
    if (weight) {
      load_values<kWidth>(weight + at, affine);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) y[k] *= affine[k];
    }
    if (bias) {
      load_values<kWidth>(bias + at, affine);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) y[k] += affine[k];
    }
    store_values<kWidth>(static_cast<T*>(norm.y.data) + base + at, y);
  });
}

/** Launches the kernel of packs. */
template <class T, class W, bool centred, class B>
void launch_packed(const RowNorm& norm, runtime::Stream stream) {
  const Teams teams(norm.rows.count, norm.rows.length, norm.x.dtype);
  launch(&packed_norm_kernel<T, W, centred, B>, teams.grid(), stream, norm, teams);
}

template <bool centred, template <class> class BranchOf>
void packed_forward(const RowNorm& norm, runtime::Stream stream) {
  visit_packed(norm.x.dtype, affine_dtype(norm),
               [&]<class T, class W>(std::type_identity<T>, std::type_identity<W>) {
                 launch_packed<T, W, centred, BranchOf<T>>(norm, stream);
               });
}

/** Launches the kernel of packs of f32 plus a 16-bit branch, and returns true if it takes them. */
bool widened_forward(const RowNorm& norm, runtime::Stream stream) {
  const bool fits =
      is_low(norm.branch.dtype) && reinterpret_cast<std::uintptr_t>(norm.branch.data) % 16 == 0 &&
      affine_dtype(norm) == DType::f32 &&
      have_packs(norm.rows.length, {norm.x, norm.sum, norm.y}, {norm.weight, norm.bias}) &&
      norm.x.dtype == DType::f32;
  if (!fits) return false;
  if (norm.branch.dtype == DType::f16)
    launch_packed<float, float, true, Half>(norm, stream);
  else
    launch_packed<float, float, true, BFloat16>(norm, stream);
  return true;
}

template <bool centred>
void forward(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& y,
             const Tensor& mean, const Tensor& rstd, const op::RowNormAttrs& attrs) {
  const Tensor x = row_major(input);
  const Tensor w = row_major(weight), b = row_major(bias);
  const RowNorm norm{trailing_lines(x.shape(), attrs.dims.rank()),
                     Array(x),
                     Array(w),
                     Array(b),
                     Array(y),
                     Array(mean),
                     Array(rstd),
                     attrs.eps};
  const runtime::Stream stream = current_stream(x.device());
  if (have_packs(norm.rows.length, {norm.x, norm.y}, {norm.weight, norm.bias}))
    return packed_forward<centred, NoBranch>(norm, stream);
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&row_norm_kernel<C, centred>, grid_of(norm.rows), stream, norm);
  });
}

void layer_norm(Inputs in, Outputs out, const op::RowNormAttrs& attrs) {
  forward<true>(in[0], in[1], in[2], out[0], out[1], out[2], attrs);
}

void add_layer_norm(Inputs in, Outputs out, const op::RowNormAttrs& attrs) {
  const std::vector<Tensor> lookup = late_operands(op_info<op::Embedding>, in[0]);
  std::optional<Names> names;  // if x consists of rows of a table that are still to be looked up
  if (!lookup.empty() && attrs.dims.rank() == 1 && in[0].numel() > 0 && lookup[1].is_contiguous())
    names.emplace("embedding", lookup[0], lookup[1], 0, lookup[1].size(0));
  const Tensor x = row_major(names ? lookup[1] : in[0]), branch = row_major(in[1]);
  const Tensor weight = row_major(in[2]), bias = row_major(in[3]);
  RowNorm norm{trailing_lines(in[0].shape(), attrs.dims.rank()),
               Array(x),
               Array(weight),
               Array(bias),
               Array(out[1]),
               Array(out[2]),
               Array(out[3]),
               attrs.eps,
               Array(branch),
               Array(out[0])};
  const bool repeats = names || branch.numel() != in[0].numel();
  if (repeats) norm.branch_rows = branch.numel() / norm.rows.length;
  if (names) norm.names = NamesHere(*names);
  if (have_packs(norm.rows.length, {norm.x, norm.branch, norm.sum, norm.y},
                 {norm.weight, norm.bias}))
    return repeats ? packed_forward<true, Repeated>(norm, current_stream(x.device()))
                   : packed_forward<true, Branch>(norm, current_stream(x.device()));
  if (!repeats && widened_forward(norm, current_stream(x.device()))) return;
  add_into(in[0], branch, out[0]);
  forward<true>(out[0], weight, bias, out[1], out[2], out[3], attrs);
}

void rms_norm(Inputs in, Outputs out, const op::RowNormAttrs& attrs) {
  forward<false>(in[0], in[1], {}, out[0], {}, out[1], attrs);
}

}  // namespace

void attach_layer_norm() {
  attach<op::AddLayerNorm, add_layer_norm>();
  attach<op::LayerNorm, layer_norm>();
  attach<op::RmsNorm, rms_norm>();
}

}  // namespace mezzo::gpu
