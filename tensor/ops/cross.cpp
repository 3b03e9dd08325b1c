// Shape rule of the vector product.
#include "cross.h"

#include "../dispatch.h"
#include "../text.h"

namespace mezzo::op {

OutSpecs Cross::infer(Inputs in, const Attrs& attrs) {
  if (!in[1].defined()) fail<ValueError>("cross", {.what = "operand 1 is undefined", .expected = "a tensor"});
  const DType dtype = promoted_dtype(in);
  if (dtype == DType::boolean)
    fail<DtypeError>(
        "cross",
        {.what = "not defined for bool", .got = str(in), .expected = "numbers", .hint = "use x.to(i64)"});
  const Shape shape = broadcast_shapes(in[0].shape(), in[1].shape(), "cross");
  const int dim = wrap_dim(attrs.dim, shape.rank(), "cross");
  for (const Tensor& x : in) {
    const int own = dim - (shape.rank() - x.dim());
    if (own < 0 || x.shape()[own] != 3)
      fail<ShapeError>("cross", {.what = str("dimension ", dim, " of the result must hold vectors of 3"),
                                 .got = str(in),
                                 .expected = "size 3 there in both operands"});
  }
  return {{shape, dtype}};
}

}  // namespace mezzo::op
