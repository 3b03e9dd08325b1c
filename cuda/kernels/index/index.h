// RowIndex: an index into the rows of a tensor along one dimension.
#pragma once

#include "../../../tensor/core/shape.h"
#include "../../../tensor/ops/index/index_list_cpu.h"
#include "../rows.h"

namespace mezzo::gpu {

/** An index into the rows of x along one dimension. A 0-dim tensor counts as 1-dim. */
struct RowIndex {
  Tensor x;
  int dim;
  Names names;
  op::IndexedDims dims;

  RowIndex(const char* op, const Tensor& tensor, const Tensor& index, std::int64_t wanted)
      : x(cpu_kernels::at_least_1d(tensor)),
        dim(wrap_dim(wanted, tensor.dim(), op)),
        names(op, index, tensor, dim, x.shape()[dim]),
        dims(1u << dim, x.dim()) {}
};

}  // namespace mezzo::gpu
