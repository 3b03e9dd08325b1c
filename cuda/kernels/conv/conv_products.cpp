#include "conv_products.h"

#include <utility>

#include "../../../tensor/ops/matmul/linear_chain.h"
#include "../../blas/product.h"
#include "../shape/copy.h"

namespace mezzo::gpu {

namespace {

using Wanted = dnn::Convolution::Wanted;

/** Enqueues c = a b + addend. */
void multiply(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& addend) {
  op::Product product{.a = a, .b = b, .c = c, .addend = addend};
  if (addend.defined()) product.beta = 1;
  run_product(op::plan(product), c.device());
}

Tensor transposed_matrix(const Tensor& x) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  const int last = shape.rank() - 1;
  std::swap(shape[last], shape[last - 1]);
  std::swap(strides[last], strides[last - 1]);
  return alias(x, shape, strides, x.impl()->offset);
}

/** Returns a dense array with other sizes. */
Tensor reshaped(const Tensor& x, const Shape& shape) {
  return alias(x, shape, contiguous_strides(shape), x.impl()->offset);
}

/** The products of a call. */
class ConvProducts {
 public:
  explicit ConvProducts(const ConvCall& call)
      : call_(call), is_whole_(call.geometry.in == call.geometry.out) {}

  void run() const {
    const CategoryScope scope(MemoryCategory::workspace);
    if (call_.wanted == Wanted::x) return find_x();
    Tensor x = is_whole_ ? call_.x : empty_reached();
    if (!is_whole_) copy_elements(reached(), x);
    if (call_.wanted == Wanted::y)
      map(x, call_.y, weight());
    else
      find_weight(x);
  }

 private:
  std::int64_t channels(const Tensor& x) const { return x.size(x.dim() - call_.dims - 1); }
  std::int64_t positions() const {
    const op::Extent& out = call_.geometry.out;
    return out[0] * out[1] * out[2];
  }
  std::int64_t images() const { return call_.y.numel() / channels(call_.y) / positions(); }
  bool has_rows() const { return call_.format == MemoryFormat::channels_last; }

  Tensor weight() const { return reshaped(call_.weight, {channels(call_.y), channels(call_.x)}); }

  /** Returns a dense array as a matrix with one row of channels per position; row-major as a batch
   *  of images with one row of positions per channel. */
  Tensor matrices(const Tensor& x) const {
    return has_rows() ? reshaped(x, {images() * positions(), channels(x)})
                      : reshaped(x, {images(), channels(x), positions()});
  }
  /** Returns the matrix with one row of channels per position, a copy of row-major arrays. */
  Tensor rows(const Tensor& x) const {
    if (has_rows()) return matrices(x);
    Tensor copy = empty_tensor({images(), positions(), channels(x)}, x.dtype(), x.device());
    copy_elements(transposed_matrix(matrices(x)), copy);
    return reshaped(copy, {images() * positions(), channels(x)});
  }

  /** Returns the positions of x that the kernel reaches, as a view. */
  Tensor reached() const {
    const Tensor& x = call_.x;
    Shape shape = x.shape();
    Strides strides = x.strides();
    for (int i = 0; i < call_.dims; ++i) {
      const auto d = static_cast<std::size_t>(3 - call_.dims + i);
      const int at = shape.rank() - call_.dims + i;
      shape[at] = call_.geometry.out[d];
      strides[at] *= call_.geometry.stride[d];
    }
    return alias(x, shape, strides, x.impl()->offset);
  }
  Tensor empty_reached() const {
    return empty_tensor(reached().shape(), call_.x.dtype(), call_.x.device(), false, call_.format);
  }

  /** Sets each element of an array to the bias of its channel, or to 0. */
  void fill_with_bias(Tensor to) const {
    if (!call_.bias.defined()) return fill_elements(to, 0);
    Strides strides = Strides::filled(to.dim(), 0);
    strides[to.dim() - call_.dims - 1] = call_.bias.strides()[0];
    copy_elements(alias(call_.bias, to.shape(), strides, call_.bias.impl()->offset), to);
  }

  /** Multiplies the channels at each position of `from` with a matrix, and adds the bias. */
  void map(const Tensor& from, const Tensor& to, const Tensor& matrix) const {
    if (has_rows())
      return multiply(matrices(from), transposed_matrix(matrix), matrices(to), call_.bias);
    if (call_.bias.defined()) fill_with_bias(to);
    multiply(matrix, matrices(from), matrices(to), call_.bias.defined() ? matrices(to) : Tensor{});
  }

  void find_x() const {
    if (is_whole_) return map(call_.y, call_.x, transposed_matrix(weight()));
    const Tensor values = empty_reached();
    map(call_.y, values, transposed_matrix(weight()));
    fill_with_bias(call_.x);
    Tensor to = reached();
    copy_elements(values, to);
  }

  /** Row-major images have a product each, whose results are added, or are copied to rows: what
   *  moves fewer elements. */
  void find_weight(const Tensor& x) const {
    const Tensor& y = call_.y;
    const std::int64_t results = call_.weight.numel();
    if (has_rows() || (images() > 1 && results > (channels(x) + channels(y)) * positions()))
      return multiply(transposed_matrix(rows(y)), rows(x), weight(), {});
    const Tensor sums =
        images() == 1 ? call_.weight : empty_tensor({images(), results}, x.dtype(), x.device());
    multiply(matrices(y), transposed_matrix(matrices(x)),
             reshaped(sums, {images(), channels(y), channels(x)}), {});
    Tensor total = reshaped(call_.weight, {results});
    if (images() > 1) op::sum_columns(sums, total);
  }

  const ConvCall& call_;
  bool is_whole_;  // the kernel reaches all positions of x
};

}  // namespace

bool are_conv_products(const ConvCall& call) {
  const op::ConvGeometry& g = call.geometry;
  if (call.x.dtype() != DType::f32 || g.taps() != 1 || g.groups != 1) return false;
  for (std::size_t d = 0; d < g.in.size(); ++d)
    if (g.pad[d] != 0 || (g.out[d] - 1) * g.stride[d] >= g.in[d]) return false;
  return true;
}

void run_conv_products(const ConvCall& call) { ConvProducts(call).run(); }

}  // namespace mezzo::gpu
