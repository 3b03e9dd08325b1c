// Shape rules, gradients and public functions of the ops in pool.h.
#include "pool.h"

#include <algorithm>
#include <limits>

#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/late_result.h"
#include "../../core/registry.h"
#include "../../core/row_major.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "../index/gather.h"
#include "../require.h"

namespace mezzo::op {

PoolSizes pooled_dims(const Shape& shape, int rank) {
  PoolSizes sizes{1, 1, 1};
  for (int i = 0; i < rank; ++i)
    sizes[static_cast<std::size_t>(3 - rank + i)] = shape[shape.rank() - rank + i];
  return sizes;
}

namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();

void require_input(std::string_view op, int rank, const Tensor& x) {
  require_one_floating_dtype(op, {&x, 1});
  if (x.dim() != rank + 1 && x.dim() != rank + 2) {
    const std::string sizes = rank == 1 ? "L" : rank == 2 ? "H,W" : "D,H,W";
    fail<ShapeError>(op, {.what = "wrong number of dimensions",
                          .got = str(x),
                          .expected = str("[N,C,", sizes, "] or [C,", sizes, "]")});
  }
  for (int i = x.dim() - rank; i < x.dim(); ++i)
    if (x.shape()[i] == 0)
      fail<ShapeError>(op, {.what = "a pooled dimension is empty",
                            .got = str(x),
                            .expected = str("at least 1 element in dimension ", i)});
}

void require_between(std::string_view op, const char* name, const PoolSizes& values,
                     std::int64_t low) {
  for (const std::int64_t value : values)
    if (value < low || value > kLargest)
      fail<ValueError>(op, {.what = str(name, " is out of range"),
                            .got = str(value),
                            .expected = str(low, "..", kLargest)});
}

void require_windows(std::string_view op, const PoolAttrs& attrs) {
  if (attrs.adaptive) return require_between(op, "output size", attrs.output, 1);
  require_between(op, "kernel", attrs.kernel, 1);
  require_between(op, "stride", attrs.stride, 1);
  require_between(op, "dilation", attrs.dilation, 1);
  for (std::size_t a = 0; a < 3; ++a)
    if (attrs.padding[a] < 0 || attrs.padding[a] > attrs.kernel[a] / 2)
      fail<ValueError>(op, {.what = "padding is out of range",
                            .got = str(attrs.padding[a]),
                            .expected = str("0..", attrs.kernel[a] / 2, ", half of the kernel's ",
                                            attrs.kernel[a])});
  if (attrs.divisor < 0)
    fail<ValueError>(op, {.what = "divisor_override is out of range",
                          .got = str(attrs.divisor),
                          .expected = "a positive divisor, or none"});
}

/** Returns the number of windows along one axis; 0 if not even one fits. */
std::int64_t window_count(std::string_view op, const PoolAttrs& attrs, std::size_t a,
                          std::int64_t in) {
  if (attrs.adaptive) {
    checked_product({in, attrs.output[a]}, op);  // pool_span multiplies them
    return attrs.output[a];
  }
  const std::int64_t stride = attrs.stride[a], padding = attrs.padding[a];
  const std::int64_t room = in + 2 * padding - attrs.dilation[a] * (attrs.kernel[a] - 1) - 1;
  if (!attrs.ceil_mode) return room < 0 ? 0 : room / stride + 1;
  if (room + stride - 1 < 0) return 0;
  const std::int64_t count = (room + stride - 1) / stride + 1;
  // The last window must start inside the input or the padding before it.
  return (count - 1) * stride >= in + padding ? count - 1 : count;
}

/** Checks that every window contains an element: with dilation one may skip a small input. */
void require_elements(std::string_view op, const PoolAttrs& attrs, int axis, std::int64_t in,
                      std::int64_t count) {
  const auto a = static_cast<std::size_t>(axis);
  if (attrs.adaptive || attrs.dilation[a] == 1) return;
  // Only windows that start in the padding before the input can be empty.
  for (std::int64_t o = 0; o < std::min(count, ceil_div(attrs.padding[a], attrs.stride[a])); ++o) {
    const PoolSpan span = pool_span(attrs, axis, in, o);
    if (span.begin >= span.end)
      fail<ShapeError>(op, {.what = str("window ", o, " covers only padding"),
                            .got = str("input size ", in, ", kernel ", attrs.kernel[a],
                                       " at dilation ", attrs.dilation[a]),
                            .hint = "use less padding or dilation"});
  }
}

/** Checks all arguments and returns the shape of the result. */
Shape pooled_shape(std::string_view op, int rank, const Tensor& x, const PoolAttrs& attrs) {
  require_input(op, rank, x);
  require_windows(op, attrs);
  Shape shape = x.shape();
  for (int i = 0; i < rank; ++i) {
    const int axis = 3 - rank + i, dim = x.dim() - rank + i;
    const auto a = static_cast<std::size_t>(axis);
    const std::int64_t in = x.shape()[dim], count = window_count(op, attrs, a, in);
    if (count < 1)
      fail<ShapeError>(
          op, {.what = "the window is larger than the padded input",
               .got = str(x, ", kernel ", attrs.kernel[a], " at dilation ", attrs.dilation[a]),
               .expected =
                   str("a window of at most ", in + 2 * attrs.padding[a], " in dimension ", dim)});
    require_elements(op, attrs, axis, in, count);
    shape[dim] = count;
  }
  return shape;
}

OutSpecs infer_max(std::string_view op, int rank, const Tensor& x, const PoolAttrs& attrs) {
  const Shape shape = pooled_shape(op, rank, x, attrs);
  const std::optional<MemoryFormat> format = format_of_images(x.dim(), rank);
  return {{.shape = shape, .dtype = x.dtype(), .format = format},
          {.shape = attrs.positions == PoolPositions::none ? Shape{0} : shape,
           .dtype = attrs.positions == PoolPositions::in_plane ? DType::i64 : DType::u8,
           .format = format}};
}

OutSpecs infer_avg(std::string_view op, int rank, const Tensor& x, const PoolAttrs& attrs) {
  return {{.shape = pooled_shape(op, rank, x, attrs),
           .dtype = x.dtype(),
           .format = format_of_images(x.dim(), rank)}};
}

/** Returns the shape before pooling, given the shape of the gradient after it. */
Shape unpooled_shape(const Shape& g, int rank, const PoolSizes& sizes) {
  Shape shape = g;
  for (int i = 0; i < rank; ++i)
    shape[shape.rank() - rank + i] = sizes[static_cast<std::size_t>(3 - rank + i)];
  return shape;
}

}  // namespace

OutSpecs MaxPoolBackward::infer(Inputs in, const Attrs& attrs) {
  require_one_floating_dtype("max_pool_backward", in.first(1));
  const DType dtype = attrs.windows.positions == PoolPositions::in_plane ? DType::i64 : DType::u8;
  if (!(in[0].shape() == in[1].shape()) || in[1].dtype() != dtype)
    fail<ShapeError>("max_pool_backward", {.what = "the positions do not belong to the gradient",
                                           .got = str(in),
                                           .expected = str("one ", name(dtype), " per element")});
  return {{.shape = unpooled_shape(in[0].shape(), attrs.rank, attrs.sizes),
           .dtype = in[0].dtype(),
           .format = attrs.format}};
}

template <int N> OutSpecs MaxPool<N>::infer(Inputs in, const Attrs& attrs) {
  return infer_max(traits.name, N, in[0], attrs);
}
template <int N> OutSpecs AdaptiveMaxPool<N>::infer(Inputs in, const Attrs& attrs) {
  return infer_max(traits.name, N, in[0], attrs);
}
template <int N> OutSpecs AvgPool<N>::infer(Inputs in, const Attrs& attrs) {
  return infer_avg(traits.name, N, in[0], attrs);
}
template <int N> OutSpecs AdaptiveAvgPool<N>::infer(Inputs in, const Attrs& attrs) {
  return infer_avg(traits.name, N, in[0], attrs);
}
template <int N> OutSpecs AvgPoolBackward<N>::infer(Inputs in, const Attrs& attrs) {
  return {{.shape = unpooled_shape(in[0].shape(), N, attrs.sizes),
           .dtype = in[0].dtype(),
           .format = attrs.format}};
}

#define MZ_POOL_SHAPE_RULES(N)                                           \
  template OutSpecs MaxPool<N>::infer(Inputs, const PoolAttrs&);         \
  template OutSpecs AdaptiveMaxPool<N>::infer(Inputs, const PoolAttrs&); \
  template OutSpecs AvgPool<N>::infer(Inputs, const PoolAttrs&);         \
  template OutSpecs AdaptiveAvgPool<N>::infer(Inputs, const PoolAttrs&); \
  template OutSpecs AvgPoolBackward<N>::infer(Inputs, const AvgPoolBackward<N>::Attrs&);
MZ_POOL_SHAPE_RULES(1)
MZ_POOL_SHAPE_RULES(2)
MZ_POOL_SHAPE_RULES(3)
#undef MZ_POOL_SHAPE_RULES

std::span<OpInfo* const> pool_ops() { return infos_of(PoolOps{}); }

// Gradients of the pooling ops.

namespace {

/** Returns the memory format of the pooled tensor, for its gradient. */
MemoryFormat format_before(const Saved& saved, int rank) {
  const TensorMeta& x = saved.input_meta[0];
  return *format_of_images(x.shape.rank(), rank, x.format);
}

/** Returns true if the gradient is computed when it is read, because kernels may read that of the
 *  maxima instead: on a device, for windows of 2 x 2 that cover row-major planes. */
bool unpooling_may_wait(const MaxPoolBackward::Attrs& back, const Tensor& g,
                        const Tensor& positions) {
  return back.windows.late_gradient && back.windows.are_pairs() && !grad_enabled() &&
         g.device().kind != DeviceKind::cpu && back.format == MemoryFormat::contiguous &&
         g.is_contiguous() && positions.is_contiguous() && back.sizes[1] % 2 == 0 &&
         back.sizes[2] % 2 == 0 && !is_channels_last_inside(positions) && can_be_late(g);
}

Grads max_grads(const Saved& saved, const Tensor& g, int rank, const PoolAttrs& attrs) {
  const MaxPoolBackward::Attrs back{attrs, pooled_dims(saved.shape(0), rank), rank,
                                    format_before(saved, rank)};
  const Tensor& positions = saved.outputs[1];
  if (unpooling_may_wait(back, g, positions))
    return {late_result(op_info<MaxPoolBackward>, {g, positions},
                        std::make_shared<MaxPoolBackward::Attrs>(back),
                        {.op = MaxPoolBackward::traits.name,
                         .read = "a gradient of max pooling is first read",
                         .modified = "a tensor needed for backward was modified in place",
                         .hint = "use the out-of-place form"},
                        {.kept = 2})};
  return {apply_with<MaxPoolBackward>(back, g, positions)};
}

template <int N> Grads mean_grads(const Saved& saved, const Tensor& g, const PoolAttrs& attrs) {
  return {apply_with<AvgPoolBackward<N>>(
      {attrs, pooled_dims(saved.shape(0), N), format_before(saved, N)}, g)};
}

}  // namespace

template <int N> Grads MaxPool<N>::backward(const Saved& saved, const Grads& gy) {
  return max_grads(saved, gy[0], N, saved.attrs<MaxPool<N>>());
}

template <int N> Grads AdaptiveMaxPool<N>::backward(const Saved& saved, const Grads& gy) {
  return max_grads(saved, gy[0], N, saved.attrs<AdaptiveMaxPool<N>>());
}

template <int N> Grads AvgPool<N>::backward(const Saved& saved, const Grads& gy) {
  return mean_grads<N>(saved, gy[0], saved.attrs<AvgPool<N>>());
}

template <int N> Grads AdaptiveAvgPool<N>::backward(const Saved& saved, const Grads& gy) {
  return mean_grads<N>(saved, gy[0], saved.attrs<AdaptiveAvgPool<N>>());
}

namespace {

/** Returns the positions in the input for those in the windows. */
Tensor positions_in_plane(const Tensor& positions, const MaxPoolBackward::Attrs& attrs) {
  const PoolAttrs& windows = attrs.windows;
  const PoolSizes out = pooled_dims(positions.shape(), attrs.rank);
  Tensor rest = positions.to(DType::i64), index;
  std::int64_t step = 1;
  for (int i = attrs.rank; i-- > 0;) {
    const auto a = static_cast<std::size_t>(3 - attrs.rank + i);
    Shape axis{out[a]};
    for (int inner = i + 1; inner < attrs.rank; ++inner) axis.push_back(1);
    const Tensor window =
        arange(out[a], {.dtype = DType::i64, .device = positions.device()}).reshape(axis);
    const Tensor at = window * windows.stride[a] - windows.padding[a] +
                      remainder(rest, windows.kernel[a]) * windows.dilation[a];
    index = index.defined() ? index + at * step : at;
    rest = floor_divide(rest, windows.kernel[a]);
    step *= attrs.sizes[a];
  }
  return index;
}

}  // namespace

// With the maxima chosen, pooling is linear, so the gradient of each gradient op is an existing op.

Grads MaxPoolBackward::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<MaxPoolBackward>();
  const int rank = attrs.rank;
  const Shape& shape = saved.shape(0);
  std::int64_t planes = 1, before = 1, after = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool pooled = i >= shape.rank() - rank;
    (pooled ? after : planes) *= shape[i];
    if (pooled) before *= gy[0].shape()[i];
  }
  const bool in_plane = attrs.windows.positions == PoolPositions::in_plane;
  const Tensor positions = (in_plane ? saved.inputs[1] : positions_in_plane(saved.inputs[1], attrs))
                               .reshape({planes, after});
  return {gather(gy[0].reshape({planes, before}), 1, positions).reshape(shape), Tensor{}};
}

template <int N> Grads AvgPoolBackward<N>::backward(const Saved& saved, const Grads& gy) {
  const PoolAttrs& windows = saved.attrs<AvgPoolBackward<N>>().windows;
  return {windows.adaptive ? apply_with<AdaptiveAvgPool<N>>(windows, gy[0])
                           : apply_with<AvgPool<N>>(windows, gy[0])};
}

#define MZ_POOL_RULES(N)                                                   \
  template Grads MaxPool<N>::backward(const Saved&, const Grads&);         \
  template Grads AdaptiveMaxPool<N>::backward(const Saved&, const Grads&); \
  template Grads AvgPool<N>::backward(const Saved&, const Grads&);         \
  template Grads AdaptiveAvgPool<N>::backward(const Saved&, const Grads&); \
  template Grads AvgPoolBackward<N>::backward(const Saved&, const Grads&);
MZ_POOL_RULES(1)
MZ_POOL_RULES(2)
MZ_POOL_RULES(3)
#undef MZ_POOL_RULES

}  // namespace mezzo::op

namespace mezzo {

namespace {

/** Returns sizes of three dimensions: those of the last `rank`, and `neutral` for the others. */
op::PoolSizes aligned(const WindowSizes& size, int rank, std::string_view op,
                      std::string_view option, std::int64_t neutral) {
  const op::Extent given = size.expanded(rank, op, option);
  op::PoolSizes sizes{neutral, neutral, neutral};
  for (std::size_t i = 3 - static_cast<std::size_t>(rank), k = 0; i < 3; ++i, ++k)
    sizes[i] = given[k];
  return sizes;
}

template <class Options>
op::PoolAttrs windows(std::string_view op, int rank, const WindowSizes& kernel,
                      const Options& options) {
  op::PoolAttrs attrs;
  attrs.kernel = aligned(kernel, rank, op, "kernel", 1);
  attrs.stride = aligned(options.stride.given() ? options.stride : kernel, rank, op, "stride", 1);
  attrs.padding = aligned(options.padding, rank, op, "padding", 0);
  attrs.ceil_mode = options.ceil_mode;
  return attrs;
}

op::PoolAttrs adaptive_windows(std::string_view op, int rank, const WindowSizes& output) {
  op::PoolAttrs attrs;
  attrs.adaptive = true;
  attrs.output = aligned(output, rank, op, "output size", 1);
  return attrs;
}

template <int N>
op::PoolAttrs max_windows(const WindowSizes& kernel, const MaxPoolOptions& options) {
  constexpr std::string_view kOp = op::MaxPool<N>::traits.name;
  op::PoolAttrs attrs = windows(kOp, N, kernel, options);
  attrs.dilation = aligned(options.dilation, N, kOp, "dilation", 1);
  return attrs;
}

/** Returns the values only. Positions are computed where the gradient needs them. */
template <class Op> Tensor values(op::PoolAttrs attrs, const Tensor& x) {
  if (!grad_enabled() || !x.defined() || !x.requires_grad())
    attrs.positions = op::PoolPositions::none;
  else if (attrs.window_fits_a_byte())
    attrs.positions = op::PoolPositions::in_window;
  attrs.late_gradient = attrs.positions == op::PoolPositions::in_window && !x.is_leaf();
  return apply_with<Op>(attrs, x);
}

template <int N>
Tensor max_values(const Tensor& x, const WindowSizes& kernel, const MaxPoolOptions& options) {
  return values<op::MaxPool<N>>(max_windows<N>(kernel, options), x);
}

template <int N>
ValuesAndIndices max_both(const Tensor& x, const WindowSizes& kernel,
                          const MaxPoolOptions& options) {
  return apply_pair<ValuesAndIndices, op::MaxPool<N>>(max_windows<N>(kernel, options), x);
}

template <int N>
Tensor means(const Tensor& x, const WindowSizes& kernel, const AvgPoolOptions& options) {
  constexpr std::string_view kOp = op::AvgPool<N>::traits.name;
  op::PoolAttrs attrs = windows(kOp, N, kernel, options);
  attrs.count_include_pad = options.count_include_pad;
  if (options.divisor_override && *options.divisor_override < 1)
    fail<ValueError>(kOp, {.what = "divisor_override is out of range",
                           .got = str(*options.divisor_override),
                           .expected = "1 or more"});
  attrs.divisor = options.divisor_override.value_or(0);
  return apply_with<op::AvgPool<N>>(attrs, x);
}

template <int N> Tensor adaptive_means(const Tensor& x, const WindowSizes& output) {
  using Op = op::AdaptiveAvgPool<N>;
  return apply_with<Op>(adaptive_windows(Op::traits.name, N, output), x);
}

template <int N> Tensor adaptive_values(const Tensor& x, const WindowSizes& output) {
  using Op = op::AdaptiveMaxPool<N>;
  return values<Op>(adaptive_windows(Op::traits.name, N, output), x);
}

template <int N> ValuesAndIndices adaptive_both(const Tensor& x, const WindowSizes& output) {
  using Op = op::AdaptiveMaxPool<N>;
  return apply_pair<ValuesAndIndices, Op>(adaptive_windows(Op::traits.name, N, output), x);
}

}  // namespace

Tensor max_pool1d(const Tensor& x, const WindowSizes& kernel, const MaxPoolOptions& options) {
  return max_values<1>(x, kernel, options);
}
Tensor max_pool2d(const Tensor& x, const WindowSizes& kernel, const MaxPoolOptions& options) {
  return max_values<2>(x, kernel, options);
}
Tensor max_pool3d(const Tensor& x, const WindowSizes& kernel, const MaxPoolOptions& options) {
  return max_values<3>(x, kernel, options);
}

ValuesAndIndices max_pool1d_with_indices(const Tensor& x, const WindowSizes& kernel,
                                         const MaxPoolOptions& options) {
  return max_both<1>(x, kernel, options);
}
ValuesAndIndices max_pool2d_with_indices(const Tensor& x, const WindowSizes& kernel,
                                         const MaxPoolOptions& options) {
  return max_both<2>(x, kernel, options);
}
ValuesAndIndices max_pool3d_with_indices(const Tensor& x, const WindowSizes& kernel,
                                         const MaxPoolOptions& options) {
  return max_both<3>(x, kernel, options);
}

Tensor avg_pool1d(const Tensor& x, const WindowSizes& kernel, const AvgPoolOptions& options) {
  return means<1>(x, kernel, options);
}
Tensor avg_pool2d(const Tensor& x, const WindowSizes& kernel, const AvgPoolOptions& options) {
  return means<2>(x, kernel, options);
}
Tensor avg_pool3d(const Tensor& x, const WindowSizes& kernel, const AvgPoolOptions& options) {
  return means<3>(x, kernel, options);
}

Tensor adaptive_avg_pool1d(const Tensor& x, const WindowSizes& output) {
  return adaptive_means<1>(x, output);
}
Tensor adaptive_avg_pool2d(const Tensor& x, const WindowSizes& output) {
  return adaptive_means<2>(x, output);
}
Tensor adaptive_avg_pool3d(const Tensor& x, const WindowSizes& output) {
  return adaptive_means<3>(x, output);
}

Tensor adaptive_max_pool1d(const Tensor& x, const WindowSizes& output) {
  return adaptive_values<1>(x, output);
}
Tensor adaptive_max_pool2d(const Tensor& x, const WindowSizes& output) {
  return adaptive_values<2>(x, output);
}
Tensor adaptive_max_pool3d(const Tensor& x, const WindowSizes& output) {
  return adaptive_values<3>(x, output);
}

ValuesAndIndices adaptive_max_pool1d_with_indices(const Tensor& x, const WindowSizes& output) {
  return adaptive_both<1>(x, output);
}
ValuesAndIndices adaptive_max_pool2d_with_indices(const Tensor& x, const WindowSizes& output) {
  return adaptive_both<2>(x, output);
}
ValuesAndIndices adaptive_max_pool3d_with_indices(const Tensor& x, const WindowSizes& output) {
  return adaptive_both<3>(x, output);
}

}  // namespace mezzo
