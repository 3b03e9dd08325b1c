// The backward rules of the ops in ../../tensor/elementwise/selection.h, instantiated from their formulas.
#include "elementwise_instances.h"

namespace mezzo {

extern const auto kSelectionRules = all_rules(op::SelectionOps{});

}  // namespace mezzo
