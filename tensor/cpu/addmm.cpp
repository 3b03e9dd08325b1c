// Kernels of the added matrix products: all are one product with an epilogue.
#include "../ops/addmm.h"

#include "../dispatch.h"
#include "matmul.h"

namespace mezzo::op {

namespace {

using cpu_kernels::product;
using cpu_kernels::with_unit_dim;

cpu_kernels::ProductScale scale_of(const AddmmAttrs& attrs, const Tensor& addend) {
  return {.alpha = attrs.alpha, .beta = attrs.beta, .addend = addend};
}

/** In place, a factor may be the very tensor that is overwritten; then it is read from a copy. */
Tensor factor(const Tensor& x, const Tensor& result) {
  const CastScope no_casts(nullptr);
  return x.impl()->storage == result.impl()->storage ? x.detach().clone() : x.detach();
}

}  // namespace

void Addmm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  product(factor(in[1], out[0]), factor(in[2], out[0]), out[0], scale_of(attrs, in[0]));
}

void Baddbmm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  product(factor(in[1], out[0]), factor(in[2], out[0]), out[0], scale_of(attrs, in[0]));
}

void Addmv::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const Tensor addend = in[0].dim() == 0 ? in[0] : with_unit_dim(in[0], 1);
  product(factor(in[1], out[0]), with_unit_dim(factor(in[2], out[0]), 1), with_unit_dim(out[0], 1),
          scale_of(attrs, addend));
}

void Addr::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  product(with_unit_dim(factor(in[1], out[0]), 1), with_unit_dim(factor(in[2], out[0]), 0), out[0],
          scale_of(attrs, in[0]));
}

/** The sum over the list is part of the inner dimension: the matrices of A side by side, those of B one below the other. */
void Addbmm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const CastScope no_casts(nullptr);
  const Tensor a = factor(in[1], out[0]), b = factor(in[2], out[0]);
  const std::int64_t inner = a.size(0) * a.size(2);
  product(a.permute({1, 0, 2}).reshape({a.size(1), inner}), b.reshape({inner, b.size(2)}), out[0],
          scale_of(attrs, in[0]));
}

}  // namespace mezzo::op
