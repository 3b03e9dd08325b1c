// The backward rules of the ops in ../../tensor/elementwise/arithmetic.h, instantiated from their formulas.
#include "elementwise_instances.h"

namespace mezzo {

extern const auto kArithmeticRules = all_rules(op::ArithmeticOps{});

}  // namespace mezzo
