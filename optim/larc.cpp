#include "larc.h"

#include "optimizer_of_members.h"
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
  std::vector<Tensor> params, grads;
  for (const ParamUpdate& u : updates) {
    params.push_back(u.tensors[kParam]);
    grads.push_back(u.tensors[kGrad]);
  }
  const Tensor param_norms = norms(params).each,
               grad_norms = norms(grads, {.inv_scale = call.inv_scale}).each;
  std::vector<TensorTuple> work;
  std::vector<LarcSettings> settings;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    ParamUpdate& u = updates[i];
    const Tensor adapted = compute_like(params[i]);
    work.push_back({adapted, grads[i], {}, params[i]});
    settings.push_back({options_, decays.of(u.group), param_norms.data<double>() + i,
                        grad_norms.data<double>() + i, u.time});
    u.tensors[kGrad] = adapted;
  }
  const StepEnd* const end = std::exchange(call.end, nullptr);
  run_update(update_row<LarcUpdate>, std::move(work), settings.data(), call);
  call = {.found_inf = call.found_inf, .end = end};
  update();
}

}  // namespace mezzo::optim
