// Shape rules and checks of the losses.
#include "loss.h"

#include "../text/text.h"
#include "margin_loss.h"

namespace mezzo::op {

void require_plain_reduction(std::string_view op, Reduction reduction) {
  if (reduction == Reduction::batchmean)
    fail<ValueError>(op, {.what = "the reduction is not supported by this loss",
                          .got = "batchmean",
                          .expected = "none, sum or mean"});
}

OutSpecs ClassWeights::infer(Inputs in, const Attrs& attrs) {
  return {{in[0].shape(), DType::i64}, {in[0].shape(), attrs.dtype}};
}

OutSpecs NamedClasses::infer(Inputs in, const Attrs&) { return {{in[0].shape(), DType::boolean}}; }

}  // namespace mezzo::op
