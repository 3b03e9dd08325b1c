// The CUDA kernels of resizing: one launch over all dimensions for few terms, one launch per
// changed dimension for wide filters and adjoints. Of many results, a thread computes those of
// several planes by the same terms.
#include <algorithm>
#include <vector>

#include "../../../tensor/cpu/order.h"
#include "../../../tensor/ops/resize/interpolate_terms_cpu.h"
#include "../../attach.h"
#include "../lines.h"
#include "../move.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::Interpolation;

// ---- all dimensions at once ---------------------------------------------------------------------

/** Results from which on a thread computes several planes. */
constexpr std::int64_t kManyResults = 1 << 20;
/** Planes of such a thread: terms are the same in all. */
constexpr int kPlanes = 8;

/** The terms of a result along one dimension without antialiasing: `most` for the mode. */
template <class C, int most> struct Terms {
  std::int64_t from[most] = {};
  C by[most] = {};

  __device__ Terms(const Interpolation<C>& map, std::int64_t o) {
    Interpolation<C> fixed = map;  // known modes keep the terms in registers
    fixed.antialias = false;
    if constexpr (most == 1) {
      if (map.mode == InterpolateMode::nearest)
        set(fixed, InterpolateMode::nearest, o);
      else
        set(fixed, InterpolateMode::nearest_exact, o);
    } else {
      set(fixed, most == 2 ? InterpolateMode::linear : InterpolateMode::bicubic, o);
    }
  }

 private:
  __device__ void set(Interpolation<C>& map, InterpolateMode mode, std::int64_t o) {
    map.mode = mode;
    int count = 0;
    map.for_each_term(o, [&](std::int64_t i, C weight) {
      from[count] = i;
      by[count++] = weight;
    });
  }
};

template <class C> struct Volumes {
  Interpolation<C> depth, height, width;
  std::int64_t channels = 1;  // interleaved channels; 1 for row-major arrays
  std::int64_t planes = 1;    // volumes of all channels together, or of one
  int per_thread = 1;         // planes

  MZ_HD std::int64_t operands() const { return depth.r.in * height.r.in * width.r.in * channels; }
  MZ_HD std::int64_t results() const { return depth.r.out * height.r.out * width.r.out * channels; }
  std::int64_t threads() const { return blocks_for(planes, per_thread) * results(); }
};

/** `most`: terms along one dimension; 4 only for images. */
template <class T, int most>
__global__ void __launch_bounds__(kSpreadThreads)
    resize_kernel(const Volumes<ComputeOf<T>> __grid_constant__ map, const T* x, T* y,
                  std::int64_t threads) {
  using C = ComputeOf<T>;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kSpreadThreads + threadIdx.x;
  if (thread >= threads) return;
  std::int64_t d, h, w, place, channel = 0;
  std::int64_t plane = divided(thread, map.results(), place) * map.per_thread;
  const std::int64_t point = map.channels > 1 ? divided(place, map.channels, channel) : place;
  d = divided(divided(point, map.width.r.out, w), map.height.r.out, h);
  constexpr int kDeep = most == 4 ? 1 : most;
  const Terms<C, kDeep> deep(map.depth, d);
  const Terms<C, most> down(map.height, h), across(map.width, w);
  for (int k = 0; k < map.per_thread && plane < map.planes; ++k, ++plane) {
    const T* const from = x + plane * map.operands() + channel;
    C sum = 0;
#pragma unroll
    for (int a = 0; a < kDeep; ++a)
#pragma unroll
      for (int b = 0; b < most; ++b) {
        if (deep.by[a] == C(0) || down.by[b] == C(0)) continue;
        const std::int64_t row = deep.from[a] * map.height.r.in + down.from[b];
        C line = 0;
#pragma unroll
        for (int c = 0; c < most; ++c)
          if (across.by[c] != C(0))
            line += across.by[c] *
                    element_as<C>(from[(row * map.width.r.in + across.from[c]) * map.channels]);
        sum += deep.by[a] * down.by[b] * line;
      }
    y[plane * map.results() + place] = element_as<T>(sum);
  }
}

/** Calls f(kernel) with the kernel of a mode. */
template <class T, class F> void with_resize_kernel(InterpolateMode mode, const F& f) {
  if (mode == InterpolateMode::nearest || mode == InterpolateMode::nearest_exact)
    f(&resize_kernel<T, 1>);
  else if (mode == InterpolateMode::bicubic)
    f(&resize_kernel<T, 4>);
  else
    f(&resize_kernel<T, 2>);
}

// ---- one dimension ------------------------------------------------------------------------------

/** A pass along one dimension of [outer][size][inner]. */
template <class C> struct Pass {
  Interpolation<C> map;
  std::int64_t outer = 1, inner = 1;
  Spread spread;
  bool adjoint = false;

  std::int64_t written() const { return outer * inner * (adjoint ? map.r.in : map.r.out); }
};

/** The first and last result that may have element i as a term. */
struct Span {
  std::int64_t first, last;
};
template <class C> MZ_HD Span results_of(const Interpolation<C>& map, std::int64_t i) {
  const auto scale = static_cast<double>(map.r.scale), last = static_cast<double>(map.r.out - 1);
  Span span{0, map.r.out - 1};
  if (scale == 0) return span;
  // The position of a result's centre, and the largest distance of terms.
  const double offset = map.align_corners ? 0 : 0.5;
  double reach = map.mode == InterpolateMode::bicubic ? 2 : 1;
  if (map.antialias) reach = reach * (scale > 1 ? scale : 1) + 1;
  if (map.mode == InterpolateMode::nearest || map.mode == InterpolateMode::nearest_exact)
    reach += scale;
  const double middle = static_cast<double>(i) + offset;
  const double low = std::floor((middle - reach) / scale - offset) - 1,
               high = std::ceil((middle + reach) / scale - offset) + 1;
  // The outermost elements also represent all positions beyond them.
  if (i > 0)
    span.first = low <= 0 ? 0 : low >= last ? map.r.out - 1 : static_cast<std::int64_t>(low);
  if (i < map.r.in - 1)
    span.last = high <= 0 ? 0 : high >= last ? map.r.out - 1 : static_cast<std::int64_t>(high);
  return span;
}

/** A thread computes the results at one place of `planes` outer indices. */
template <class X, int planes>
__global__ void __launch_bounds__(kSpreadThreads)
    pass_kernel(const Pass<ComputeOf<X>> __grid_constant__ pass, const X* x, const Array y,
                std::int64_t count) {
  using C = ComputeOf<X>;
  MZ_SHARED(C, room, kSpreadThreads);
  const Role at = role_in(pass.spread);
  const std::int64_t result = static_cast<std::int64_t>(blockIdx.x) * pass.spread.slots + at.slot;
  const Interpolation<C>& map = pass.map;
  const std::int64_t read = pass.adjoint ? map.r.out : map.r.in,
                     written = pass.adjoint ? map.r.in : map.r.out;
  std::int64_t j = 0, k = 0, outer = 0;
  C sums[planes] = {};
  if (result < count) {
    outer = divided(divided(result, pass.inner, j), written, k) * planes;
    const X* const from = x + outer * read * pass.inner + j;
    const auto add = [&](std::int64_t i, C weight) {
      if (weight == C(0)) return;
#pragma unroll
      for (int p = 0; p < planes; ++p)
        if (p == 0 || outer + p < pass.outer)
          sums[p] += weight * element_as<C>(from[(p * read + i) * pass.inner]);
    };
    if (pass.adjoint) {
      const Span span = results_of(map, k);
      for (std::int64_t o = span.first + at.part; o <= span.last; o += pass.spread.parts) {
        C by = 0;
        map.for_each_term(
            o, [&](std::int64_t from_o, C weight) { by += from_o == k ? weight : C(0); });
        add(o, by);
      }
    } else {
      map.for_each_term(k, add);
    }
  }
  if (planes == 1 && pass.spread.parts > 1)
    sums[0] = joined(pass.spread, at, room, sums[0], cpu_kernels::Plus{});
  if (result >= count || at.part != 0) return;
#pragma unroll
  for (int p = 0; p < planes; ++p)
    if (outer + p < pass.outer) y.store<C>(((outer + p) * written + k) * pass.inner + j, sums[p]);
}

/** Returns the passes from an operand of shape `operand` to its result; those that shrink most come
 *  first. */
template <class C>
std::vector<Pass<C>> passes_of(const op::InterpolateAttrs& attrs, const Shape& operand,
                               bool adjoint, MemoryFormat format) {
  const int rank = operand.rank();
  std::int64_t sizes[Shape::kMaxRank] = {};
  double growth[Shape::kMaxRank] = {};
  std::vector<int> order;
  for (int d = 0; d < rank; ++d) {
    sizes[d] = operand[d];
    if (d < 2) continue;
    const Interpolation<C> map(attrs, static_cast<std::size_t>(d - 2), operand[d]);
    if (adjoint) sizes[d] = map.r.out;
    const double ratio = static_cast<double>(map.r.out) / static_cast<double>(map.r.in);
    growth[d] = adjoint ? 1 / ratio : ratio;
    const bool identity = map.r.in == map.r.out && map.r.scale == C(1) && map.coarse.scale == 1;
    if (identity) continue;
    const auto later =
        std::find_if(order.begin(), order.end(), [&](int o) { return growth[o] > growth[d]; });
    order.insert(later, d);
  }
  if (order.empty()) order.push_back(rank - 1);
  std::vector<Pass<C>> passes;
  for (const int d : order) {
    Pass<C> pass;
    pass.map = Interpolation<C>(attrs, static_cast<std::size_t>(d - 2), operand[d]);
    pass.adjoint = adjoint;
    bool is_inside = false;
    for (int place = 0; place < rank; ++place) {
      const int i = dim_at(format, rank, place);
      if (i != d) (is_inside ? pass.inner : pass.outer) *= sizes[i];
      is_inside = is_inside || i == d;
    }
    sizes[d] = adjoint ? pass.map.r.in : pass.map.r.out;
    constexpr std::int64_t kPerThread = 32;  // candidates per thread
    const Span span = results_of(pass.map, pass.map.r.in / 2);
    pass.spread =
        spread_over(pass.written(), adjoint ? (span.last - span.first) / kPerThread : 1, false);
    passes.push_back(pass);
  }
  return passes;
}

template <class C>
void run(const std::vector<Pass<C>>& passes, const Tensor& from, const Tensor& to) {
  Tensor held;
  Array x(from);
  for (const Pass<C>& pass : passes) {
    const std::int64_t count = pass.written();
    Array y(to);
    Tensor next;
    if (&pass != &passes.back()) {
      next = workspace(count * static_cast<std::int64_t>(sizeof(C)), to.device());
      y.data = next.raw_data();
      y.dtype = dtype_of<C>();
    }
    const bool many = count >= kManyResults && pass.spread.parts == 1;
    const std::int64_t results =
        many ? count / pass.outer * blocks_for(pass.outer, kPlanes) : count;
    visit_floating(x.dtype, [&]<class X>(std::type_identity<X>) {
      if constexpr (std::is_same_v<ComputeOf<X>, C>)
        launch(many ? &pass_kernel<X, kPlanes> : &pass_kernel<X, 1>,
               {.blocks = blocks_for(results, pass.spread.slots), .threads = pass.spread.threads()},
               current_stream(to.device()), pass, static_cast<const X*>(x.data), y, results);
    });
    held = next;
    x = y;
  }
}

void interpolate(Inputs in, Outputs out, const op::InterpolateAttrs& attrs) {
  const std::int64_t count = out[0].numel();
  if (count == 0) return;
  const MemoryFormat format = common_format(in, out[0], in[0].dim() - 2);
  const Tensor x = to_format(in[0], format);
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    if (attrs.antialias) return run(passes_of<C>(attrs, x.shape(), false, format), x, out[0]);
    Volumes<C> map;
    if (format == MemoryFormat::channels_last) map.channels = x.size(1);
    Interpolation<C>* const axes[] = {&map.width, &map.height, &map.depth};
    for (int d = 2; d < x.dim(); ++d)
      *axes[x.dim() - 1 - d] =
          Interpolation<C>(attrs, static_cast<std::size_t>(d - 2), x.shape()[d]);
    map.planes = count / map.results();
    if (count >= kManyResults) map.per_thread = kPlanes;
    const std::int64_t threads = map.threads();
    visit_floating(x.dtype(), [&]<class T>(std::type_identity<T>) {
      if constexpr (std::is_same_v<ComputeOf<T>, C>)
        with_resize_kernel<T>(attrs.mode, [&](auto kernel) {
          launch(kernel, {.blocks = blocks_for(threads, kSpreadThreads), .threads = kSpreadThreads},
                 current_stream(x.device()), map, static_cast<const T*>(x.raw_data()),
                 static_cast<T*>(out[0].raw_data()), threads);
        });
    });
  });
}

void interpolate_backward(Inputs in, Outputs out, const op::InterpolateBackward::Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const MemoryFormat format = common_format(in, out[0], in[0].dim() - 2);
  const Tensor g = to_format(in[0], format);
  visit_floating_compute(g.dtype(), [&]<class C>(std::type_identity<C>) {
    run(passes_of<C>(attrs.map, attrs.sizes, true, format), g, out[0]);
  });
}

}  // namespace

void attach_interpolate() {
  attach<op::Interpolate, interpolate>();
  attach<op::InterpolateBackward, interpolate_backward>();
  attach<op::UpsampleBicubic, interpolate>();
  attach<op::UpsampleBilinear, interpolate>();
  attach<op::UpsampleLinear, interpolate>();
  attach<op::UpsampleNearest, interpolate>();
  attach<op::UpsampleNearestExact, interpolate>();
  attach<op::UpsampleTrilinear, interpolate>();
}

}  // namespace mezzo::gpu
