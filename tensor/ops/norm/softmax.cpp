// Shape rules, gradients and public functions of the ops in softmax.h.
#include "softmax.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../elementwise/operators.h"
#include "../reduce/reduce.h"
#include "../wide.h"

namespace mezzo::op {

namespace {

OutSpecs like_input(Inputs in, std::string_view op) {
  if (!is_floating(in[0].dtype()))
    fail<DtypeError>(op, {.what = "not defined for integers",
                          .got = str(in[0]),
                          .expected = "a floating dtype",
                          .hint = "pass {.dtype = f32}"});
  return {{in[0].shape(), in[0].dtype()}};
}

}  // namespace

OutSpecs LogSoftmax::infer(Inputs in, const Attrs&) { return like_input(in, traits.name); }

OutSpecs LogSoftmaxBackward::infer(Inputs in, const Attrs&) {
  return {{in[1].shape(), in[1].dtype()}};
}

OutSpecs Softmax::infer(Inputs in, const Attrs&) { return like_input(in, traits.name); }

OutSpecs SoftmaxBackward::infer(Inputs in, const Attrs&) {
  return {{in[1].shape(), in[1].dtype()}};
}

std::span<OpInfo* const> softmax_ops() { return infos_of(SoftmaxOps{}); }

// Gradients of softmax and log_softmax, and the composite of softmin.

Grads LogSoftmax::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<LogSoftmax>();
  if (!grad_enabled()) return {apply_with<LogSoftmaxBackward>(attrs, gy[0], saved.outputs[0])};
  const Tensor g = wide(gy[0]);
  return {g - exp(wide(saved.outputs[0])) * sum(g, attrs.dim, {.keepdim = true})};
}

Grads Softmax::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Softmax>();
  if (!grad_enabled()) return {apply_with<SoftmaxBackward>(attrs, gy[0], saved.outputs[0])};
  const Tensor g = wide(gy[0]), y = wide(saved.outputs[0]);
  return {y * (g - sum(g * y, attrs.dim, {.keepdim = true}))};
}

std::vector<Tensor> Softmin::composite(Inputs in, const Attrs& attrs) {
  return {apply_with<Softmax>(attrs, neg(in[0]))};
}

}  // namespace mezzo::op

namespace mezzo {

namespace {

/** Applies the op along `dim`. An explicit dtype overrides the op's precision tag. */
template <class Op> Tensor along(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options) {
  const op::DimAttrs attrs{wrap_dim(dim, x.dim(), Op::traits.name.data())};
  if (!options.dtype) return apply_with<Op>(attrs, x);
  const CastScope no_casts(nullptr);
  return apply_with<Op>(attrs, x.to(*options.dtype));
}

}  // namespace

Tensor log_softmax(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options) {
  return along<op::LogSoftmax>(x, dim, options);
}
Tensor softmax(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options) {
  return along<op::Softmax>(x, dim, options);
}
Tensor softmin(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options) {
  return along<op::Softmin>(x, dim, options);
}

}  // namespace mezzo
