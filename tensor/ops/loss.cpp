// Checks of the losses.
#include "loss.h"

#include "../core/registry.h"
#include "../text/text.h"

namespace mezzo::op {

void require_plain_reduction(std::string_view op, Reduction reduction) {
  if (reduction == Reduction::batchmean)
    fail<ValueError>(op, {.what = "the reduction is not supported by this loss",
                          .got = "batchmean",
                          .expected = "none, sum or mean"});
}

std::span<OpInfo* const> loss_ops() { return infos_of(LossOps{}); }

}  // namespace mezzo::op
