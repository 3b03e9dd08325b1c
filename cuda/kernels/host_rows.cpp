#include "host_rows.h"

#include "../../tensor/core/row_major.h"

namespace mezzo::gpu {

namespace {

Axes axes_of(const Tensor& x, const Shape& dims) {
  Axes axes;
  for (const std::int64_t d : dims) axes.push(x.shape()[d], x.strides()[d]);
  return axes;
}

Axes axes_between(const Tensor& x, int begin, int end) {
  Axes axes;
  for (int d = begin; d < end; ++d) axes.push(x.shape()[d], x.strides()[d]);
  return axes;
}

}  // namespace

Rows Rows::indexed(const Tensor& x, const op::IndexedDims& dims) {
  return {x.raw_data(), x.dtype(), axes_of(x, dims.before), axes_of(x, dims.indexed),
          axes_of(x, dims.after)};
}

Rows Rows::plain(const Tensor& y, int before, int index_rank) {
  return {y.raw_data(), y.dtype(), axes_between(y, 0, before),
          axes_between(y, before, before + index_rank),
          axes_between(y, before + index_rank, y.dim())};
}

Rows Rows::elements(const Tensor& x, const Shape& shape) {
  Rows rows{.data = x.raw_data(), .dtype = x.dtype()};
  for (int d = 0; d < x.dim(); ++d) rows.rows.push(shape[d], x.strides()[d]);
  return rows;
}

Rows Rows::by_distance(const Tensor& x) {
  Rows rows{.data = x.raw_data(), .dtype = x.dtype()};
  rows.rows.rank = 1;
  rows.rows.strides[0] = 1;
  return rows;
}

Names::Names(std::string_view op, const Tensor& index, const Tensor& x, int dim, std::int64_t valid)
    : memory(row_major(index)), size(valid) {
  const TensorMeta into{x.shape(), x.dtype(), x.device()};
  const op::IndexRange range{op, index.shape(), into, dim, 0, valid};
  // No index is valid then. Throwing here spares the kernels the case.
  if (valid == 0 && index.numel() > 0)
    op::fail_index(range, 0, memory.view({-1}).narrow(0, 0, 1).to(DType::i64).item<std::int64_t>());
  bad = watch(index.device(), range);
}

}  // namespace mezzo::gpu
