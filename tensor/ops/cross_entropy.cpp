// Shape rules of cross entropy.
#include "cross_entropy.h"

#include <limits>

#include "../core/registry.h"
#include "../text/text.h"
#include "gather.h"

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

OutSpecs CrossEntropyBackward::infer(Inputs in, const Attrs& attrs) {
  return {{in[1].shape(), attrs.result}};
}

std::span<OpInfo* const> cross_entropy_ops() { return infos_of(CrossEntropyOps{}); }

}  // namespace mezzo::op
