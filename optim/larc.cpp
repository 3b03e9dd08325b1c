#include "larc.h"

#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

namespace {

constexpr std::string_view kDecay = "weight_decay";

/** Sets weight decay to 0 in all groups, and restores it in the destructor. */
class WithoutDecay {
 public:
  explicit WithoutDecay(Optimizer& optimizer) : optimizer_(optimizer) {
    decays_.reserve(optimizer.num_groups());  // nothing below fails
    for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
      decays_.push_back(exchange(group, 0));
  }
  ~WithoutDecay() {
    for (std::size_t group = 0; group < decays_.size(); ++group) exchange(group, decays_[group]);
  }
  WithoutDecay(const WithoutDecay&) = delete;
  WithoutDecay& operator=(const WithoutDecay&) = delete;

  double of(std::size_t group) const { return decays_[group]; }

 private:
  /** Sets the decay of a group and returns the old one; 0 if its optimizer has no weight decay. */
  double exchange(std::size_t group, double decay) {
    double former = 0;
    optimizer_.change_options(group, [&](std::string_view name, double value) {
      return name == kDecay ? (former = value, decay) : value;
    });
    return former;
  }

  Optimizer& optimizer_;
  std::vector<double> decays_;
};

/** Returns the norms of all parameters (as `total`) and of all gradients (as `each`). */
Norms norms_of(std::span<const ParamUpdate> updates, const Factor& inv_scale) {
  std::vector<Tensor> params, grads;
  for (const ParamUpdate& u : updates) {
    params.push_back(u.slot->target());
    grads.push_back(u.grad);
  }
  return {norms(params).each, norms(grads, {.inv_scale = inv_scale}).each};
}

}  // namespace

LARC::LARC(Optimizer& optimizer, const LarcOptions& options)
    : optimizer_(&optimizer), options_(options) {
  const OptionChecks check("LARC");
  check.not_negative("trust_coefficient", options.trust_coefficient);
  check.not_negative("eps", options.eps);
  optimizer.set_gradient_transform(this);
}

LARC::~LARC() {
  if (optimizer_) optimizer_->set_gradient_transform(nullptr);
}

Optimizer& LARC::optimizer() const {
  if (!optimizer_)
    fail<StateError>("LARC", {.what = "its optimizer was destroyed",
                              .hint = "declare LARC after the optimizer, in the same scope"});
  return *optimizer_;
}

void LARC::around(Optimizer& optimizer, std::span<ParamUpdate> updates, UpdateCall& call,
                  const std::function<void()>& update) {
  const WithoutDecay decays(optimizer);
  const Norms lengths = norms_of(updates, call.inv_scale);
  const double* of_params = lengths.total.data<double>();
  const double* of_grads = lengths.each.data<double>();
  std::vector<UpdateTensors> work;
  std::vector<LarcSettings> settings;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    ParamUpdate& u = updates[i];
    const Tensor& param = u.slot->target();
    const Tensor adapted = empty_tensor(param.shape(), compute_dtype(param.dtype()), param.device(),
                                        false, param.memory_format());
    work.push_back({adapted, u.grad, {}, {param}});
    settings.push_back({.lr = optimizer.lr(u.group),
                        .weight_decay = decays.of(u.group),
                        .trust_coefficient = options_.trust_coefficient,
                        .eps = options_.eps,
                        .clip = options_.clip,
                        .param_norm = of_params + i,
                        .grad_norm = of_grads + i,
                        .time = u.time});
    u.grad = adapted;
  }
  run_update(update_row<LarcUpdate>, work, settings.data(), sizeof settings[0], call);
  call = {.found_inf = call.found_inf};
  update();
}

}  // namespace mezzo::optim
