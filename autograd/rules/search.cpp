// The composites of bucketize, isin and bincount.
#include "../../tensor/ops/search.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/text/text.h"
#include "../ops/compare.h"
#include "../ops/create.h"
#include "../ops/gather.h"
#include "../ops/index.h"
#include "../ops/search.h"
#include "../ops/selection.h"
#include "../ops/sort.h"

namespace mezzo::op {

std::vector<Tensor> Bucketize::composite(Inputs in, const Attrs& attrs) {
  if (in[1].dim() != 1)
    fail<ShapeError>("bucketize", {.what = "the boundaries are not one sequence",
                                   .got = str(in[1]),
                                   .expected = "1 dimension"});
  return {searchsorted(in[1], in[0], {.right = attrs.right})};
}

std::vector<Tensor> Isin::composite(Inputs in, const Attrs& attrs) {
  const DType dtype = promoted_dtype(in);
  const Tensor x = in[0].to(dtype), list = in[1].to(dtype).reshape({in[1].numel()});
  if (list.numel() == 0 || x.numel() == 0)
    return {full(x.shape(), attrs.invert, {.dtype = DType::boolean, .device = x.device()})};
  const Tensor sorted = sort(list).values;
  // A value beyond all others is compared with the last one, which it does not equal.
  const Tensor at = clamp(searchsorted(sorted, x), {.max = static_cast<double>(list.numel() - 1)});
  const Tensor nearest = index_select(sorted, 0, at.reshape({x.numel()})).view(x.shape());
  return {attrs.invert ? ne(x, nearest) : eq(x, nearest)};
}

std::vector<Tensor> Bincount::composite(Inputs in, const Attrs& attrs) {
  const Tensor &x = in[0], &weights = in[1];
  if (!weights.defined()) {
    const TensorOptions integers{.dtype = DType::i64, .device = x.device()};
    return {scatter_add(zeros({attrs.length}, integers), 0, x.to(DType::i64),
                        ones(x.shape(), integers))};
  }
  const DType dtype = weights.dtype() == DType::f32 ? DType::f32 : DType::f64;
  return {scatter_add(zeros({attrs.length}, {.dtype = dtype, .device = x.device()}), 0,
                      x.to(DType::i64), weights.to(dtype))};
}

}  // namespace mezzo::op
