// Shape rules of ctc_loss's inner ops; its operands are checked in ../../autograd/rules/ctc_loss.cpp.
#include "ctc_loss.h"

namespace mezzo::op {

OutSpecs CtcLossEach::infer(Inputs in, const Attrs&) { return {{{in[0].shape()[1]}, in[0].dtype()}}; }

OutSpecs CtcLossBackward::infer(Inputs in, const Attrs&) { return {{in[1].shape(), in[1].dtype()}}; }

}  // namespace mezzo::op
