// The backward rules of the ops in ../../tensor/elementwise/rounding.h, instantiated from their formulas.
#include "elementwise_instances.h"

namespace mezzo {

extern const auto kRoundingRules = all_rules(op::RoundingOps{});

}  // namespace mezzo
