// Shape rules of the ops on class indices.
#include "classes.h"

#include "../../core/registry.h"
#include "../../text/text.h"
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
