// Instantiates the backward functions of the ops in tensor/elementwise/arithmetic.h.
#include "elementwise_instances.h"

namespace mezzo {

extern const auto kArithmeticRules = all_rules(op::ArithmeticOps{});

}  // namespace mezzo
