// Instantiates the backward functions of the ops in tensor/elementwise/selection.h.
#include "elementwise_instances.h"

namespace mezzo {

extern const auto kSelectionRules = all_rules(op::SelectionOps{});

}  // namespace mezzo
