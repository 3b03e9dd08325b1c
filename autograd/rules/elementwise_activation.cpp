// The backward rules of the ops in ../../tensor/elementwise/activation.h, instantiated from their formulas.
#include "elementwise_instances.h"

namespace mezzo {

extern const auto kActivationRules = all_rules(op::ActivationOps{});

}  // namespace mezzo
