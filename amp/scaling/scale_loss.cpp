#include "scale_loss.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "../../autograd/hooks.h"
#include "../../optim/device_step_state.h"
#include "../../optim/scope_query.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/text/text.h"
#include "../weights/optimizer_masters.h"
#include "amp_optimizer_state.h"
#include "gradient_check.h"
#include "watched_loss.h"

namespace mezzo::amp {

namespace {

constexpr std::string_view kOp = "amp::scale_loss";

using optim::FoundInf;
using Links = std::vector<std::shared_ptr<AmpOptimizerState>>;

Links links_of(const OptimizerList& optimizers) {
  Links links;
  for (optim::Optimizer* optimizer : optimizers) {
    std::shared_ptr<AmpOptimizerState> link = AmpOptimizerState::of(*optimizer);
    if (!link)
      refuse(kOp, str(optimizer->type_name(), " is attached to no session"),
             "pass it to amp::initialize, and keep the session that it returns");
    if (!links.empty() && link->core != links[0]->core)
      refuse(kOp, "the optimizers belong to different sessions");
    if (std::find(links.begin(), links.end(), link) == links.end())
      links.push_back(std::move(link));
  }
  return links;
}

std::shared_ptr<SessionCore> core_of(const Links& links) {
  if (!links.empty()) return links[0]->core;
  auto session = std::dynamic_pointer_cast<SessionCore>(ThreadCasts::here().current_session());
  if (!session)
    refuse(kOp, "there is no session", "call amp::initialize first and keep what it returns");
  return session;
}

/** Returns what reduces the optimizers' gradients over several processes. */
Receivers receivers_of(const Links& links) {
  Receivers receivers;
  for (const auto& link : links)
    if (link->optimizer()) add_receivers(*link->optimizer(), receivers);
  return receivers;
}

/** The sessions that have a scope open which scales or has masters, once for each scope, and the
 *  thread that opened it. */
struct OpenScopes {
  std::mutex mutex;
  std::vector<std::pair<SessionCore*, std::thread::id>> sessions;

  static OpenScopes& all() {
    static OpenScopes scopes;
    return scopes;
  }

  void add(SessionCore& core) {
    const std::lock_guard lock(mutex);
    sessions.emplace_back(&core, std::this_thread::get_id());
    optim::set_scope_query([](const Tensor& leaf) { return all().will_unscale(leaf); });
  }

  void remove(SessionCore& core) {
    const std::lock_guard lock(mutex);
    const auto at = std::find_if(sessions.begin(), sessions.end(),
                                 [&](const auto& open) { return open.first == &core; });
    if (at != sessions.end()) sessions.erase(at);
  }

  /** Returns true if an open scope of this thread will unscale the gradient of a parameter or
   *  master. */
  bool will_unscale(const Tensor& leaf) {
    const std::lock_guard lock(mutex);
    bool found = false;
    for (const auto& [core, thread] : sessions) {
      if (thread != std::this_thread::get_id()) continue;
      for (const AmpOptimizerState* const link : core->optimizers)
        if (link->in_scope && link->optimizer())
          each_slot(*link->optimizer(), [&, &masters = core->masters](const optim::Slot& slot) {
            const Master* const master = masters.find(slot.param);
            found = found || slot.param.is_same(leaf) || (master && master->master.is_same(leaf));
          });
    }
    return found;
  }
};

}  // namespace

// ---- the entry ----------------------------------------------------------------------------------

ScaledLoss::ScaledLoss(const Tensor& loss, const OptimizerList& optimizers,
                       const ScaleLossOptions& options)
    : options_(options), exceptions_(std::uncaught_exceptions()) {
  const TraceRange range(kOp);
  if (!loss.defined() || !is_floating(loss.dtype()))
    fail<DtypeError>(kOp, {.what = "expected a floating-point tensor", .got = str(loss)});
  links_ = links_of(optimizers);
  core_ = core_of(links_);
  if (core_->enabled()) {
    enter(loss);
  } else {
    loss_ = loss;
    links_.clear();
  }
  ++core_->open_scopes;
}

void ScaledLoss::enter(const Tensor& unscaled) {
  if (options_.loss_id < 0 || static_cast<std::size_t>(options_.loss_id) >= core_->scalers.size())
    fail<ValueError>(kOp, {.what = "no such loss",
                           .got = str("loss_id ", options_.loss_id),
                           .expected = str("0..", core_->scalers.size() - 1),
                           .hint = "set num_losses in amp::initialize"});
  scale_ = core_->scalers[static_cast<std::size_t>(options_.loss_id)]->on(unscaled.device());
  for (const auto& link : links_) {
    link->refresh_pending();
    if (link->in_scope)
      refuse(kOp, "nested scale_loss over one optimizer", "close the outer scope first");
    if (link->pending && !link->pending->equals(scale_))
      refuse(kOp, str("gradients are still scaled by another scale: ", link->pending_text()),
             "use one loss_id until a scope without delay_unscale, or call zero_grad()");
  }
  std::vector<AmpOptimizerState*> own;
  for (const auto& link : links_) own.push_back(link.get());
  core_->require_no_other_pending(kOp, own);
  const bool multiplies = scale_.on_device.defined() || scale_.on_host != 1;
  inert_ = !multiplies && !core_->properties.masters() && !core_->checks_gradients() &&
           std::none_of(links_.begin(), links_.end(),
                        [](const auto& link) { return link->pending.has_value(); });
  loss_ = multiplies                 ? scaler().times(unscaled)
          : is_low(unscaled.dtype()) ? unscaled.to(f32)
                                     : unscaled;
  if (multiplies) {
    passes_ = backward_passes();
    reached_ = std::make_shared<std::atomic<int>>(0);
    loss_ = watched(loss_, reached_, kOp);
  }
  if (!links_.empty()) scaler().losses.note(unscaled, links_[0]->steps + 1);
  for (const auto& link : links_) link->clock->join_capture();
  if (!inert_) {
    MasterChanges changes(core_->masters);
    for (const auto& link : links_) bring_masters_up_to_date(*core_, *link->optimizer(), changes);
    changes.commit();
    // Sets the earlier gradients aside; leaves them all if it throws.
    Seen seen;
    for (const auto& link : links_) link->prepare(seen);
    for (const auto& link : links_) link->gradients.enter();
  }
  for (const auto& link : links_) {
    link->in_scope = true;
    link->saw_loss = link->saw_loss || (unscaled.device() == cpu && unscaled.numel() == 1);
    link->lost_loss = link->lost_loss || scaler().losses.is_nonfinite();
  }
  core_->open_loss = options_.loss_id;
  use_ = scaler().use();
  if (multiplies || core_->properties.masters()) OpenScopes::all().add(*core_);
}

namespace {

/** Returns true if a backward pass may have added to a parameter's gradient since a scope over its
 *  optimizer was opened. */
bool any_new_gradient(const Links& links) {
  bool any = false;
  for (const auto& link : links)
    each_slot(*link->optimizer(), [&](const optim::Slot& slot) {
      any = any ||
            (slot.param.grad().defined() && (gradient_scale(slot.param) != GradientScale::delayed ||
                                             written_since_mark(slot.param)));
    });
  return any;
}

}  // namespace

/** Throws if backward() ran, but not from the scaled loss. Errors: StateError. */
void ScaledLoss::require_backward() const {
  if (!reached_ || *reached_ || backward_passes() == passes_ || !any_new_gradient(links_)) return;
  fail<StateError>(
      kOp, {.what = "backward ran, but not from the scaled loss",
            .got = str("gradients that are not multiplied by the loss scale ", scale_.value()),
            .expected = "backward() of the tensor that the body gets, or of "
                        "scope.loss()",
            .hint = "write scaled.backward() instead of loss.backward()"});
}

// ---- the exit -----------------------------------------------------------------------------------

/** Divides the gradients by the scale and adds the earlier ones. */
void ScaledLoss::unscale_gradients(const FoundInf& found) {
  const NoGradNoCasts plain_ops;
  Seen seen;
  std::vector<GradientSum> sums;
  for (const auto& link : links_) link->collect(seen, scale_, sums);
  const bool low = std::any_of(sums.begin(), sums.end(), [](const GradientSum& item) {
    return !(item.a == optim::Factor(1)) && item.fresh && is_low(item.tensors.out.dtype());
  });
  if (low && !core_->properties.masters() && !std::exchange(core_->told_about_low_gradients, true))
    core_->print(
        "scale_loss: unscaling 16-bit gradients in place; small values may be lost, use "
        "master_weights to keep them");
  try {
    unscale(std::move(sums), found);
  } catch (...) {
    found.reset();
    throw;
  }
  for (const auto& link : links_) link->finish();
}

namespace {

/** Raises flags if `found` is raised, and resets that one: in several calls if one cannot raise
 *  all. The last completes a check of `found` if `completes`. */
void raise(LossScaler& scaler, const std::vector<FoundInf>& flags, const FoundInf& found,
           bool completes) {
  std::size_t done = 0;
  do {
    ScaleCall part{.notes = completes};
    for (auto*& raised : part.raised)
      if (done < flags.size()) raised = flags[done++].data();
    part.resets = done == flags.size();
    part.completes = part.any = part.resets && completes;
    scaler.run(part, found);
  } while (done < flags.size());
}

}  // namespace

/** Unscales the gradients, updates the scale and makes the next steps depend on the overflow flag,
 *  which stays where the loss is. If the scope has one optimizer, its own flag is used, and on a
 *  device the check is completed with its step, in one kernel call. With delay_overflow_check, an
 *  overflow is left to the next scope of this loss that checks. */
void ScaledLoss::unscale_and_check() {
  use_.reset();
  const bool delays = options_.delay_overflow_check;
  // A static scale without check_static_overflow never skips, so it needs no check.
  if (!core_->checks_gradients()) {
    unscale_gradients({});
    if (!delays) scaler().update(false);
    return;
  }
  const Device device = loss_.device();
  scaler().move_to(device);
  Links& delayed = scaler().delayed;
  const auto delayed_flag = [&](AmpOptimizerState& link) {
    return move_to(device, link.delayed[scaler().index]);
  };
  std::vector<FoundInf> flags;  // of the optimizers, raised after an overflow
  const bool own = !delays && links_.size() == 1 && delayed.empty() && !links_[0]->raised_by;
  for (const auto& link : links_) {
    flags.push_back(delays ? delayed_flag(*link) : link->flag_on(device));
    if (delays && std::find(delayed.begin(), delayed.end(), link) == delayed.end())
      delayed.push_back(link);
  }
  if (!delays)
    for (const auto& link : delayed) {
      delayed_flag(*link);
      link->flag_on(device);
    }
  const FoundInf found = own ? flags[0] : move_to(device, scaler().scope_found);
  unscale_gradients(found);
  if (delays) return raise(scaler(), flags, found, false);
  for (const auto& link : delayed) agree(receivers_of({link}), scaler(), delayed_flag(*link));
  agree(receivers_of(links_), scaler(), found);
  if (own) {
    scaler().defer(found);
  } else {
    for (const auto& link : delayed)
      raise(scaler(), {link->found, found}, delayed_flag(*link), false);
    raise(scaler(), flags, found, true);
  }
  for (const auto& link : delayed) link->depend_on_flag(scaler());
  for (const auto& link : links_) link->depend_on_flag(scaler());
  delayed.clear();
}

void ScaledLoss::close() {
  if (!core_) refuse(kOp, "the scope is closed already");
  const TraceRange range(kOp);
  std::erase_if(links_, [](const auto& link) { return !link->optimizer(); });  // destroyed
  try {
    require_backward();
    if (!inert_ && options_.delay_unscale) {
      // The gradients stay scaled, for a later scope of this loss and scale.
      if (scale_.on_device.defined()) scale_.on_device = scale_.on_device.clone();
      Seen seen;
      for (const auto& link : links_) link->delay(seen, scale_);
    } else if (!inert_) {
      unscale_and_check();
    }
  } catch (...) {
    abandon();  // as if the body had thrown
    throw;
  }
  for (const auto& link : links_) link->unscaled = link->scoped = true;
  leave();
}

void ScaledLoss::abandon() {
  if (!core_) return;
  std::erase_if(links_, [](const auto& link) { return !link->optimizer(); });
  if (!inert_) {
    // Those that delay_unscale left scaled, to which this scope has added, stay.
    Seen seen;
    for (const auto& link : links_) link->gradients.roll_back(*link->optimizer(), seen);
  }
  leave();
}

void ScaledLoss::leave() {
  for (const auto& link : links_) link->in_scope = false;
  if (reached_ || core_->properties.masters()) OpenScopes::all().remove(*core_);
  use_.reset();
  --core_->open_scopes;
  core_->cache.end_round();
  core_ = nullptr;
  loss_ = {};
  reached_ = nullptr;  // a backward pass from the loss is refused from here on
}

ScaledLoss::ScaledLoss(ScaledLoss&& other) noexcept = default;

ScaledLoss::~ScaledLoss() {
  if (!core_) return;
  try {
    if (std::uncaught_exceptions() > exceptions_)
      abandon();
    else
      close();
  } catch (...) {
    for (const auto& link : links_) link->stored_error = std::current_exception();
  }
}

const Tensor& ScaledLoss::loss() const {
  if (!core_) refuse(kOp, "the scope is closed");
  return loss_;
}

// ---- iterations ---------------------------------------------------------------------------------

void SessionCore::require_no_scope(std::string_view op) const {
  if (open_scopes > 0)
    refuse(op, "a scale_loss scope is open",
           "close the scope, or leave its block, and call step() first");
}

void SessionCore::require_no_other_pending(std::string_view op,
                                           std::span<AmpOptimizerState* const> own) const {
  for (AmpOptimizerState* const other : optimizers) {
    if (std::find(own.begin(), own.end(), other) != own.end()) continue;
    other->refresh_pending();
    if (!other->pending && !other->in_scope) continue;
    Seen scaled;
    each_slot(*other->optimizer(), [&](const optim::Slot& slot) {
      if (other->in_scope || gradient_scale(slot.param) == GradientScale::delayed)
        scaled.insert(slot.param.impl());
    });
    const auto refuse_shared = [&](const optim::Slot& slot) {
      if (scaled.count(slot.param.impl()) == 0) return;
      refuse(op,
             str("the gradient of ", slot.param, " is still scaled: ",
                 other->in_scope ? "a scale_loss scope is open over"
                                 : "a scale_loss with delay_unscale left it so for",
                 " another optimizer, ", other->optimizer()->type_name(), " (", other->name, ")"),
             "pass both optimizers to the scopes, or finish that optimizer's first");
    };
    for (AmpOptimizerState* const one : own) each_slot(*one->optimizer(), refuse_shared);
  }
}

void SessionCore::gradients_removed(std::span<const Tensor> params) const {
  for (const Tensor& param : params) {
    stash.erase(param.impl());
    if (const Master* const master = masters.find(param)) master->master.set_grad({});
  }
  for (AmpOptimizerState* const link : optimizers) {
    bool any = false;
    each_slot(*link->optimizer(),
              [&](const optim::Slot& slot) { any = any || slot.param.grad().defined(); });
    link->scoped = link->scoped && any;
  }
}

void SessionCore::require_between_iterations(std::string_view op) const {
  require_no_scope(op);
  for (AmpOptimizerState* const link : optimizers) link->require_stepped(op);
  for (const auto& scaler : scalers)
    for (const auto& link : scaler->delayed)
      if (link->delayed[scaler->index].raised())
        refuse(op, "an overflow is pending from a scope with delay_overflow_check",
               "run a scope without it and call step() first");
}

void SessionCore::forget_iteration() {
  for (const auto& scaler : scalers) {
    (void)scaler->state();  // completes its check
    scaler->delayed.clear();
  }
  for (AmpOptimizerState* link : optimizers) link->forget_iteration();
}

}  // namespace mezzo::amp
