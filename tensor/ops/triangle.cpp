// Shape rules of tril, triu and one_hot.
#include "triangle.h"

#include "../text/text.h"
#include "gather.h"

namespace mezzo::op {

namespace {

OutSpecs same_matrices(const char* op, const Tensor& x) {
  if (x.dim() < 2)
    fail<ShapeError>(op,
                     {.what = "not a matrix", .got = str(x), .expected = "at least 2 dimensions"});
  return {{x.shape(), x.dtype()}};
}

}  // namespace

OutSpecs Tril::infer(Inputs in, const Attrs&) { return same_matrices("tril", in[0]); }

OutSpecs Triu::infer(Inputs in, const Attrs&) { return same_matrices("triu", in[0]); }

OutSpecs OneHot::infer(Inputs in, const Attrs& attrs) {
  require_index_dtype("one_hot", in[0]);
  if (attrs.classes < 1)
    fail<ValueError>("one_hot", {.what = "the number of classes is out of range",
                                 .got = str(attrs.classes),
                                 .expected = "1 or more"});
  Shape shape = in[0].shape();
  shape.push_back(attrs.classes);
  return {{shape, DType::i64}};
}

}  // namespace mezzo::op
