// Shape rules of gather and scatter.
#include "gather.h"

#include "../core/dispatch.h"
#include "../core/registry.h"
#include "../text/text.h"

namespace mezzo::op {

void require_index_dtype(std::string_view op, const Tensor& index) {
  if (!index.defined())
    fail<ValueError>(op, {.what = "the index is undefined", .expected = "a tensor"});
  const bool fits = index.dtype() == DType::i64 || index.dtype() == DType::i32;
  if (!fits)
    fail<DtypeError>(op, {.what = "indices must be integers",
                          .got = str(index),
                          .expected = "i64 or i32",
                          .hint = "use index.to(i64)"});
}

void fail_index(const IndexRange& range, std::int64_t at, std::int64_t value) {
  Shape place = range.index;
  for (int i = place.rank() - 1; i >= 0; --i) {
    place[i] = at % range.index[i];
    at /= range.index[i];
  }
  const std::string x = str(name(range.x.dtype), range.x.shape, "@", range.x.device);
  fail<IndexError>(range.op,
                   {.what = "index out of range",
                    .got = str(value, " at index", place, " into dimension ", range.dim, " of ", x),
                    .expected = range.size == 0 ? std::string("no index, the dimension is empty")
                                                : str(range.lowest, "..", range.size - 1)});
}

namespace {

/** Checks that the index has x's rank and is no larger than x, except along dim. */
void require_index_fits(const char* op, const Tensor& x, const Tensor& index, int dim) {
  bool fits = index.dim() == x.dim();
  for (int i = 0; fits && i < x.dim(); ++i) fits = i == dim || index.shape()[i] <= x.shape()[i];
  if (!fits)
    fail<ShapeError>(
        op, {.what = "the index does not fit the tensor",
             .got = str("index ", index, " for ", x),
             .expected = str("as many dimensions, and sizes no larger except in dimension ", dim)});
}

void require_source_fits(const char* op, const Tensor& index, const Tensor& src) {
  if (!src.defined())
    fail<ValueError>(op, {.what = "the source is undefined", .expected = "a tensor"});
  bool fits = src.dim() == index.dim();
  for (int i = 0; fits && i < index.dim(); ++i) fits = index.shape()[i] <= src.shape()[i];
  if (!fits)
    fail<ShapeError>(op, {.what = "the source does not cover the index",
                          .got = str("source ", src, " and index ", index),
                          .expected = "as many dimensions, and sizes no smaller than the index's"});
}

void require_scatter(const char* op, Inputs in, std::int64_t dim) {
  require_index_dtype(op, in[1]);
  const int d = wrap_dim(dim, in[0].dim(), op);
  if (in[1].numel() == 0) return;
  require_index_fits(op, in[0], in[1], d);
  require_source_fits(op, in[1], in[2]);
}

}  // namespace

OutSpecs Gather::infer(Inputs in, const Attrs& attrs) {
  require_index_dtype("gather", in[1]);
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "gather");
  if (in[1].numel() != 0) require_index_fits("gather", in[0], in[1], dim);
  return {{in[1].shape(), in[0].dtype()}};
}

OutSpecs Scatter::infer(Inputs in, const Attrs& attrs) {
  require_scatter("scatter", in, attrs.dim);
  if (in[2].dtype() != in[0].dtype())
    fail<DtypeError>("scatter", {.what = "the source must have the tensor's dtype",
                                 .got = str(str(in[0]), " and source ", str(in[2])),
                                 .expected = "one dtype",
                                 .hint = "use src.to(dtype)"});
  return {{in[0].shape(), in[0].dtype()}};
}

OutSpecs ScatterAdd::infer(Inputs in, const Attrs& attrs) {
  require_scatter("scatter_add", in, attrs.dim);
  const Tensor valued[] = {in[0], in[2]};
  return {{in[0].shape(), promoted_dtype(valued)}};
}

std::span<OpInfo* const> gather_ops() { return infos_of(GatherOps{}); }

}  // namespace mezzo::op
