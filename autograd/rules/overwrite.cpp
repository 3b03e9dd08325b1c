// The gradient of index_copy, and the composites of index_fill, masked_scatter and unique.
#include "../../tensor/ops/overwrite.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/gather.h"
#include "../../tensor/text/text.h"
#include "../ops/compare.h"
#include "../ops/create.h"
#include "../ops/gather.h"
#include "../ops/index.h"
#include "../ops/join.h"
#include "../ops/operators.h"
#include "../ops/overwrite.h"
#include "../ops/reduce.h"
#include "../ops/sort.h"
#include "last_write.h"

namespace mezzo::op {

Grads IndexCopy::backward(const Saved& saved, const Grads& gy) {
  const int rank = saved.shape(0).rank();
  const int dim = wrap_dim(saved.attrs<IndexCopy>().dim, rank, "index_copy");
  Grads gradients(3);
  if (saved.wants(0)) gradients[0] = index_fill(gy[0], dim, saved.inputs[1], 0.0);
  if (saved.wants(2)) {
    const std::int64_t places = rank == 0 ? 1 : saved.shape(0)[dim];
    const Tensor& index = saved.inputs[1];
    gradients[2] = without_overwritten(index_select(gy[0], dim, index), index, dim, places);
  }
  return gradients;
}

std::vector<Tensor> IndexFill::composite(Inputs in, const Attrs& attrs) {
  const Tensor &x = in[0], &index = in[1];
  return {index_copy(x, attrs.dim, index, filled_rows("index_fill", x, attrs.dim, index, in[2]))};
}

std::vector<Tensor> MaskedScatter::composite(Inputs in, const NoAttrs&) {
  const Tensor &x = in[0], &mask = in[1], &source = in[2];
  if (!mask.defined())
    fail<ValueError>(traits.name, {.what = "the mask is undefined", .expected = "a tensor"});
  if (!source.defined())
    fail<ValueError>(traits.name, {.what = "the source is undefined", .expected = "a tensor"});
  if (mask.dtype() != DType::boolean)
    fail<DtypeError>(traits.name,
                     {.what = "the mask must be bool", .got = str(mask), .expected = "bool"});
  if (source.dtype() != x.dtype())
    fail<DtypeError>(traits.name, {.what = "the source must have the tensor's dtype",
                                   .got = str(str(x), " and source ", str(source)),
                                   .expected = "one dtype",
                                   .hint = "use source.to(dtype)"});
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), traits.name.data());
  const Tensor places =
      nonzero(mask.expand(shape).reshape({checked_numel(shape, traits.name.data())})).select(1, 0);
  if (places.numel() > source.numel())
    fail<ShapeError>(traits.name, {.what = "the source has fewer elements than the mask selects",
                                   .got = str(str(source), " for ", places.numel(), " positions"),
                                   .expected = "as many, or more"});
  const Tensor taken = source.reshape({source.numel()}).narrow(0, 0, places.numel());
  const Tensor flat = x.expand(shape).reshape({checked_numel(shape, traits.name.data())});
  return {scatter(flat, 0, places, taken).view(shape)};
}

std::vector<Tensor> Unique::composite(Inputs in, const NoAttrs&) {
  const Tensor x = in[0].detach().reshape({in[0].numel()});
  const TensorOptions integers{.dtype = DType::i64, .device = x.device()};
  const std::int64_t n = x.numel();
  if (n == 0) return {x.clone(), zeros(in[0].shape(), integers), zeros({0}, integers)};
  // In sorted order, an element that differs from the one before it starts a group of equal ones.
  const auto [ordered, origin] = sort(x);
  const Tensor first = ones({1}, {.dtype = DType::boolean, .device = x.device()});
  const Tensor starts = cat({first, ne(ordered.narrow(0, 1, n - 1), ordered.narrow(0, 0, n - 1))});
  const Tensor places = nonzero(starts).select(1, 0);
  const Tensor groups = cumsum(starts, 0) - 1;
  const Tensor inverse = scatter(zeros({n}, integers), 0, origin, groups);
  const Tensor ends =
      cat({places.narrow(0, 1, places.numel() - 1), full({1}, static_cast<double>(n), integers)});
  return {index_select(ordered, 0, places), inverse.view(in[0].shape()), ends - places};
}

}  // namespace mezzo::op
