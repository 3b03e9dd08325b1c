// Shape rules of the internal ops of ctc_loss.
// See also: autograd/rules/ctc_loss.cpp (checks of the operands).
#include "ctc_loss.h"

#include "../core/registry.h"

namespace mezzo::op {

OutSpecs CtcLossEach::infer(Inputs in, const Attrs&) {
  return {{{in[0].shape()[1]}, in[0].dtype()}};
}

OutSpecs CtcLossBackward::infer(Inputs in, const Attrs&) {
  return {{in[1].shape(), in[1].dtype()}};
}

std::span<OpInfo* const> ctc_loss_ops() { return infos_of(CtcLossOps{}); }

}  // namespace mezzo::op
