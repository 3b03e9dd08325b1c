// gather and scatter on the device, in terms of take_rows, put_rows and add_rows.
#include "../../../tensor/ops/index/gather.h"

#include "../../../tensor/core/dispatch.h"
#include "../../../tensor/ops/index/index_list_cpu.h"
#include "../../attach.h"
#include "../rows.h"
#include "../shape/copy.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::at_least_1d;

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

void attach_gather() {
  attach<op::Gather, gather>();
  attach<op::Scatter, scatter>();
  attach<op::ScatterAdd, scatter_add>();
}

}  // namespace mezzo::gpu
