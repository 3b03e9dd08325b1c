#include "adam.h"

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

template <AdamKind kKind> void AdamRuleOf<kKind>::check(const Options& options) {
  OptionChecks(type_name).adaptive(options);
}

template class OptimizerOf<AdamRuleOf<AdamKind::adam>>;
template class OptimizerOf<AdamRuleOf<AdamKind::adam_w>>;
template class OptimizerOf<AdamRuleOf<AdamKind::fused>>;

}  // namespace mezzo::optim
