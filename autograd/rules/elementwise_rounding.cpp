// Instantiates the backward functions of the ops in tensor/elementwise/rounding.h.
#include "elementwise_instances.h"

namespace mezzo {

extern const auto kRoundingRules = all_rules(op::RoundingOps{});

}  // namespace mezzo
