// The backward rules of the ops in ../../tensor/elementwise/functions.h, instantiated from their formulas.
#include "elementwise_instances.h"

namespace mezzo {

extern const auto kFunctionRules = all_rules(op::FunctionOps{});

}  // namespace mezzo
