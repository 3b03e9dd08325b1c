// The ops that index along dimensions, in terms of take_rows, put_rows and add_rows.
#include "../../../tensor/ops/index/index.h"

#include "../../../tensor/core/dispatch.h"
#include "../../attach.h"
#include "../shape/copy.h"
#include "index.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::at_least_1d;
using op::IndexedDims;

// ---- rows along one dimension -------------------------------------------------------------------

void index_select(Inputs in, Outputs out, const op::IndexSelect::Attrs& attrs) {
  const RowIndex index("index_select", in[0], in[1], attrs.dim);
  take_rows(Rows::indexed(index.x, index.dims), index.names,
            Rows::plain(at_least_1d(out[0]), index.dim, 1));
}

void index_add(Inputs in, Outputs out, const op::IndexAdd::Attrs& attrs) {
  const Tensor src = at_least_1d(in[2]);
  start_from(in[0], out[0]);
  const RowIndex index("index_add", out[0], in[1], attrs.dim);
  add_rows(Rows::plain(src, index.dim, 1), index.names, index.names.size,
           Rows::indexed(index.x, index.dims), compute_dtype(out[0].dtype()),
           {.alpha = attrs.alpha});
}

// ---- rows along several dimensions --------------------------------------------------------------

/** Returns the rows that positions over several dimensions select. Positions are checked, because a
 *  caller may have made them without index_positions. */
Names positions_in(const char* op, const Tensor& x, const Tensor& positions,
                   const IndexedDims& dims) {
  std::int64_t places = 1;
  for (const std::int64_t d : dims.indexed) places *= x.shape()[d];
  return {op, positions, x, dims.indexed.empty() ? 0 : static_cast<int>(dims.indexed[0]), places};
}

void index(Inputs in, Outputs out, const op::Index::Attrs& attrs) {
  const IndexedDims dims(attrs.dims, in[0].dim());
  take_rows(Rows::indexed(in[0], dims), positions_in("index", in[0], in[1], dims),
            Rows::plain(out[0], dims.before.rank(), in[1].dim()));
}

void index_put(Inputs in, Outputs out, const op::IndexPut::Attrs& attrs) {
  const CastScope no_casts(nullptr);
  const IndexedDims dims(attrs.dims, out[0].dim());
  const Tensor source = in[2].detach();
  start_from(in[0], out[0]);
  const Names names = positions_in("index_put", out[0], in[1], dims);
  const Shape place = dims.result(out[0].shape(), in[1].shape());
  const Tensor values = (attrs.accumulate ? source : source.to(out[0].dtype())).expand(place);
  const Rows from = Rows::plain(values, dims.before.rank(), in[1].dim()),
             to = Rows::indexed(out[0], dims);
  if (!attrs.accumulate) return put_rows(from, names, names.size, to);
  const Tensor valued[] = {in[0], in[2]};
  add_rows(from, names, names.size, to, compute_dtype(promoted_dtype(valued)));
}

}  // namespace

void attach_index() {
  attach<op::Index, index>();
  attach<op::IndexAdd, index_add>();
  attach<op::IndexPut, index_put>();
  attach<op::IndexSelect, index_select>();
}

}  // namespace mezzo::gpu
