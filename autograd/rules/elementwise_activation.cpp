// Instantiates the backward functions of the ops in tensor/elementwise/activation.h.
#include "elementwise_instances.h"

namespace mezzo {

extern const auto kActivationRules = all_rules(op::ActivationOps{});

}  // namespace mezzo
