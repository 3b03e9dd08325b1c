// Kernel of index_copy.
#include "overwrite.h"

#include "../../core/dispatch.h"
#include "../../cpu/block_rows.h"
#include "index_list_cpu.h"

namespace mezzo::op {

void IndexCopy::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  using namespace cpu_kernels;
  const CastScope no_casts(nullptr);
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "index_copy");
  const Tensor x = at_least_1d(out[0]), src = at_least_1d(in[2]);
  const Tensor rows =
      at_least_1d(checked_indices(in[1], {"index_copy", in[0], dim, x.shape()[dim]}));
  start_from(in[0], out[0]);
  if (rows.numel() == 0 || x.numel() == 0) return;
  put_blocks(Blocks::plain(src, dim, 1), Blocks::indexed(x, IndexedDims(1u << dim, x.dim()), rows));
}

}  // namespace mezzo::op
