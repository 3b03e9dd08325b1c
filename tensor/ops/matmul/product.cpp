#include "product.h"

#include "../../core/dispatch.h"

namespace mezzo::op {

namespace {

/** Returns a view of x with a dimension of size 1 at `at`. */
Tensor with_unit_dim(const Tensor& x, int at) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.insert(at, 1);
  strides.insert(at, 0);
  return alias(x, shape, strides, x.impl()->offset);
}

Product added(const Tensor& a, const Tensor& b, const Tensor& c, const AddmmAttrs& attrs,
              const Tensor& addend) {
  return {a, b, c, attrs.alpha, attrs.beta, attrs.beta == 0 ? Tensor{} : addend};
}

}  // namespace

// ---- operands -----------------------------------------------------------------------------------

Product product_of(std::type_identity<Mm>, Inputs in, Outputs out, const NoAttrs&) {
  return {in[0], in[1], out[0]};
}

Product product_of(std::type_identity<Bmm>, Inputs in, Outputs out, const NoAttrs&) {
  return {in[0], in[1], out[0]};
}

Product product_of(std::type_identity<Mv>, Inputs in, Outputs out, const NoAttrs&) {
  return {in[0], with_unit_dim(in[1], 1), with_unit_dim(out[0], 1)};
}

Product product_of(std::type_identity<MatMul>, Inputs in, Outputs out, const MatMul::Attrs& attrs) {
  Tensor a = in[0], b = in[1], c = out[0];
  if (b.dim() == 1) c = with_unit_dim(c, c.dim());
  if (a.dim() == 1) c = with_unit_dim(c, c.dim() - 1);
  if (a.dim() == 1) a = with_unit_dim(a, 0);
  if (b.dim() == 1) b = with_unit_dim(b, 1);
  return {a, b, c, attrs.alpha};
}

Product product_of(std::type_identity<Linear>, Inputs in, Outputs out, const NoAttrs&) {
  const Tensor &x = in[0], &w = in[1], &bias = in[2];
  const Tensor wt =
      alias(w, {w.size(1), w.size(0)}, {w.strides()[1], w.strides()[0]}, w.impl()->offset);
  const bool vector = x.dim() == 1;
  return {vector ? with_unit_dim(x, 0) : x, wt,  vector ? with_unit_dim(out[0], 0) : out[0], 1,
          bias.defined() ? 1.0 : 0.0,       bias};
}

Product product_of(std::type_identity<Addmm>, Inputs in, Outputs out, const AddmmAttrs& attrs) {
  return added(in[1], in[2], out[0], attrs, in[0]);
}

Product product_of(std::type_identity<Baddbmm>, Inputs in, Outputs out, const AddmmAttrs& attrs) {
  return added(in[1], in[2], out[0], attrs, in[0]);
}

Product product_of(std::type_identity<Addmv>, Inputs in, Outputs out, const AddmmAttrs& attrs) {
  const Tensor addend = in[0].dim() == 0 ? in[0] : with_unit_dim(in[0], 1);
  return added(in[1], with_unit_dim(in[2], 1), with_unit_dim(out[0], 1), attrs, addend);
}

Product product_of(std::type_identity<Addr>, Inputs in, Outputs out, const AddmmAttrs& attrs) {
  return added(with_unit_dim(in[1], 1), with_unit_dim(in[2], 0), out[0], attrs, in[0]);
}

/** The sum over the list becomes part of the inner dimension: the matrices of A are put side by
 *  side, those of B one below the other. */
Product product_of(std::type_identity<Addbmm>, Inputs in, Outputs out, const AddmmAttrs& attrs) {
  const CastScope no_casts(nullptr);
  const Tensor a = in[1].detach(), b = in[2].detach();
  const std::int64_t inner = a.size(0) * a.size(2);
  return added(a.permute({1, 0, 2}).reshape({a.size(1), inner}), b.reshape({inner, b.size(2)}),
               out[0], attrs, in[0]);
}

// ---- addresses ----------------------------------------------------------------------------------

namespace {

/** Returns the addend broadcast to the result's shape, with stride 0 in broadcast dimensions. */
Tensor spread(const Tensor& addend, const Shape& shape) {
  if (!addend.defined() || addend.shape() == shape) return addend;
  Strides strides = Strides::filled(shape.rank(), 0);
  const int lead = shape.rank() - addend.dim();
  for (int i = 0; i < addend.dim(); ++i)
    if (addend.shape()[i] != 1) strides[lead + i] = addend.strides()[i];
  return alias(addend, shape, strides, addend.impl()->offset);
}

/** Returns whether the strides allow all dimensions before the last to be merged; sets the stride
 *  of the merged dimension. */
bool folds(const Tensor& x, std::int64_t& row_stride) {
  row_stride = 0;
  std::int64_t rows = 1;
  for (int i = x.dim() - 2; i >= 0; --i) {
    const std::int64_t size = x.shape()[i];
    if (size == 1) continue;
    if (rows == 1)
      row_stride = x.strides()[i];
    else if (x.strides()[i] != row_stride * rows)
      return false;
    rows *= size;
  }
  return true;
}

bool has_batch(const Tensor& x) {
  for (int i = 0; i < x.dim() - 2; ++i)
    if (x.shape()[i] != 1) return true;
  return false;
}

/** Returns one matrix with the given row stride. */
MatrixBatch matrix_of(const Tensor& x, std::int64_t row) {
  return {x.raw_data(), x.dtype(), row, x.strides().back(), {}};
}

MatrixBatch matrices_of(const Tensor& x, const Shape& batch) {
  if (!x.defined()) return {.batch = Strides::filled(batch.rank(), 0)};
  const int rank = x.dim();
  MatrixBatch out = matrix_of(x, x.strides()[rank - 2]);
  out.batch = Strides::filled(batch.rank(), 0);
  for (int i = 0; i < rank - 2; ++i)
    if (x.shape()[i] != 1) out.batch[batch.rank() - (rank - 2) + i] = x.strides()[i];
  return out;
}

/** Merges all batches into the rows of one product, if b is one matrix and the rows of the other
 *  operands are contiguous. */
bool fold(const Product& p, const Tensor& addend, ProductPlan& plan) {
  std::int64_t a_row, c_row, addend_row = 0;
  if (p.a.numel() == 0 || has_batch(p.b) ||
      p.c.numel() / p.c.size(-1) != p.a.numel() / p.a.size(-1))
    return false;
  if (!folds(p.a, a_row) || !folds(p.c, c_row) || (addend.defined() && !folds(addend, addend_row)))
    return false;
  plan.m = p.c.numel() / p.c.size(-1);
  plan.a = matrix_of(p.a, a_row);
  plan.b = matrix_of(p.b, p.b.strides()[p.b.dim() - 2]);
  if (Storage* storage = p.b.impl()->storage.get(); storage->keeps_packed())
    plan.b.weight = storage;
  plan.c = matrix_of(p.c, c_row);
  if (addend.defined()) plan.addend = matrix_of(addend, addend_row);
  return true;
}

}  // namespace

ProductPlan plan(const Product& p) {
  ProductPlan plan{.m = p.c.size(-2),
                   .n = p.c.size(-1),
                   .k = p.a.size(-1),
                   .alpha = p.alpha,
                   .beta = p.beta,
                   .rounds_to = p.rounds_to};
  if (p.c.numel() == 0) return plan;
  const Tensor addend = p.beta == 0 ? Tensor{} : spread(p.addend, p.c.shape());
  if (fold(p, addend, plan)) return plan;
  plan.batch = p.c.shape();
  plan.batch.erase(plan.batch.rank() - 1);
  plan.batch.erase(plan.batch.rank() - 1);
  plan.a = matrices_of(p.a, plan.batch);
  plan.b = matrices_of(p.b, plan.batch);
  plan.c = matrices_of(p.c, plan.batch);
  plan.addend = matrices_of(addend, plan.batch);
  return plan;
}

}  // namespace mezzo::op
