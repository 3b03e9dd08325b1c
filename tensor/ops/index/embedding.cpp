// Shape rules, gradients and public functions of the ops in embedding.h.
#include "embedding.h"

#include <memory>

#include "../../core/dispatch.h"
#include "../../core/late_result.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "gather.h"
#include "index.h"

namespace mezzo::op {

std::int64_t padding_row(std::string_view op, std::int64_t padding_idx, std::int64_t rows) {
  if (padding_idx < -rows || padding_idx >= rows)
    fail<ValueError>(op, {.what = "padding_idx is not a row of the table",
                          .got = str(padding_idx),
                          .expected = str(-rows, "..", rows - 1)});
  return padding_idx < 0 ? padding_idx + rows : padding_idx;
}

OutSpecs Embedding::infer(Inputs in, const Attrs& attrs) {
  require_index_dtype("embedding", in[0]);
  if (!in[1].defined())
    fail<ValueError>("embedding",
                     {.what = "the table is undefined", .expected = "weight [num, dim]"});
  if (in[1].dim() != 2)
    fail<ShapeError>(
        "embedding",
        {.what = "the table must be a matrix", .got = str(in[1]), .expected = "weight [num, dim]"});
  if (attrs.padding_idx >= 0) padding_row("embedding", attrs.padding_idx, in[1].shape()[0]);
  Shape shape = in[0].shape();
  shape.push_back(in[1].shape()[1]);
  return {{shape, in[1].dtype()}};
}

OutSpecs EmbeddingGrad::infer(Inputs in, const Attrs& attrs) {
  require_index_dtype("embedding_grad", in[0]);
  bool fits = in[1].defined() && in[1].dim() == in[0].dim() + 1;
  for (int i = 0; fits && i < in[0].dim(); ++i) fits = in[0].shape()[i] == in[1].shape()[i];
  if (!fits)
    fail<ShapeError>("embedding_grad", {.what = "the gradient does not fit the index",
                                        .got = str(in),
                                        .expected = "the index's shape and one more dimension"});
  if (attrs.padding_idx >= 0) padding_row("embedding_grad", attrs.padding_idx, attrs.rows);
  return {{{attrs.rows, in[1].shape().back()}, in[1].dtype()}};
}

std::span<OpInfo* const> embedding_ops() { return infos_of(EmbeddingOps{}); }

// The gradients of embedding and of embedding_grad.

Grads Embedding::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Embedding>();
  return {Tensor{}, apply_with<EmbeddingGrad>(
                        {saved.shape(1)[0], attrs.padding_idx, attrs.scale_grad_by_freq},
                        saved.inputs[0], gy[0])};
}

namespace {

/** Returns the factors of the looked-up rows' gradients as a column, one per index: 0 for padding,
 *  else 1, or 1 / count. */
Tensor row_factors(const Tensor& index, const EmbeddingGrad::Attrs& attrs, DType dtype) {
  const NoGrad no_grad;
  const TensorOptions options{.dtype = dtype, .device = index.device()};
  const Tensor flat = index.reshape({-1});
  Tensor factors = ones({flat.numel()}, options);
  if (attrs.scale_grad_by_freq)
    factors =
        factors / index_select(index_add(zeros({attrs.rows}, options), 0, flat, factors), 0, flat);
  factors = where(flat == attrs.padding_idx, zeros({}, options), factors);
  return factors.reshape(index.shape()).unsqueeze(-1);
}

}  // namespace

Grads EmbeddingGrad::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<EmbeddingGrad>();
  const Tensor rows = embedding(saved.inputs[0], gy[0]);
  const bool plain = attrs.padding_idx < 0 && !attrs.scale_grad_by_freq;
  if (plain) return {Tensor{}, rows};
  return {Tensor{}, rows * row_factors(saved.inputs[0], attrs, compute_dtype(rows.dtype()))};
}

}  // namespace mezzo::op

namespace mezzo {

namespace {

op::Embedding::Attrs embedding_attrs(const Tensor& weight, const EmbeddingOptions& options) {
  op::Embedding::Attrs attrs{.scale_grad_by_freq = options.scale_grad_by_freq};
  if (options.padding_idx && weight.defined() && weight.dim() == 2)
    attrs.padding_idx = op::padding_row("embedding", *options.padding_idx, weight.shape()[0]);
  return attrs;
}

}  // namespace

Tensor embedding(const Tensor& index, const Tensor& weight, const EmbeddingOptions& options) {
  return apply_with<op::Embedding>(embedding_attrs(weight, options), index, weight);
}

Tensor op::late_embedding(const Tensor& index, const Tensor& weight,
                          const EmbeddingOptions& options) {
  if (!index.defined() || !weight.defined() || index.device() != weight.device() ||
      index.device().kind == DeviceKind::cpu || thread_hooks().cast || index.numel() == 0 ||
      !can_be_late(index) || !can_be_late(weight))
    return embedding(index, weight, options);
  return late_result(
      op_info<Embedding>, {index, weight},
      std::make_shared<Embedding::Attrs>(embedding_attrs(weight, options)),
      {.op = "embedding",
       .read = "rows of an embedding are first read",
       .modified = "the table or the indices were modified before the rows were read",
       .hint = "use forward(), or read the rows first"},
      {.kept = 2});
}

}  // namespace mezzo
