// Shape rules and gradients of the ops in cross_entropy.h.
#include "cross_entropy.h"

#include <limits>

#include "../../core/dispatch.h"
#include "../../core/elementwise_info.h"
#include "../../core/late_result.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/loss_terms.h"
#include "../elementwise/operators.h"
#include "../index/gather.h"
#include "../norm/softmax.h"
#include "../reduce/reduce.h"
#include "../wide.h"
#include "loss.h"

namespace mezzo::op {

void require_class_weight(std::string_view op, const Tensor& x, const Tensor& weight) {
  if (!weight.defined()) return;
  const std::int64_t classes = x.shape()[class_dim(x.shape())];
  if (weight.dim() != 1 || weight.shape()[0] != classes)
    fail<ShapeError>(op, {.what = "the weight must hold one number per class",
                          .got = str(weight, " for scores ", x),
                          .expected = str("weight [", classes, "]")});
  if (weight.dtype() != x.dtype())
    fail<DtypeError>(op, {.what = "scores and weight differ in dtype",
                          .got = str(x, " and ", weight),
                          .expected = "one floating dtype",
                          .hint = str("use weight.to(", x.dtype(), ")")});
}

void require_classes(std::string_view op, const Tensor& x, const Tensor& target,
                     const Tensor& weight) {
  if (!is_floating(x.dtype()))
    fail<DtypeError>(op, {.what = "not defined for integers",
                          .got = str(x),
                          .expected = "a floating dtype for the scores"});
  require_index_dtype(op, target);
  if (x.dim() == 0)
    fail<ShapeError>(op, {.what = "the scores have no class dimension",
                          .got = str(x),
                          .expected = "(C), (N,C) or (N,C,d..)"});
  Shape expected = x.shape();
  expected.erase(class_dim(x.shape()));
  if (!(target.shape() == expected))
    fail<ShapeError>(op, {.what = "the target does not fit the scores",
                          .got = str(x, " and target ", target),
                          .expected = str("target ", expected, ", one class per sample")});
  require_class_weight(op, x, weight);
}

void fail_class(std::string_view op, const Shape& targets, std::int64_t at, std::int64_t value,
                std::int64_t classes, std::int64_t ignore_index) {
  Shape place = targets;
  for (int i = place.rank() - 1; i >= 0; --i) {
    place[i] = at % targets[i];
    at /= targets[i];
  }
  const std::string range = classes == 0 ? std::string("no class") : str("0..", classes - 1);
  const bool ignores = ignore_index != std::numeric_limits<std::int64_t>::min();
  fail<IndexError>(op,
                   {.what = "class out of range",
                    .got = str(value, " at target", place),
                    .expected = ignores ? str(range, ", or ignore_index ", ignore_index) : range});
}

OutSpecs CrossEntropyIndices::infer(Inputs in, const Attrs& attrs) {
  require_classes("cross_entropy", in[0], in[1], in[2]);
  const DType compute = compute_dtype(in[0].dtype());
  const Shape loss = attrs.reduction == Reduction::none ? in[1].shape() : Shape{};
  return {{loss, in[0].dtype()}, {{in[1].numel(), 2}, compute}, {Shape{}, compute}};
}

OutSpecs LateCrossEntropy::infer(Inputs in, const Attrs& attrs) {
  const Tensor operands[] = {in[0], in[1], {}};
  return {CrossEntropyIndices::infer(operands, attrs).items[0]};
}

CrossEntropyResults::CrossEntropyResults(Inputs in, const CrossEntropyAttrs& attrs,
                                         const Tensor& loss) {
  const OutSpecs specs = CrossEntropyIndices::infer(in, attrs);
  for (std::size_t i = 0; i < of.size(); ++i)
    of[i] = i == 0 && loss.defined()
                ? loss
                : empty_tensor(specs.items[i].shape, specs.items[i].dtype, in[0].device());
}

OutSpecs CrossEntropyBackward::infer(Inputs in, const Attrs& attrs) {
  return {{in[1].shape(), attrs.result}};
}

std::span<OpInfo* const> cross_entropy_ops() { return infos_of(CrossEntropyOps{}); }

// Cross entropy: the composite for class probabilities, and the gradient for class indices.

namespace {

constexpr std::int64_t kDefaultIgnoreIndex = CrossEntropyAttrs{}.ignore_index;

void require_smoothing(double e) {
  const bool fits = e >= 0 && e <= 1;
  if (!fits)
    fail<ValueError>("cross_entropy",
                     {.what = "label_smoothing out of range", .got = str(e), .expected = "0..1"});
}

void require_probabilities(const Tensor& x, const Tensor& target, const CrossEntropyAttrs& attrs) {
  if (!is_floating(x.dtype()) || target.dtype() != x.dtype())
    fail<DtypeError>("cross_entropy", {.what = "scores and class probabilities differ in dtype",
                                       .got = str(x, " and ", target),
                                       .expected = "one floating dtype",
                                       .hint = "class indices are i64 or i32"});
  if (x.dim() == 0 || !(target.shape() == x.shape()))
    fail<ShapeError>("cross_entropy", {.what = "class probabilities do not fit the scores",
                                       .got = str(x, " and target ", target),
                                       .expected = "one shape, (C), (N,C) or (N,C,d..)",
                                       .hint = "class indices are i64 or i32"});
  if (attrs.ignore_index != kDefaultIgnoreIndex)
    fail<ValueError>("cross_entropy", {.what = "ignore_index applies to class indices only",
                                       .got = str("class probabilities ", target)});
}

/** Returns one number per class in a shape that broadcasts against x. */
Tensor along_classes(const Tensor& values, const Shape& x) {
  Shape line = Shape::filled(x.rank(), 1);
  line[class_dim(x)] = x[class_dim(x)];
  return values.reshape(line);
}

Tensor with_probabilities(const Tensor& x, const Tensor& target, const Tensor& weight,
                          const CrossEntropyAttrs& attrs) {
  require_probabilities(x, target, attrs);
  require_class_weight("cross_entropy", x, weight);
  const int dim = class_dim(x.shape());
  const double e = attrs.label_smoothing;
  Tensor q = wide(target);
  if (e > 0) q = q * (1 - e) + e / static_cast<double>(x.shape()[dim]);
  Tensor terms = apply<WeightedTerm>(log_softmax(wide(x), dim), q);
  if (weight.defined())
    terms = apply<WeightedTerm>(terms, along_classes(wide(weight.detach()), x.shape()));
  Tensor loss = -sum(terms, dim);
  if (attrs.reduction == Reduction::sum) loss = sum(loss);
  if (attrs.reduction == Reduction::mean) loss = mean(loss);
  return loss.to(x.dtype());
}

/** Returns the weights q of class indices: the loss of a sample is -sum(q * log_softmax(x)).
 *  `counted` is true for samples that are not ignored. */
Tensor target_weights(const Tensor& target, const Tensor& counted, const Tensor& weight,
                      const Tensor& x, const CrossEntropyAttrs& attrs) {
  const Shape& shape = x.shape();
  const auto classes = static_cast<double>(shape[class_dim(shape)]);
  const TensorOptions options{.dtype = x.dtype(), .device = x.device()};
  const Tensor w = along_classes(
      weight.defined() ? wide(weight.detach()) : ones({shape[class_dim(shape)]}, options), shape);
  const Tensor numbers =
      along_classes(arange(classes, {.dtype = DType::i64, .device = x.device()}), shape);
  const Tensor chosen = where(target == numbers, w * (1 - attrs.label_smoothing), operand(0));
  return where(counted, chosen + w * (attrs.label_smoothing / classes), operand(0));
}

/** Returns true if the loss of class indices may be late: on a device, where one launch computes
 *  loss and gradient of few numbers. */
bool may_be_late(Inputs in, const CrossEntropyAttrs& attrs) {
  constexpr std::int64_t kTargets = 2048, kScores = 1 << 16;  // which each gradient reads twice
  const Tensor &x = in[0], &target = in[1];
  return grad_enabled() && x.requires_grad() && attrs.reduction != Reduction::none &&
         !in[2].defined() && target.defined() && !(x.device() == cpu) &&
         target.device() == x.device() && target.numel() > 0 && target.numel() <= kTargets &&
         x.numel() <= kScores && can_be_late(x) && can_be_late(target);
}

Tensor late_loss(const Tensor& x, const Tensor& target, const CrossEntropyAttrs& attrs) {
  const std::uint64_t name = new_late_name();
  return late_result(
      op_info<LateCrossEntropy>, {x, target},
      std::make_shared<LateCrossEntropy::Attrs>(LateCrossEntropy::Attrs{attrs, name}),
      {.op = "cross_entropy",
       .read = "a loss is first read",
       .modified = "scores or targets were modified in place, and their loss is read afterwards",
       .hint = "read the loss first, or use the out-of-place form"},
      {.kept = 2, .name = name});
}

/** Returns the gradient of x in public ops. */
Tensor by_formula(const Tensor& gy, const Tensor& scores, const Tensor& targets,
                  const Tensor& weight, const Tensor& divisor, const CrossEntropyAttrs& attrs) {
  const int dim = class_dim(scores.shape());
  const Tensor x = wide(scores), target = targets.unsqueeze(dim);
  const Tensor counted = target != attrs.ignore_index;
  const Tensor q = target_weights(target, counted, weight, x, attrs);
  Tensor g = wide(gy) / divisor;
  if (attrs.reduction == Reduction::none) g = g.unsqueeze(dim);
  const Tensor gx = g * (softmax(x, dim) * sum(q, dim, {.keepdim = true}) - q);
  return where(counted, gx, operand(0));
}

}  // namespace

std::vector<Tensor> CrossEntropy::composite(Inputs in, const Attrs& attrs) {
  require_plain_reduction(traits.name, attrs.reduction);
  require_smoothing(attrs.label_smoothing);
  const bool probabilities = in[1].defined() && is_floating(in[1].dtype());
  if (probabilities) return {with_probabilities(in[0], in[1], in[2], attrs)};
  if (may_be_late(in, attrs)) return {late_loss(in[0], in[1], attrs)};
  return {apply_with<CrossEntropyIndices>(attrs, in[0], in[1], in[2])};
}

Grads CrossEntropyIndices::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<CrossEntropyIndices>();
  const Tensor divisor = saved.outputs[2].detach();
  if (grad_enabled())
    return {by_formula(gy[0], saved.inputs[0], saved.inputs[1], saved.inputs[2], divisor, attrs)};
  return {apply_with<CrossEntropyBackward>({attrs, saved.gradient_dtype(0)}, gy[0], saved.inputs[0],
                                           saved.inputs[1], saved.inputs[2], saved.outputs[1],
                                           divisor, Tensor{})};
}

Grads LateCrossEntropy::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<LateCrossEntropy>();
  const Tensor &x = saved.inputs[0], &target = saved.inputs[1], absent;
  if (grad_enabled()) {
    const DType compute = compute_dtype(x.dtype());
    const Tensor divisor = attrs.reduction == Reduction::mean
                               ? sum((target != attrs.ignore_index).to(compute))
                               : ones({}, {.dtype = compute, .device = x.device()});
    return {by_formula(gy[0], x, target, absent, divisor, attrs)};
  }
  Tensor gx;
  const auto compute = [&](const Tensor& loss) {
    gx = apply_with<CrossEntropyBackward>({attrs, saved.gradient_dtype(0)}, gy[0], x, target,
                                          absent, absent, absent, loss);
  };
  if (!write_late_result(attrs.late, compute)) compute(absent);
  return {gx};
}

}  // namespace mezzo::op

namespace mezzo {

Tensor cross_entropy(const Tensor& x, const Tensor& target, const CrossEntropyOptions& options) {
  return apply_with<op::CrossEntropy>(
      {options.ignore_index, options.label_smoothing, options.reduction}, x, target,
      options.weight);
}

}  // namespace mezzo
