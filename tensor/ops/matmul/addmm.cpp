// Shape rules and gradients of the ops in addmm.h.
#include "addmm.h"

#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "../reduce/reduce.h"
#include "../require.h"
#include "matmul_gradient.h"

namespace mezzo::op {

namespace {

/** Checks that operands 1 and 2 have the given ranks, equal inner sizes and (for lists of matrices)
 *  equal batch sizes. */
void require_factors(const char* op, Inputs in, int rank_a, int rank_b) {
  const Shape &a = in[1].shape(), &b = in[2].shape();
  const auto names = [&] { return str(in); };
  if (a.rank() != rank_a || b.rank() != rank_b)
    fail<ShapeError>(op, {.what = "the factors have the wrong number of dimensions",
                          .got = names(),
                          .expected = str(rank_a, " and ", rank_b)});
  if (rank_a == 1) return;
  if (rank_a == 3 && a[0] != b[0])
    fail<ShapeError>(
        op,
        {.what = "batch sizes of the factors differ", .got = names(), .expected = "equal sizes"});
  if (a.back() != b[rank_b == 1 ? 0 : rank_b - 2])
    fail<ShapeError>(op, {.what = "inner sizes of the factors differ",
                          .got = names(),
                          .expected = str("the last size of the first factor, ", a.back())});
}

OutSpecs added(const char* op, Inputs in, const Shape& result, const AddmmAttrs& attrs) {
  if (!is_expandable(in[0].shape(), result))
    fail<ShapeError>(op, {.what = "the added tensor does not broadcast to the product",
                          .got = str(in),
                          .expected = str("a shape that broadcasts to ", result)});
  const DType dtype = require_one_number_dtype(op, in);
  if (!is_floating(dtype) && !(fits_i64(attrs.beta) && fits_i64(attrs.alpha)))
    fail<ValueError>(op,
                     {.what = "a factor is not an integer, but the operands are",
                      .got = str("beta ", attrs.beta, ", alpha ", attrs.alpha, " for ", str(in)),
                      .expected = "integers",
                      .hint = "use x.to(f32)"});
  return {{result, dtype}};
}

}  // namespace

OutSpecs Addbmm::infer(Inputs in, const Attrs& attrs) {
  require_factors("addbmm", in, 3, 3);
  return added("addbmm", in, {in[1].shape()[1], in[2].shape()[2]}, attrs);
}

OutSpecs Addmm::infer(Inputs in, const Attrs& attrs) {
  require_factors("addmm", in, 2, 2);
  return added("addmm", in, {in[1].shape()[0], in[2].shape()[1]}, attrs);
}

OutSpecs Addmv::infer(Inputs in, const Attrs& attrs) {
  require_factors("addmv", in, 2, 1);
  return added("addmv", in, {in[1].shape()[0]}, attrs);
}

OutSpecs Addr::infer(Inputs in, const Attrs& attrs) {
  require_factors("addr", in, 1, 1);
  return added("addr", in, {in[1].shape()[0], in[2].shape()[0]}, attrs);
}

OutSpecs Baddbmm::infer(Inputs in, const Attrs& attrs) {
  require_factors("baddbmm", in, 3, 3);
  return added("baddbmm", in, {in[1].shape()[0], in[1].shape()[1], in[2].shape()[2]}, attrs);
}

std::span<OpInfo* const> addmm_ops() { return infos_of(AddmmOps{}); }

// Gradients of the added matrix products.

namespace {

/** Returns the gradient of the added tensor: beta times the incoming gradient, exactly zero if the
 *  tensor was not read. */
Tensor addend_grad(const Saved& saved, const Tensor& g, double beta) {
  if (beta == 0) return zeros(saved.shape(0), {.dtype = g.dtype(), .device = g.device()});
  const Tensor summed = sum_to(g, saved.shape(0));
  return beta == 1 ? summed : summed * beta;
}

/** Returns the gradients of an op in which operands 1 and 2 are multiplied as by matmul. */
Grads added_product_grads(const Saved& saved, const Tensor& g, const AddmmAttrs& attrs) {
  Grads grads(3);
  if (saved.wants(0)) grads[0] = addend_grad(saved, g, attrs.beta);
  FactorGrads factors = factor_grads(g, saved.inputs[1], saved.inputs[2], saved.shape(1),
                                     saved.shape(2), saved.wants(1), saved.wants(2), attrs.alpha);
  grads[1] = std::move(factors.a);
  grads[2] = std::move(factors.b);
  return grads;
}

}  // namespace

Grads Addmm::backward(const Saved& saved, const Grads& gy) {
  return added_product_grads(saved, gy[0], saved.attrs<Addmm>());
}

Grads Addmv::backward(const Saved& saved, const Grads& gy) {
  return added_product_grads(saved, gy[0], saved.attrs<Addmv>());
}

Grads Baddbmm::backward(const Saved& saved, const Grads& gy) {
  return added_product_grads(saved, gy[0], saved.attrs<Baddbmm>());
}

Grads Addbmm::backward(const Saved& saved, const Grads& gy) {
  const AddmmAttrs& attrs = saved.attrs<Addbmm>();
  Grads grads(3);
  if (saved.wants(0)) grads[0] = addend_grad(saved, gy[0], attrs.beta);
  // All pairs of matrices have the same incoming gradient.
  FactorGrads factors =
      factor_grads(gy[0].unsqueeze(0), saved.inputs[1], saved.inputs[2], saved.shape(1),
                   saved.shape(2), saved.wants(1), saved.wants(2), attrs.alpha);
  grads[1] = std::move(factors.a);
  grads[2] = std::move(factors.b);
  return grads;
}

Grads Addr::backward(const Saved& saved, const Grads& gy) {
  const AddmmAttrs& attrs = saved.attrs<Addr>();
  const Tensor& g = gy[0];
  Grads grads(3);
  if (saved.wants(0)) grads[0] = addend_grad(saved, g, attrs.beta);
  if (saved.wants(1))
    grads[1] = contract(g, saved.inputs[2].unsqueeze(1), {}, attrs.alpha).squeeze(1);
  if (saved.wants(2))
    grads[2] = contract(saved.inputs[1].unsqueeze(0), g, {}, attrs.alpha).squeeze(0);
  return grads;
}

}  // namespace mezzo::op
