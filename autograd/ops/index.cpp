#include "index.h"

#include "../../tensor/ops/index.h"

#include "../../tensor/core/api_scope.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/text/text.h"
#include "../grad_mode.h"
#include "operators.h"
#include "reduce.h"

namespace mezzo {

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  return apply_with<op::IndexSelect>({dim}, x, index);
}

Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                 const IndexAddOptions& options) {
  return apply_with<op::IndexAdd>({dim, options.alpha}, x, index, src);
}
const Tensor& index_add_(const Tensor& self, std::int64_t dim, const Tensor& index,
                         const Tensor& src, const IndexAddOptions& options) {
  return apply_in_place<op::IndexAdd>({dim, options.alpha}, self, index, src);
}

namespace {

/** The indexed dimensions, as a bit mask, and the positions in them. */
struct Places {
  std::uint32_t dims = 0;
  Tensor positions;
};

/** Appends the positions that a mask selects: one index tensor per dimension it covers. */
void append_mask(const char* op, const Tensor& x, const Tensor& mask, int first,
                 std::vector<Tensor>& operands) {
  bool fits = mask.dim() > 0 && first + mask.dim() <= x.dim();
  for (int i = 0; fits && i < mask.dim(); ++i) fits = mask.shape()[i] == x.shape()[first + i];
  if (!fits)
    fail<ShapeError>(op, {.what = "the mask does not fit the dimensions it indexes",
                          .got = str("mask ", mask, " at dimension ", first, " of ", x),
                          .expected = "equal sizes"});
  const Tensor places = nonzero(mask);
  for (int i = 0; i < mask.dim(); ++i) operands.push_back(places.select(1, i));
}

Places find_places(const char* op, const Tensor& x, const std::vector<Tensor>& indices) {
  const ApiScope called(op);
  const NoGradNoCasts plain_ops;
  std::vector<Tensor> operands{x};
  Places places;
  int dim = 0;
  for (const Tensor& index : indices) {
    const bool mask = index.defined() && index.dtype() == DType::boolean;
    const int covered = mask ? index.dim() : 1;
    if (mask)
      append_mask(op, x, index, dim, operands);
    else if (index.defined())
      operands.push_back(index);
    if (index.defined()) places.dims |= ((1u << covered) - 1) << dim;
    dim += covered;
    if (dim > x.dim())
      fail<ShapeError>(op, {.what = "more indices than dimensions",
                            .got = str(indices.size(), " indices for ", x),
                            .expected = str("at most ", x.dim())});
  }
  if (places.dims == 0)
    fail<ValueError>(op, {.what = "nothing is indexed",
                          .got = str(indices.size(), " undefined tensors"),
                          .expected = "at least one index tensor"});
  places.positions = apply_list<op::IndexPositions>({places.dims, op}, operands);
  return places;
}

}  // namespace

Tensor index(const Tensor& x, const std::vector<Tensor>& indices) {
  const Places places = find_places("index", x, indices);
  return apply_with<op::Index>({places.dims}, x, places.positions);
}

Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
                 const IndexPutOptions& options) {
  const Places places = find_places("index_put", x, indices);
  return apply_with<op::IndexPut>({places.dims, options.accumulate}, x, places.positions, values);
}
const Tensor& index_put_(const Tensor& self, const std::vector<Tensor>& indices,
                         const Tensor& values, const IndexPutOptions& options) {
  const Places places = find_places("index_put_", self, indices);
  return apply_in_place<op::IndexPut>({places.dims, options.accumulate}, self, places.positions,
                                      values);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  return apply<op::MaskedSelect>(x, mask);
}

Tensor nonzero(const Tensor& x) {
  const ApiScope called("nonzero");
  const NoGradNoCasts plain_ops;
  return apply_with<op::Nonzero>({count_nonzero(x).item<std::int64_t>()}, x);
}

}  // namespace mezzo
