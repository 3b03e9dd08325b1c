// Views that pair an index of one dimension with one of another: diagonals and sliding windows.
#include <algorithm>

#include "../../core/dispatch.h"
#include "../../text/text.h"
#include "view.h"

namespace mezzo {

namespace op {

Tensor Diagonal::view(const Tensor& x, const Attrs& attrs) {
  const std::int64_t down = std::max<std::int64_t>(-attrs.offset, 0),
                     right = std::max<std::int64_t>(attrs.offset, 0);
  const std::int64_t rows = x.shape()[attrs.dim1] - down, columns = x.shape()[attrs.dim2] - right;
  const std::int64_t length = std::max<std::int64_t>(std::min(rows, columns), 0);
  const std::int64_t row_step = x.strides()[attrs.dim1], column_step = x.strides()[attrs.dim2];
  Shape shape = x.shape();
  Strides strides = x.strides();
  for (const int dim : {std::max(attrs.dim1, attrs.dim2), std::min(attrs.dim1, attrs.dim2)}) {
    shape.erase(dim);
    strides.erase(dim);
  }
  shape.push_back(length);
  strides.push_back(row_step + column_step);
  const std::int64_t first = length == 0 ? 0 : down * row_step + right * column_step;
  return alias(x, shape, strides, x.impl()->offset + first);
}

Tensor Windows::view(const Tensor& x, const Attrs& attrs) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  if (x.dim() == 0) return alias(x, {attrs.size}, {1}, x.impl()->offset);
  shape.push_back(attrs.size);
  strides.push_back(strides[attrs.dim]);
  shape[attrs.dim] = (shape[attrs.dim] - attrs.size) / attrs.step + 1;
  if (shape[attrs.dim] > 1) strides[attrs.dim] *= attrs.step;  // unused if there is one window
  return alias(x, shape, strides, x.impl()->offset);
}

}  // namespace op

Tensor Tensor::diagonal(std::int64_t offset, std::int64_t dim1, std::int64_t dim2) const {
  if (dim() < 2)
    fail<ShapeError>("diagonal", {.what = "a diagonal needs two dimensions",
                                  .got = str(*this),
                                  .expected = "at least 2 dimensions"});
  const int first = wrap_dim(dim1, dim(), "diagonal"), second = wrap_dim(dim2, dim(), "diagonal");
  if (first == second)
    fail<IndexError>("diagonal", {.what = "both dimensions are the same",
                                  .got = str(dim1, " and ", dim2, " of ", *this),
                                  .expected = "two dimensions"});
  const std::int64_t reach = std::clamp(offset, -shape()[first], shape()[second]);
  return apply_with<op::Diagonal>({reach, first, second}, *this);
}

Tensor Tensor::unfold(std::int64_t dim, std::int64_t size, std::int64_t step) const {
  const int d = wrap_dim(dim, this->dim(), "unfold");
  const std::int64_t length = this->dim() == 0 ? 1 : shape()[d];
  if (size < 0 || size > length)
    fail<ValueError>("unfold", {.what = "size is out of range",
                                .got = str(size, " along dimension ", d, " of ", *this),
                                .expected = str("0..", length)});
  if (step <= 0)
    fail<ValueError>("unfold",
                     {.what = "step must be positive", .got = str(step), .expected = "step > 0"});
  return apply_with<op::Windows>({d, size, step}, *this);
}

}  // namespace mezzo
