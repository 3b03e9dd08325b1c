// The backward rules of the ops in ../../tensor/elementwise/power.h, instantiated from their formulas.
#include "elementwise_instances.h"

namespace mezzo {

extern const auto kPowerRules = all_rules(op::PowerOps{});

}  // namespace mezzo
