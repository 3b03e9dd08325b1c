// The CUDA kernels of resizing: one launch over all dimensions for few terms, one launch per
// changed dimension for wide filters and adjoints.
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

constexpr int kMostTerms = 4;

/** The terms along one dimension. */
template <class C> struct Terms {
  int count = 0;
  std::int64_t from[kMostTerms];
  C by[kMostTerms];

  __device__ Terms(const Interpolation<C>& map, std::int64_t o) {
    map.for_each_term(o, [this](std::int64_t i, C weight) {
      if (weight == C(0)) return;
      from[count] = i;
      by[count++] = weight;
    });
  }
};

template <class C> struct Volumes {
  Interpolation<C> depth, height, width;
  std::int64_t channels = 1;  // interleaved channels; 1 for row-major arrays
};

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    resize_kernel(const __grid_constant__ Volumes<C> map, const Array x, const Array y,
                  std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kSpreadThreads + threadIdx.x;
  if (i >= count) return;
  std::int64_t d, h, w, channel = 0;
  const std::int64_t place = map.channels > 1 ? divided(i, map.channels, channel) : i;
  const std::int64_t plane =
      divided(divided(divided(place, map.width.r.out, w), map.height.r.out, h), map.depth.r.out, d);
  const Terms<C> deep(map.depth, d), down(map.height, h), across(map.width, w);
  C sum = 0;
  for (int a = 0; a < deep.count; ++a)
    for (int b = 0; b < down.count; ++b) {
      const std::int64_t row =
          (plane * map.depth.r.in + deep.from[a]) * map.height.r.in + down.from[b];
      C line = 0;
      for (int c = 0; c < across.count; ++c)
        line += across.by[c] *
                x.load<C>((row * map.width.r.in + across.from[c]) * map.channels + channel);
      sum += deep.by[a] * down.by[b] * line;
    }
  y.store<C>(i, sum);
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

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    pass_kernel(const __grid_constant__ Pass<C> pass, const Array x, const Array y,
                std::int64_t count) {
  MZ_SHARED(C, room, kSpreadThreads);
  const Role at = role_in(pass.spread);
  const std::int64_t result = static_cast<std::int64_t>(blockIdx.x) * pass.spread.slots + at.slot;
  const Interpolation<C>& map = pass.map;
  C sum = 0;
  if (result < count) {
    std::int64_t j, k;
    const std::int64_t outer =
        divided(divided(result, pass.inner, j), pass.adjoint ? map.r.in : map.r.out, k);
    const std::int64_t base = outer * (pass.adjoint ? map.r.out : map.r.in) * pass.inner + j;
    if (pass.adjoint) {
      const Span span = results_of(map, k);
      for (std::int64_t o = span.first + at.part; o <= span.last; o += pass.spread.parts) {
        C by = 0;
        map.for_each_term(o, [&](std::int64_t from, C weight) { by += from == k ? weight : C(0); });
        if (by != C(0)) sum += by * x.load<C>(base + o * pass.inner);
      }
    } else {
      map.for_each_term(k, [&](std::int64_t from, C weight) {
        if (weight != C(0)) sum += weight * x.load<C>(base + from * pass.inner);
      });
    }
  }
  if (pass.spread.parts > 1) sum = joined(pass.spread, at, room, sum, cpu_kernels::Plus{});
  if (result < count && at.part == 0) y.store<C>(result, sum);
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
    launch(&pass_kernel<C>,
           {.blocks = blocks_for(count, pass.spread.slots), .threads = pass.spread.threads()},
           current_stream(to.device()), pass, x, y, count);
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
    launch(&resize_kernel<C>,
           {.blocks = blocks_for(count, kSpreadThreads), .threads = kSpreadThreads},
           current_stream(x.device()), map, Array(x), Array(out[0]), count);
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
