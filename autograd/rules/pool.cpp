// Gradients of the pooling ops.
#include "../../tensor/ops/pool.h"

#include "../../tensor/core/dispatch.h"
#include "../ops/gather.h"

namespace mezzo::op {

namespace {

/** Returns the memory format of the pooled tensor, for its gradient. */
MemoryFormat format_before(const Saved& saved, int rank) {
  const TensorMeta& x = saved.input_meta[0];
  return *format_of_images(x.shape.rank(), rank, x.format);
}

Grads max_grads(const Saved& saved, const Tensor& g, int rank, const PoolAttrs& attrs) {
  const MaxPoolBackward::Attrs back{attrs, pooled_dims(saved.shape(0), rank), rank,
                                    format_before(saved, rank)};
  return {apply_with<MaxPoolBackward>(back, g, saved.outputs[1])};
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

// With the maxima chosen, pooling is linear, so the gradient of each gradient op is an existing op.

Grads MaxPoolBackward::backward(const Saved& saved, const Grads& gy) {
  const int rank = saved.attrs<MaxPoolBackward>().rank;
  const Shape& shape = saved.shape(0);
  std::int64_t planes = 1, before = 1, after = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool pooled = i >= shape.rank() - rank;
    (pooled ? after : planes) *= shape[i];
    if (pooled) before *= gy[0].shape()[i];
  }
  const Tensor positions = saved.inputs[1].reshape({planes, after});
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
