// The indexed ops on the device, in terms of take_rows, put_rows and add_rows.
#include "../../tensor/ops/index.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/cpu/index_list.h"
#include "../../tensor/ops/embedding.h"
#include "../../tensor/ops/gather.h"
#include "../../tensor/ops/overwrite.h"
#include "../attach.h"
#include "copy.h"
#include "row.h"
#include "rows.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::at_least_1d;
using op::IndexedDims;

// ---- rows along one dimension -------------------------------------------------------------------

/** An index into the rows of x along one dimension. A 0-dim tensor counts as 1-dim. */
struct RowIndex {
  Tensor x;
  int dim;
  Names names;
  IndexedDims dims;

  RowIndex(const char* op, const Tensor& tensor, const Tensor& index, std::int64_t wanted)
      : x(at_least_1d(tensor)),
        dim(wrap_dim(wanted, tensor.dim(), op)),
        names(op, index, tensor, dim, x.shape()[dim]),
        dims(1u << dim, x.dim()) {}
};

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

void index_copy(Inputs in, Outputs out, const op::IndexCopy::Attrs& attrs) {
  const Tensor src = at_least_1d(in[2]);
  start_from(in[0], out[0]);
  const RowIndex index("index_copy", out[0], in[1], attrs.dim);
  put_rows(Rows::plain(src, index.dim, 1), index.names, index.names.size,
           Rows::indexed(index.x, index.dims));
}

void embedding(Inputs in, Outputs out, const op::Embedding::Attrs&) {
  const std::int64_t rows = in[1].shape()[0];
  take_rows(Rows::indexed(in[1], IndexedDims(1u, 2)), Names("embedding", in[0], in[1], 0, rows),
            Rows::plain(out[0], 0, out[0].dim() - 1));
}

void embedding_grad(Inputs in, Outputs out, const op::EmbeddingGrad::Attrs& attrs) {
  copy_elements(scalar_operand(0.0), out[0]);
  const Names names("embedding_grad", in[0], out[0], 0, attrs.rows);
  add_rows(Rows::plain(in[1], 0, in[1].dim() - 1), names, attrs.rows,
           Rows::indexed(out[0], IndexedDims(1u, 2)), compute_dtype(out[0].dtype()),
           {.overwrite = true, .average = attrs.scale_grad_by_freq, .skipped = attrs.padding_idx});
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

// ---- single elements ----------------------------------------------------------------------------

/** An index over single elements of x along one dimension; in the others each index element selects
 *  its own position. Rows are elements, numbered by `strides_of(x)`. */
struct ElementIndex {
  Tensor x, index;
  int dim;
  Names names;

  ElementIndex(const char* op, const Tensor& tensor, const Tensor& raw_index, std::int64_t wanted,
               const auto& strides_of)
      : x(at_least_1d(tensor)),
        index(at_least_1d(raw_index)),
        dim(wrap_dim(wanted, tensor.dim(), op)),
        names(op, raw_index, tensor, dim, x.shape()[dim]) {
    const Strides strides = strides_of(x);
    for (int d = 0; d < x.dim(); ++d) names.base.push(index.shape()[d], d == dim ? 0 : strides[d]);
    names.step = strides[dim];
  }
};

void gather(Inputs in, Outputs out, const op::Gather::Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const ElementIndex at("gather", in[0], in[1], attrs.dim,
                        [](const Tensor& x) { return x.strides(); });
  take_rows(Rows::by_distance(at.x), at.names,
            Rows::elements(at_least_1d(out[0]), at.index.shape()));
}

/** Returns the selected elements of `out`, by their row-major number. */
ElementIndex named_elements(const char* op, const Tensor& out, const Tensor& index,
                            std::int64_t dim) {
  return {op, out, index, dim, [](const Tensor& x) { return contiguous_strides(x.shape()); }};
}

void scatter(Inputs in, Outputs out, const op::Scatter::Attrs& attrs) {
  const Tensor src = at_least_1d(in[2]);
  start_from(in[0], out[0]);
  if (in[1].numel() == 0) return;
  const ElementIndex at = named_elements("scatter", out[0], in[1], attrs.dim);
  put_rows(Rows::elements(src, at.index.shape()), at.names, at.x.numel(),
           Rows::elements(at.x, at.x.shape()));
}

void scatter_add(Inputs in, Outputs out, const op::ScatterAdd::Attrs& attrs) {
  const Tensor src = at_least_1d(in[2]);
  start_from(in[0], out[0]);
  if (in[1].numel() == 0) return;
  const ElementIndex at = named_elements("scatter_add", out[0], in[1], attrs.dim);
  const Tensor valued[] = {in[0], in[2]};
  add_rows(Rows::elements(src, at.index.shape()), at.names, at.x.numel(),
           Rows::elements(at.x, at.x.shape()), compute_dtype(promoted_dtype(valued)));
}

}  // namespace

void attach_index() {
  attach<op::Embedding, embedding>();
  attach<op::EmbeddingGrad, embedding_grad>();
  attach<op::Gather, gather>();
  attach<op::Index, index>();
  attach<op::IndexAdd, index_add>();
  attach<op::IndexCopy, index_copy>();
  attach<op::IndexPut, index_put>();
  attach<op::IndexSelect, index_select>();
  attach<op::Scatter, scatter>();
  attach<op::ScatterAdd, scatter_add>();
}

}  // namespace mezzo::gpu
