// Gradients of the view ops: the inverse view, or a scatter into zeros.
#include "view.h"

#include <algorithm>

#include "../../core/dispatch.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "../index/index.h"
#include "../reduce/reduce.h"
#include "../wide.h"

namespace mezzo::op {

namespace {

/** Returns zeros of the operand's shape with g at the elements of the view. */
template <class Op> Tensor scattered(const Saved& saved, const Tensor& g) {
  const Tensor whole = zeros(saved.shape(0), {.dtype = g.dtype(), .device = g.device()});
  apply_with<Op>(saved.attrs<Op>(), whole).copy_(g);
  return whole;
}

}  // namespace

Grads View::backward(const Saved& saved, const Grads& gy) {
  return {gy[0].reshape(saved.shape(0))};
}

Grads Permute::backward(const Saved& saved, const Grads& gy) {
  const Shape& order = saved.attrs<Permute>().order;
  Shape inverse = order;
  for (int i = 0; i < order.rank(); ++i) inverse[order[i]] = i;
  return {gy[0].permute(std::span<const std::int64_t>(inverse))};
}

Grads Expand::backward(const Saved& saved, const Grads& gy) {
  return {sum_to(gy[0], saved.shape(0))};
}

Grads Slice::backward(const Saved& saved, const Grads& gy) {
  return {scattered<Slice>(saved, gy[0])};
}

Grads Select::backward(const Saved& saved, const Grads& gy) {
  return {scattered<Select>(saved, gy[0])};
}

Grads Diagonal::backward(const Saved& saved, const Grads& gy) {
  return {scattered<Diagonal>(saved, gy[0])};
}

Grads Windows::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Windows>();
  const Tensor& g = gy[0];
  if (saved.shape(0).rank() == 0) return {sum_to(g, {})};
  // Windows overlap: an element's gradient is the sum over all windows that contain it.
  const TensorOptions integers{.dtype = DType::i64, .device = g.device()};
  const Tensor starts = arange(static_cast<double>(g.shape()[attrs.dim]), integers) * attrs.step;
  const Tensor within = arange(static_cast<double>(attrs.size), integers);
  const Tensor places = (starts.unsqueeze(1) + within).flatten();
  const Tensor whole = zeros(saved.shape(0), {.dtype = g.dtype(), .device = g.device()});
  return {index_add(whole, attrs.dim, places,
                    g.movedim(-1, attrs.dim + 1).flatten(attrs.dim, attrs.dim + 1))};
}

namespace {

/** Returns the distance in memory from the first element of a view to its last. */
std::int64_t reach(const Shape& shape, const Strides& strides) {
  std::int64_t last = 0;
  for (int i = 0; i < shape.rank(); ++i) last += (shape[i] - 1) * strides[i];
  return last;
}

/** Returns `size` elements of memory: zeros, with the elements of g at the positions of a view with
 *  these strides and offset. Elements of g at one position are summed. */
Tensor memory_of(Tensor g, Strides strides, std::int64_t offset, std::int64_t size) {
  const Tensor flat = zeros({size}, {.dtype = g.dtype(), .device = g.device()});
  for (int i = g.dim() - 1; i >= 0; --i) {
    if (strides[i] != 0) continue;
    g = sum(g, i);
    strides.erase(i);
  }
  if (!overlaps_itself(g.shape(), strides)) {
    flat.as_strided(g.shape(), strides, offset).copy_(g);
    return flat;
  }
  const TensorOptions integers{.dtype = DType::i64, .device = g.device()};
  Tensor places = full({}, static_cast<double>(offset), integers);
  for (int i = 0; i < g.dim(); ++i)
    places =
        places.unsqueeze(-1) + arange(static_cast<double>(g.shape()[i]), integers) * strides[i];
  return index_add(flat, 0, places.flatten(), g.reshape({g.numel()}));
}

}  // namespace

// Writes the gradient to memory in the layout of the view, then reads it in that of the operand.
Grads AsStrided::backward(const Saved& saved, const Grads& gy) {
  const Attrs& view = saved.attrs<AsStrided>();
  const Shape& shape = saved.shape(0);
  const Strides& strides = view.base_strides;
  const bool adds = overlaps_itself(view.shape, view.strides);
  const Tensor g = adds ? wide(gy[0]) : gy[0];  // sums are rounded once
  if (g.numel() == 0 || checked_numel(shape, "as_strided") == 0)
    return {zeros(shape, {.dtype = g.dtype(), .device = g.device()})};
  const std::int64_t first = std::min<std::int64_t>(view.offset, 0);
  const std::int64_t last =
      std::max(reach(shape, strides), view.offset + reach(view.shape, view.strides));
  const std::int64_t size = last - first + 1;
  const auto read = [&](const Tensor& memory) { return memory.as_strided(shape, strides, -first); };
  const Tensor gx = read(memory_of(g, view.strides, view.offset - first, size));
  if (!overlaps_itself(shape, strides)) return {gx};
  // Elements of the operand at one position in memory share its gradient equally.
  const Tensor ones = full(shape, 1, {.device = g.device()});
  return {gx / read(memory_of(ones, strides, -first, size))};
}

}  // namespace mezzo::op
