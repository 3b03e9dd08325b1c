// index_copy on the device.
#include "../../../tensor/ops/index/overwrite.h"

#include "../../attach.h"
#include "../shape/copy.h"
#include "index.h"

namespace mezzo::gpu {

namespace {

void index_copy(Inputs in, Outputs out, const op::IndexCopy::Attrs& attrs) {
  const Tensor src = cpu_kernels::at_least_1d(in[2]);
  start_from(in[0], out[0]);
  const RowIndex index("index_copy", out[0], in[1], attrs.dim);
  put_rows(Rows::plain(src, index.dim, 1), index.names, index.names.size,
           Rows::indexed(index.x, index.dims));
}

}  // namespace

void attach_overwrite() { attach<op::IndexCopy, index_copy>(); }

}  // namespace mezzo::gpu
