// Instantiates the backward functions of the ops in tensor/elementwise/power.h.
#include "elementwise_instances.h"

namespace mezzo {

extern const auto kPowerRules = all_rules(op::PowerOps{});

}  // namespace mezzo
