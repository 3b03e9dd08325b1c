#include "adamax.h"

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

void AdamaxRule::check(const Options& o) { OptionChecks(type_name).adaptive(o); }

template class OptimizerOf<AdamaxRule>;

}  // namespace mezzo::optim
