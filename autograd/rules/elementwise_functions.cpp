// Instantiates the backward functions of the ops in tensor/elementwise/functions.h.
#include "elementwise_instances.h"

namespace mezzo {

extern const auto kFunctionRules = all_rules(op::FunctionOps{});

}  // namespace mezzo
