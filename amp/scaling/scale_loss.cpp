#include "scale_loss.h"

#include <algorithm>
#include <exception>

#include "../../autograd/grad_mode.h"
#include "../../optim/device_step_state.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"
#include "../optimizer_masters.h"
#include "amp_optimizer_state.h"
#include "gradient_check.h"
#include "scale_call.h"

namespace mezzo::amp {

namespace {

constexpr std::string_view kOp = "amp::scale_loss";

[[noreturn]] void refuse(const std::string& what, const std::string& hint = {}) {
  fail<StateError>(kOp, {.what = what, .hint = hint});
}

using Links = std::vector<std::shared_ptr<AmpOptimizerState>>;

Links links_of(const OptimizerList& optimizers) {
  Links links;
  for (optim::Optimizer* optimizer : optimizers) {
    std::shared_ptr<AmpOptimizerState> link = AmpOptimizerState::of(*optimizer);
    if (!link)
      refuse(str(optimizer->type_name(), " is attached to no session"),
             "pass it to amp::initialize, and keep the session that it returns");
    if (!links.empty() && link->core() != links[0]->core())
      refuse("the optimizers belong to different sessions");
    if (std::find(links.begin(), links.end(), link) == links.end())
      links.push_back(std::move(link));
  }
  return links;
}

std::shared_ptr<SessionCore> core_of(const Links& links) {
  if (!links.empty()) return links[0]->core();
  auto session = std::dynamic_pointer_cast<SessionCore>(ThreadCasts::here().current_session());
  if (!session)
    refuse("there is no session", "call amp::initialize first and keep what it returns");
  return session;
}

/** Returns what reduces the optimizers' gradients over several processes. */
Receivers receivers_of(const Links& links) {
  Receivers receivers;
  for (const auto& link : links)
    if (link->optimizer()) add_receivers(*link->optimizer(), receivers);
  return receivers;
}

}  // namespace

struct ScaledLoss::Scope {
  std::shared_ptr<SessionCore> core;
  Links links;
  ScaleLossOptions options;
  ScaleValue scale = {};  // as it was when the scope was opened
  Tensor loss = {};
  bool inert = false;       // nothing to unscale and nothing to check
  bool uses_scale = false;  // checks must not change the scale in place
  int exceptions = std::uncaught_exceptions();

  std::size_t loss_id() const { return static_cast<std::size_t>(options.loss_id); }
  LossScaler& scaler() const { return core->scalers[loss_id()]; }

  void enter(const Tensor& unscaled);
  void exit();
  void exit_by_exception();

 private:
  void check() const;
  bool needs_no_scaling() const;
  /** Returns the parameters whose gradients an earlier scope has left scaled. */
  Seen params_left_scaled() const {
    Seen seen;
    for (const auto& link : links)
      if (link->pending) ScopeGradients::mark_seen(*link->optimizer(), seen);
    return seen;
  }
  void set_gradients_aside();
  void unscale_gradients(const optim::FoundInf& found);
  void unscale_and_check();
  std::vector<ScopeOverflow*> delayed_overflows() const;
  ScopeOverflow& own_overflow() const;
  void raise_flags(ScopeOverflow& overflow, bool is_delayed);
  void leave();
  /** Allows checks to change the scale in place: no gradient depends on it any more. */
  void stop_using_scale() {
    if (std::exchange(uses_scale, false)) scaler().close_scope();
  }
};

// ---- the entry ----------------------------------------------------------------------------------

void ScaledLoss::Scope::check() const {
  for (const auto& link : links) {
    if (link->in_scope)
      refuse("nested scale_loss over one optimizer", "close the outer scope first");
    if (!link->fits(options.loss_id, scale))
      refuse(str("gradients are still scaled by another scale: ", link->pending_text()),
             "use one loss_id until a scope without delay_unscale, or call zero_grad()");
  }
}

/** Returns true if the scope has nothing to do: no masters, a static scale of 1 and no overflow
 *  checks. */
bool ScaledLoss::Scope::needs_no_scaling() const {
  const bool any_pending = std::any_of(links.begin(), links.end(),
                                       [](const auto& link) { return link->pending.has_value(); });
  return !core->properties.masters() && !core->checks_gradients() && scale.on_host == 1 &&
         !any_pending;
}

void ScaledLoss::Scope::enter(const Tensor& unscaled) {
  if (options.loss_id < 0 || loss_id() >= core->scalers.size())
    fail<ValueError>(kOp, {.what = "no such loss",
                           .got = str("loss_id ", options.loss_id),
                           .expected = str("0..", core->scalers.size() - 1),
                           .hint = "set num_losses in amp::initialize"});
  scale = scaler().on(unscaled.device());
  check();
  inert = needs_no_scaling();
  const bool multiplies = scale.on_device.defined() || scale.on_host != 1;
  loss = multiplies                 ? scaler().times(unscaled)
         : is_low(unscaled.dtype()) ? unscaled.to(f32)
                                    : unscaled;
  for (const auto& link : links) link->optimizer()->clock().join_capture();
  if (!inert) {
    MasterChanges changes(core->masters);
    for (const auto& link : links) bring_masters_up_to_date(*core, *link->optimizer(), changes);
    changes.commit();
    set_gradients_aside();
  }
  for (const auto& link : links) link->in_scope = true;
  core->open_loss = options.loss_id;
  ++core->open_scopes;
  scaler().open_scope();
  uses_scale = true;
}

/** Removes the earlier gradients of all optimizers and stashes them. Changes nothing if it
 *  throws. */
void ScaledLoss::Scope::set_gradients_aside() {
  Seen seen = params_left_scaled();
  try {
    for (const auto& link : links)
      if (!link->pending) link->prepare(seen);
  } catch (...) {
    for (const auto& link : links)
      if (!link->pending) link->gradients.forget();
    throw;
  }
  for (const auto& link : links) link->gradients.enter();
}

// ---- the exit -----------------------------------------------------------------------------------

/** Divides the gradients by the scale and adds the earlier ones. */
void ScaledLoss::Scope::unscale_gradients(const optim::FoundInf& found) {
  const NoGradNoCasts plain_ops;
  Seen seen;
  std::vector<GradientSum> sums;
  for (const auto& link : links) link->collect(seen, scale, sums);
  const bool low = std::any_of(sums.begin(), sums.end(), [](const GradientSum& item) {
    return !(item.a == optim::Factor(1)) && item.fresh && is_low(item.tensors.out.dtype());
  });
  if (low && !core->properties.masters() && !std::exchange(core->told_about_low_gradients, true))
    core->print(
        "scale_loss: unscaling 16-bit gradients in place; small values may be lost, use "
        "master_weights to keep them");
  try {
    unscale(std::move(sums), found);
  } catch (...) {
    found.reset();
    throw;
  }
  for (const auto& link : links) link->finish();
}

/** Returns the scopes of this loss that have delayed their check, with their flags on the device of
 *  the loss. */
std::vector<ScopeOverflow*> ScaledLoss::Scope::delayed_overflows() const {
  std::vector<ScopeOverflow*> delayed;
  for (ScopeOverflow& entry : core->overflows[loss_id()]) {
    if (entry.optimizers.empty()) continue;
    entry.flag = moved_to(loss.device(), entry.flag);
    for (const auto& link : entry.optimizers) (void)link->skip_flag(loss.device());
    delayed.push_back(&entry);
  }
  return delayed;
}

/** Returns the first entry that is not in use, with its flag on the device of the loss. */
ScopeOverflow& ScaledLoss::Scope::own_overflow() const {
  std::list<ScopeOverflow>& all = core->overflows[loss_id()];
  auto entry = std::find_if(all.begin(), all.end(),
                            [](const ScopeOverflow& one) { return one.optimizers.empty(); });
  if (entry == all.end()) entry = all.insert(entry, ScopeOverflow{});
  entry->flag = moved_to(loss.device(), entry->flag);
  entry->optimizers.reserve(links.size());
  return *entry;
}

/** Unscales the gradients, updates the scale and makes the next steps depend on the overflow flag,
 *  which stays where the loss is. If the scope has one optimizer, its own flag is used, and on a
 *  device the check is completed with its step, in one kernel call. */
void ScaledLoss::Scope::unscale_and_check() {
  for (const auto& link : links)
    each_slot(*link->optimizer(), [](const optim::Slot& slot) {
      require_reduced(slot.param, kOp,
                      "pass delay_unscale, or leave no_sync before the last scope");
    });
  stop_using_scale();
  scaler().make_room();  // nothing may fail once the gradients are unscaled
  // A static scale without check_static_overflow never skips, so it needs no check.
  if (!core->checks_gradients()) {
    unscale_gradients({});
    if (!options.delay_overflow_check) scaler().update(false);
    return;
  }
  const Device device = loss.device();
  (void)scaler().call(device);
  const bool delays = options.delay_overflow_check;
  const std::vector<ScopeOverflow*> delayed =
      delays ? std::vector<ScopeOverflow*>{} : delayed_overflows();
  for (const auto& link : links) (void)link->skip_flag(device);
  if (links.size() == 1 && !delays && delayed.empty() && !links[0]->depends_on_flag()) {
    const optim::FoundInf found = links[0]->skip_flag(device);
    unscale_gradients(found);
    agree(receivers_of(links), scaler(), found);
    links[0]->depend_on_flag(options.loss_id);
    return scaler().defer(found);
  }
  ScopeOverflow& own = own_overflow();
  unscale_gradients(own.flag);
  for (const ScopeOverflow* former : delayed)
    agree(receivers_of(former->optimizers), scaler(), former->flag);
  if (!delays) agree(receivers_of(links), scaler(), own.flag);
  own.optimizers.assign(links.begin(), links.end());
  if (delays) return;
  for (ScopeOverflow* former : delayed) raise_flags(*former, true);
  raise_flags(own, false);
}

/** Adds a flag to the check of this loss, resets it, and makes its optimizers' next steps depend on
 *  it; those of a delayed scope only on their own flag. Completes the check unless `is_delayed`. */
void ScaledLoss::Scope::raise_flags(ScopeOverflow& overflow, bool is_delayed) {
  const Device device = loss.device();
  for (const auto& link : overflow.optimizers) link->complete_check();
  auto link = overflow.optimizers.begin();
  const auto end = overflow.optimizers.end();
  do {
    ScaleCall call = scaler().call(device);
    call.noted = pointers_of(overflow.flag);
    call.raises_for_noted = is_delayed;
    for (float*& flag : call.raised)
      if (link != end) flag = (*link++)->skip_flag(device).flag.data<float>();
    if (link == end) call.reset = call.noted;
    call.completes = call.any = link == end && !is_delayed;
    scaler().run(call);
  } while (link != end);
  for (const auto& one : overflow.optimizers) one->depend_on_flag(options.loss_id);
  overflow.optimizers.clear();
}

/** Closes the scope. Errors: as unscaling; the scope's gradients are dropped then, as if the body
 *  had thrown. */
void ScaledLoss::Scope::exit() {
  const TraceRange range(kOp);
  std::erase_if(links, [](const auto& link) { return !link->optimizer(); });  // destroyed
  try {
    if (!inert && options.delay_unscale) {
      // The gradients stay scaled, for a later scope of this loss and scale.
      if (scale.on_device.defined()) scale.on_device = scale.on_device.clone();
      for (const auto& link : links) {
        link->pending = scale;
        link->pending_loss = options.loss_id;
      }
    } else if (!inert) {
      unscale_and_check();
    }
  } catch (...) {
    exit_by_exception();
    throw;
  }
  for (const auto& link : links) link->unstepped = true;
  leave();
}

void ScaledLoss::Scope::exit_by_exception() {
  std::erase_if(links, [](const auto& link) { return !link->optimizer(); });
  if (!inert) {
    // With delay_unscale, new and earlier gradients are accumulated in one tensor. They stay, and
    // stay marked as scaled.
    Seen seen = params_left_scaled();
    for (const auto& link : links)
      if (link->pending)
        link->gradients.forget_results();
      else
        link->gradients.roll_back(*link->optimizer(), seen);
  }
  leave();
}

void ScaledLoss::Scope::leave() {
  for (const auto& link : links) link->in_scope = false;
  --core->open_scopes;
  stop_using_scale();
  core->cache.clear();
  loss = {};
}

// ---- ScaledLoss ---------------------------------------------------------------------------------

ScaledLoss::ScaledLoss(const Tensor& loss, const OptimizerList& optimizers,
                       const ScaleLossOptions& options)
    : scope_(new Scope) {
  const TraceRange range(kOp);
  if (!loss.defined() || !is_floating(loss.dtype()))
    fail<DtypeError>(kOp, {.what = "expected a floating-point tensor", .got = str(loss)});
  scope_->links = links_of(optimizers);
  scope_->core = core_of(scope_->links);
  scope_->options = options;
  if (scope_->core->enabled()) {
    scope_->enter(loss);
    return;
  }
  scope_->inert = true;
  scope_->loss = loss;
  scope_->links.clear();
  ++scope_->core->open_scopes;
}

ScaledLoss::ScaledLoss(ScaledLoss&& other) noexcept = default;

ScaledLoss::~ScaledLoss() {
  if (!scope_) return;
  const Owner<Scope> scope = std::move(scope_);
  try {
    if (std::uncaught_exceptions() > scope->exceptions)
      scope->exit_by_exception();
    else
      scope->exit();
  } catch (...) {
    for (const auto& link : scope->links) link->stored_error = std::current_exception();
  }
}

const Tensor& ScaledLoss::loss() const {
  if (!scope_) refuse("the scope is closed");
  return scope_->loss;
}

void ScaledLoss::close() {
  if (!scope_) refuse("the scope is closed already");
  const Owner<Scope> scope = std::move(scope_);
  scope->exit();
}

void ScaledLoss::abandon() {
  if (!scope_) return;
  const Owner<Scope> scope = std::move(scope_);
  scope->exit_by_exception();
}

// ---- iterations ---------------------------------------------------------------------------------

void SessionCore::require_no_scope(std::string_view op) const {
  if (open_scopes > 0)
    fail<StateError>(op, {.what = "a scale_loss scope is open",
                          .expected = "a point between a step and the next backward pass",
                          .hint = "close the scope, or leave its block, and call step() first"});
}

void SessionCore::require_between_iterations(std::string_view op) const {
  require_no_scope(op);
  for (const AmpOptimizerState* link : optimizers) link->require_stepped(op);
  for (const std::list<ScopeOverflow>& of_loss : overflows)
    for (const ScopeOverflow& delayed : of_loss)
      if (!delayed.optimizers.empty() && delayed.flag.raised())
        fail<StateError>(op,
                         {.what = "an overflow is pending from a scope with delay_overflow_check",
                          .hint = "run a scope without it and call step() first"});
}

void SessionCore::forget_iteration() {
  for (const LossScaler& scaler : scalers) (void)scaler.state();  // completes its checks
  for (AmpOptimizerState* link : optimizers) link->forget_iteration();
  for (std::list<ScopeOverflow>& of_loss : overflows)
    for (ScopeOverflow& delayed : of_loss) {
      if (!delayed.optimizers.empty()) delayed.flag.reset();
      delayed.optimizers.clear();
    }
}

}  // namespace mezzo::amp
