// Instantiates the backward functions of the ops in tensor/elementwise/loss_terms.h.
#include "../../tensor/elementwise/loss_terms.h"
#include "../ops/activation.h"
#include "elementwise_instances.h"

namespace mezzo {

extern const auto kLossTermRules = all_rules(op::LossTermOps{});

}  // namespace mezzo
