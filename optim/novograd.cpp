#include "novograd.h"

#include <algorithm>
#include <limits>

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

void FusedNovoGradRule::check(const Options& o) {
  const OptionChecks check(type_name);
  check.adaptive(o);
  check.require(o.norm_type == 2 || o.norm_type == 0, "norm_type", o.norm_type,
                "2 (L2) or 0 (the largest magnitude)");
}

void FusedNovoGradRule::run(std::vector<TensorTuple> tensors, std::span<NovoGradSettings> settings,
                            const UpdateCall& call) {
  constexpr std::size_t kNorm = kState + 1;  // the running norm
  const std::vector<Tensor> grads = list_of(tensors, kGrad);
  const auto norms_of = [&](int norm_type, double p) {
    const bool any = std::any_of(settings.begin(), settings.end(), [&](const NovoGradSettings& s) {
      return s.norm_type == norm_type;
    });
    return any ? norms(grads, {.p = p, .inv_scale = call.inv_scale}) : Norms{};
  };
  const Norms squares = norms_of(2, 2),
              largest = norms_of(0, std::numeric_limits<double>::infinity());

  std::vector<TensorTuple> running;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Norms& norms = settings[i].norm_type == 0 ? largest : squares;
    Tensor& v = tensors[i][kNorm];
    running.push_back({v, norms.each.select(0, static_cast<std::int64_t>(i))});
    settings[i].norm = v.raw_data();
    v = {};  // NovoGradUpdate reads it through its settings
  }
  // Allocates everything first: after the norms have changed, nothing may fail.
  const auto update_norms = prepared_update(update_row<NovoGradNormUpdate>, std::move(running),
                                            settings.data(), {.found_inf = call.found_inf}),
             step = prepared_update(update_row<NovoGradUpdate>, std::move(tensors), settings.data(),
                                    call);
  update_norms();
  step();
}

template class OptimizerOf<FusedNovoGradRule>;

}  // namespace mezzo::optim
