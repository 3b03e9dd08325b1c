// Kernels of the ops that index whole rows.
#include "index.h"

#include "../../core/dispatch.h"
#include "../../cpu/block_rows.h"
#include "../reduce/reduce.h"
#include "index_list_cpu.h"

namespace mezzo::op {

namespace {

using cpu_kernels::at_least_1d;
using cpu_kernels::Blocks;
using cpu_kernels::RowGroups;
using cpu_kernels::start_from;

/** Returns the product of the indexed sizes. */
std::int64_t places(const Tensor& x, const IndexedDims& dims) {
  std::int64_t n = 1;
  for (const std::int64_t d : dims.indexed) n *= x.shape()[d];
  return n;
}

/** Checks that positions are inside the indexed sizes. IndexPositions guarantees this, but a caller
 *  may pass other positions. */
Tensor checked_positions(const char* op, const Tensor& x, const Tensor& positions,
                         const IndexedDims& dims) {
  return cpu_kernels::checked_indices(
      positions,
      {op, x, dims.indexed.empty() ? 0 : static_cast<int>(dims.indexed[0]), places(x, dims)});
}

}  // namespace

void IndexSelect::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "index_select");
  const Tensor x = at_least_1d(in[0]), y = at_least_1d(out[0]);
  const Tensor rows = at_least_1d(
      cpu_kernels::checked_indices(in[1], {"index_select", in[0], dim, x.shape()[dim]}));
  if (y.numel() == 0) return;
  const IndexedDims dims(1u << dim, x.dim());
  cpu_kernels::move_blocks(Blocks::indexed(x, dims, rows), Blocks::plain(y, dim, 1));
}

void IndexAdd::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const CastScope no_casts(nullptr);
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "index_add");
  const Tensor x = at_least_1d(out[0]), src = at_least_1d(in[2]);
  const Tensor rows =
      at_least_1d(cpu_kernels::checked_indices(in[1], {"index_add", in[0], dim, x.shape()[dim]}));
  start_from(in[0], out[0]);
  if (rows.numel() == 0 || x.numel() == 0) return;
  const IndexedDims dims(1u << dim, x.dim());
  cpu_kernels::add_blocks(Blocks::plain(src, dim, 1), Blocks::indexed(x, dims, rows),
                          RowGroups(rows, x.shape()[dim]), compute_dtype(x.dtype()),
                          {.alpha = attrs.alpha});
}

void IndexPositions::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const CastScope no_casts(nullptr);
  const Shape& shape = out[0].shape();
  std::int64_t* at = out[0].data<std::int64_t>();
  std::fill(at, at + out[0].numel(), 0);
  std::size_t operand = 0;
  for (int d = 0; d < in[0].dim(); ++d) {
    if (!(attrs.dims >> d & 1)) continue;
    const std::int64_t size = in[0].shape()[d];
    const Tensor index = cpu_kernels::wrapped_indices(in[++operand], {attrs.op, in[0], d, size})
                             .expand(shape)
                             .contiguous();
    const std::int64_t* named = index.data<std::int64_t>();
    for (std::int64_t k = 0; k < index.numel(); ++k) at[k] = at[k] * size + named[k];
  }
}

void Index::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const IndexedDims dims(attrs.dims, in[0].dim());
  const Tensor positions = checked_positions("index", in[0], in[1], dims);
  if (out[0].numel() == 0) return;
  cpu_kernels::move_blocks(Blocks::indexed(in[0], dims, positions),
                           Blocks::plain(out[0], dims.before.rank(), positions.dim()));
}

void IndexPut::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const CastScope no_casts(nullptr);
  const Tensor& x = out[0];
  const IndexedDims dims(attrs.dims, x.dim());
  const Tensor positions = checked_positions("index_put", in[0], in[1], dims);
  const Tensor source = in[2].detach();
  start_from(in[0], x);
  if (positions.numel() == 0 || x.numel() == 0) return;
  const Shape place = dims.result(x.shape(), positions.shape());
  const Tensor values = (attrs.accumulate ? source : source.to(x.dtype())).expand(place);
  const Blocks from = Blocks::plain(values, dims.before.rank(), positions.dim()),
               to = Blocks::indexed(x, dims, positions);
  if (!attrs.accumulate) return cpu_kernels::put_blocks(from, to);
  const Tensor valued[] = {in[0], in[2]};
  cpu_kernels::add_blocks(from, to, RowGroups(positions, places(x, dims)),
                          compute_dtype(promoted_dtype(valued)));
}

void Nonzero::cpu(Inputs in, Outputs out, const NoAttrs&) {
  const NoGradNoCasts plain_ops;
  const Tensor mask = in[0].to(DType::boolean).contiguous();
  const bool* holds = mask.data<bool>();
  const Shape& shape = in[0].shape();
  out[0] = empty_tensor({count_nonzero(mask).item<std::int64_t>(), shape.rank()}, DType::i64,
                        in[0].device());
  std::int64_t* place = out[0].data<std::int64_t>();
  for (std::int64_t i = 0; i < mask.numel(); ++i) {
    if (!holds[i]) continue;
    std::int64_t rest = i;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      place[d] = rest % shape[d];
      rest /= shape[d];
    }
    place += shape.rank();
  }
}

void MaskedValues::cpu(Inputs in, Outputs out, const NoAttrs&) {
  const NoGradNoCasts plain_ops;
  out[0] = index_select(in[0].reshape({-1}), 0, nonzero(in[1]).select(1, 0));
}

}  // namespace mezzo::op
