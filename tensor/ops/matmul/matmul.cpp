// Shape rules, gradients and public functions of the ops in matmul.h.
#include "matmul.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../elementwise/operators.h"
#include "../require.h"
#include "addmm.h"
#include "linear_chain.h"
#include "matmul_gradient.h"

namespace mezzo::op {

namespace {

void require_rank(const char* op, Inputs in, std::size_t i, int rank, const char* what) {
  if (in[i].dim() != rank)
    fail<ShapeError>(op, {.what = str("operand ", i, " must be ", what),
                          .got = str(in.subspan(0, 2)),
                          .expected = str(rank, rank == 1 ? " dimension" : " dimensions"),
                          .hint = "matmul takes any number of dimensions"});
}

void require_inner(const char* op, Inputs in, std::int64_t left, std::int64_t right) {
  if (left != right)
    fail<ShapeError>(op, {.what = "inner sizes differ",
                          .got = str(in.subspan(0, 2)),
                          .expected = str("equal sizes, not ", left, " and ", right)});
}

}  // namespace

OutSpecs Mm::infer(Inputs in, const NoAttrs&) {
  require_rank("mm", in, 0, 2, "a matrix");
  require_rank("mm", in, 1, 2, "a matrix");
  require_inner("mm", in, in[0].shape()[1], in[1].shape()[0]);
  return {{{in[0].shape()[0], in[1].shape()[1]}, require_one_number_dtype("mm", in)}};
}

OutSpecs Bmm::infer(Inputs in, const NoAttrs&) {
  require_rank("bmm", in, 0, 3, "a list of matrices");
  require_rank("bmm", in, 1, 3, "a list of matrices");
  if (in[0].shape()[0] != in[1].shape()[0])
    fail<ShapeError>("bmm", {.what = "batch sizes differ",
                             .got = str(in),
                             .expected = "equal first sizes",
                             .hint = "matmul broadcasts"});
  require_inner("bmm", in, in[0].shape()[2], in[1].shape()[1]);
  return {{{in[0].shape()[0], in[0].shape()[1], in[1].shape()[2]},
           require_one_number_dtype("bmm", in)}};
}

OutSpecs Mv::infer(Inputs in, const NoAttrs&) {
  require_rank("mv", in, 0, 2, "a matrix");
  require_rank("mv", in, 1, 1, "a vector");
  require_inner("mv", in, in[0].shape()[1], in[1].shape()[0]);
  return {{{in[0].shape()[0]}, require_one_number_dtype("mv", in)}};
}

OutSpecs MatMul::infer(Inputs in, const Attrs&) {
  const Shape &a = in[0].shape(), &b = in[1].shape();
  if (a.rank() == 0 || b.rank() == 0)
    fail<ShapeError>("matmul", {.what = "a 0-dim tensor is neither matrix nor vector",
                                .got = str(in),
                                .expected = "at least one dimension each",
                                .hint = "use a * b"});
  require_inner("matmul", in, a.back(), b.rank() == 1 ? b[0] : b[b.rank() - 2]);
  const DType dtype = require_one_number_dtype("matmul", in);
  const auto batch_of = [](const Shape& x) {
    Shape batch = x;
    for (int i = 0; i < 2 && batch.rank() > 0; ++i) batch.erase(batch.rank() - 1);
    return batch;
  };
  Shape shape = broadcast_shapes(batch_of(a), batch_of(b), "matmul");
  if (a.rank() > 1) shape.push_back(a[a.rank() - 2]);
  if (b.rank() > 1) shape.push_back(b.back());
  return {{shape, dtype}};
}

OutSpecs Linear::infer(Inputs in, const NoAttrs&) {
  const Tensor &x = in[0], &w = in[1], &b = in[2];
  if (x.dim() == 0 || w.dim() != 2)
    fail<ShapeError>("linear", {.what = x.dim() == 0 ? "the input has no features"
                                                     : "the weight must be a matrix",
                                .got = str("input ", x, " and weight ", w),
                                .expected = "input [..., in] and weight [out, in]"});
  const std::int64_t features = w.shape()[1];
  Shape shape = x.shape();
  if (shape.back() != features)
    fail<ShapeError>("linear", {.what = "input features do not fit the weight",
                                .got = str("input ", x, " and weight ", w),
                                .expected = str(features, " features"),
                                .hint = str("build Linear{", shape.back(), ", ", w.shape()[0],
                                            "} or pass ", features)});
  shape[shape.rank() - 1] = w.shape()[0];
  if (b.defined() && !is_expandable(b.shape(), shape))
    fail<ShapeError>("linear", {.what = "the bias does not fit the result",
                                .got = str("bias ", b, " for a result of shape ", shape),
                                .expected = str("[", w.shape()[0],
                                                "] or a shape that broadcasts to the result")});
  return {{shape, require_one_number_dtype("linear", in)}};
}

OutSpecs Dot::infer(Inputs in, const NoAttrs&) {
  require_rank("dot", in, 0, 1, "a vector");
  require_rank("dot", in, 1, 1, "a vector");
  require_inner("dot", in, in[0].shape()[0], in[1].shape()[0]);
  const DType dtype = promoted_dtype(in);
  if (!is_floating(dtype)) require_one_number_dtype("dot", in);
  return {{{}, dtype}};
}

OutSpecs Vecdot::infer(Inputs in, const NoAttrs&) {
  if (in[0].dim() == 0 || in[1].dim() == 0)
    fail<ShapeError>("vecdot", {.what = "a 0-dim tensor is not a vector",
                                .got = str(in),
                                .expected = "at least one dimension each",
                                .hint = "use a * b"});
  require_inner("vecdot", in, in[0].shape().back(), in[1].shape().back());
  Shape shape = broadcast_shapes(in[0].shape(), in[1].shape(), "vecdot");
  shape.erase(shape.rank() - 1);
  return {{shape, require_one_number_dtype("vecdot", in)}};
}

std::span<OpInfo* const> matmul_ops() { return infos_of(MatmulOps{}); }

}  // namespace mezzo::op

namespace mezzo {

// Gradients of the matrix products.

namespace {

Tensor scaled_matmul(const Tensor& x, const Tensor& y, double alpha) {
  return apply_with<op::MatMul>({.alpha = alpha}, x, y);
}

Shape batch_of(const Shape& shape) {
  Shape batch;
  for (int i = 0; i < shape.rank() - 2; ++i) batch.push_back(shape[i]);
  return batch;
}

/** The dimensions of a broadcast batch: those that stay, and those that are summed. */
struct BatchSplit {
  Shape kept, summed;  // dimension numbers
  std::int64_t summed_size = 1;
};

BatchSplit split_batch(const Shape& all, const Shape& wanted) {
  BatchSplit split;
  const int lead = all.rank() - wanted.rank();
  for (int i = 0; i < all.rank(); ++i) {
    const bool summed = (i < lead || wanted[i - lead] == 1) && all[i] != 1;
    (summed ? split.summed : split.kept).push_back(i);
    if (summed) split.summed_size *= all[i];
  }
  return split;
}

/** Returns x of shape [all, p, q] as [kept, p, summed * q]. */
Tensor summed_into_last(const Tensor& x, const Shape& all, const BatchSplit& split) {
  Shape full = all, order = split.kept, shape;
  const int r = all.rank();
  full.push_back(x.size(-2));
  full.push_back(x.size(-1));
  order.push_back(r);
  for (const std::int64_t i : split.summed) order.push_back(i);
  order.push_back(r + 1);
  for (const std::int64_t i : split.kept) shape.push_back(all[i]);
  shape.push_back(x.size(-2));
  shape.push_back(split.summed_size * x.size(-1));
  return x.expand(full).permute(order).reshape(shape);
}

}  // namespace

Tensor contract(const Tensor& x, const Tensor& y, const Shape& batch, double alpha) {
  const Shape all = broadcast_shapes(batch_of(x.shape()), batch_of(y.shape()), "matmul");
  const BatchSplit split = split_batch(all, batch);
  Shape result = batch;
  result.push_back(x.size(-2));
  result.push_back(y.size(-1));
  const Tensor product =
      split.summed.empty()
          ? scaled_matmul(x, y, alpha)
          : scaled_matmul(summed_into_last(x, all, split),
                          summed_into_last(y.transpose(-2, -1), all, split).transpose(-2, -1),
                          alpha);
  return product.shape() == result ? product : product.reshape(result);
}

FactorGrads factor_grads(const Tensor& g, const Tensor& a, const Tensor& b, const Shape& shape_a,
                         const Shape& shape_b, bool want_a, bool want_b, double alpha) {
  const bool row = shape_a.rank() == 1, column = shape_b.rank() == 1;
  Tensor gm = column ? g.unsqueeze(-1) : g;
  if (row) gm = gm.unsqueeze(-2);
  FactorGrads grads;
  if (want_a) {
    const Tensor bt = column ? b.unsqueeze(0) : b.transpose(-2, -1);
    grads.a = contract(gm, bt, batch_of(shape_a), alpha);
    if (row) grads.a = grads.a.squeeze(0);
  }
  if (want_b) {
    const Tensor at = row ? a.unsqueeze(1) : a.transpose(-2, -1);
    grads.b = contract(at, gm, batch_of(shape_b), alpha);
    if (column) grads.b = grads.b.squeeze(1);
  }
  return grads;
}

namespace op {

namespace {
Grads product_grads(const Saved& saved, const Tensor& g, double alpha = 1) {
  FactorGrads grads = factor_grads(g, saved.inputs[0], saved.inputs[1], saved.shape(0),
                                   saved.shape(1), saved.wants(0), saved.wants(1), alpha);
  return {std::move(grads.a), std::move(grads.b)};
}
}  // namespace

Grads Bmm::backward(const Saved& saved, const Grads& gy) { return product_grads(saved, gy[0]); }

Grads MatMul::backward(const Saved& saved, const Grads& gy) {
  return product_grads(saved, gy[0], saved.attrs<MatMul>().alpha);
}

Grads Mm::backward(const Saved& saved, const Grads& gy) { return product_grads(saved, gy[0]); }

Grads Mv::backward(const Saved& saved, const Grads& gy) { return product_grads(saved, gy[0]); }

Grads Linear::backward(const Saved& saved, const Grads& gy) {
  Grads grads(3);
  if (saved.wants(0)) grads[0] = matmul(gy[0], saved.inputs[1]);
  linear_parameter_grads(saved, saved.inputs[0], gy[0], grads);
  return grads;
}

Grads Dot::backward(const Saved& saved, const Grads& gy) {
  Grads grads(2);
  if (saved.wants(0)) grads[0] = gy[0] * saved.inputs[1];
  if (saved.wants(1)) grads[1] = gy[0] * saved.inputs[0];
  return grads;
}

Grads Vecdot::backward(const Saved& saved, const Grads& gy) {
  const Tensor g = gy[0].unsqueeze(-1);
  Grads grads(2);
  if (saved.wants(0)) grads[0] = g * saved.inputs[1];
  if (saved.wants(1)) grads[1] = g * saved.inputs[0];
  return grads;
}

}  // namespace op

Tensor matmul(const Tensor& a, const Tensor& b) { return apply<op::MatMul>(a, b); }
Tensor mm(const Tensor& a, const Tensor& b) { return apply<op::Mm>(a, b); }
Tensor bmm(const Tensor& a, const Tensor& b) { return apply<op::Bmm>(a, b); }
Tensor mv(const Tensor& a, const Tensor& v) { return apply<op::Mv>(a, v); }
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return apply<op::Linear>(x, weight, bias);
}

Tensor mlp(const Tensor& x, const std::vector<Tensor>& weights, const std::vector<Tensor>& biases,
           const MlpOptions& options) {
  if (weights.empty() || (!biases.empty() && biases.size() != weights.size()))
    fail<ValueError>(
        "mlp", {.what = weights.empty() ? "there is no layer" : "wrong number of biases",
                .got = str(biases.size(), " biases for ", weights.size(), " weights"),
                .expected = weights.empty() ? "one weight or more" : "one per weight, or none"});
  std::vector<Tensor> operands{x};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    require_defined("mlp", weights[i]);
    operands.push_back(weights[i]);
    operands.push_back(biases.empty() ? Tensor{} : biases[i]);
  }
  return apply_list<op::Mlp>({options.activation, options.activates_last}, operands);
}

Tensor dot(const Tensor& a, const Tensor& b) { return apply<op::Dot>(a, b); }
Tensor vecdot(const Tensor& a, const Tensor& b) { return apply<op::Vecdot>(a, b); }

Tensor outer(const Tensor& u, const Tensor& v) {
  if (u.dim() != 1 || v.dim() != 1)
    fail<ShapeError>("outer", {.what = "operands must be vectors",
                               .got = str(u, " and ", v),
                               .expected = "1 dimension each"});
  return matmul(u.unsqueeze(1), v.unsqueeze(0));
}

#define MZ_ADDED_PRODUCT(function, Op)                                         \
  Tensor function(const Tensor& c, const Tensor& a, const Tensor& b,           \
                  const AddmmOptions& options) {                               \
    return apply_with<op::Op>({options.beta, options.alpha}, c, a, b);         \
  }                                                                            \
  const Tensor& function##_(const Tensor& c, const Tensor& a, const Tensor& b, \
                            const AddmmOptions& options) {                     \
    return apply_in_place<op::Op>({options.beta, options.alpha}, c, a, b);     \
  }
MZ_ADDED_PRODUCT(addbmm, Addbmm)
MZ_ADDED_PRODUCT(addmm, Addmm)
MZ_ADDED_PRODUCT(addmv, Addmv)
MZ_ADDED_PRODUCT(addr, Addr)
MZ_ADDED_PRODUCT(baddbmm, Baddbmm)
#undef MZ_ADDED_PRODUCT

}  // namespace mezzo
