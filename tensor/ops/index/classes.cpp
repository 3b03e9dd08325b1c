// Shape rules of the ops on class indices.
#include "classes.h"

#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/error.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../reduce/arg_reduce.h"
#include "gather.h"

namespace mezzo::op {

OutSpecs ClassWeights::infer(Inputs in, const Attrs& attrs) {
  return {{in[0].shape(), DType::i64}, {in[0].shape(), attrs.dtype}};
}

OutSpecs NamedClasses::infer(Inputs in, const Attrs&) { return {{in[0].shape(), DType::boolean}}; }

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

std::span<OpInfo* const> classes_ops() { return infos_of(ClassesOps{}); }

}  // namespace mezzo::op

namespace mezzo {

namespace {

std::int64_t needed_classes(const Tensor& x) {
  op::require_index_dtype("one_hot", x);
  if (x.numel() == 0)
    fail<ValueError>("one_hot", {.what = "cannot count the classes of an empty tensor",
                                 .got = str(x),
                                 .expected = "the number of classes"});
  const ApiScope called("one_hot");
  const NoGradNoCasts plain_ops;
  return checked_size(WideSize{std::max<std::int64_t>(0, max(x).item<std::int64_t>())} + 1,
                      "one_hot");
}

}  // namespace

Tensor one_hot(const Tensor& x, std::int64_t classes) {
  return apply_with<op::OneHot>({classes == -1 ? needed_classes(x) : classes}, x);
}

}  // namespace mezzo
