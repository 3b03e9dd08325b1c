// Shape rules of the pooling ops.
#include "pool.h"

#include <algorithm>
#include <limits>

#include "../core/checked_size.h"
#include "../core/registry.h"
#include "../text/text.h"
#include "require.h"

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
          {.shape = attrs.with_indices ? shape : Shape{0}, .dtype = DType::i64, .format = format}};
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
  if (!(in[0].shape() == in[1].shape()) || in[1].dtype() != DType::i64)
    fail<ShapeError>("max_pool_backward", {.what = "the positions do not belong to the gradient",
                                           .got = str(in),
                                           .expected = "one i64 position per element"});
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

}  // namespace mezzo::op
