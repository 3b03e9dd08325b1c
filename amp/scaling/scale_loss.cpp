#include "scale_loss.h"

#include <algorithm>
#include <exception>

#include "../../autograd/grad_mode.h"
#include "../../autograd/ops/create.h"
#include "../../autograd/ops/operators.h"
#include "../../optim/device_step_state.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"
#include "../optimizer_masters.h"
#include "agreement.h"
#include "amp_optimizer_state.h"
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
  ScopeScale scale;
  Tensor loss;
  bool inert = false;       // nothing to unscale and nothing to check
  bool uses_scale = false;  // checks must not change the scale in place
  int exceptions = std::uncaught_exceptions();

  LossScaler& scaler() const { return core->scalers[static_cast<std::size_t>(options.loss_id)]; }
  std::vector<ScopeOverflow>& overflows() const {
    return core->overflows[static_cast<std::size_t>(options.loss_id)];
  }

  void find_scale(Device device);
  void check_loss_id() const;
  void check() const;
  bool needs_no_scaling() const;
  void enter(const Tensor& unscaled);
  void set_gradients_aside();
  void leave();
  void exit();
  /** Returns true if gradients are checked. A static scale without check_static_overflow never
   *  skips, so it needs no check. */
  bool looks_for_overflow() const { return core->checks_gradients(); }
  void unscale(const optim::FoundInf& found);
  void keep_scaled();
  void unscale_and_check();
  ScopeOverflow& own_overflow(Device device);
  std::vector<std::pair<ScopeOverflow*, Links>> delayed_overflows(Device device) const;
  void raise_flags(const Links& optimizers, const optim::FoundInf& found, bool is_delayed);
  /** Allows checks to change the scale in place: no gradient depends on it any more. */
  void stop_using_scale() {
    if (std::exchange(uses_scale, false)) scaler().close_scope();
  }
  void exit_by_exception();
};

/** Sets `scale` for a loss on a device. */
void ScaledLoss::Scope::find_scale(Device device) {
  if (scaler().lives_on(device))
    scale.on_device = scaler().on(device, f64);
  else
    scale.on_host = scaler().loss_scale();
  scale.version = scaler().version();
}

void ScaledLoss::Scope::check_loss_id() const {
  if (options.loss_id < 0 || options.loss_id >= static_cast<int>(core->scalers.size()))
    fail<ValueError>(kOp, {.what = "no such loss",
                           .got = str("loss_id ", options.loss_id),
                           .expected = str("0..", static_cast<int>(core->scalers.size()) - 1),
                           .hint = "set num_losses in amp::initialize"});
}

void ScaledLoss::Scope::check() const {
  for (const auto& link : links) {
    if (link->in_scope)
      refuse("nested scale_loss over one optimizer", "close the outer scope first");
    if (link->pending && !link->pending->fits(options.loss_id, scale))
      refuse(str("gradients are still scaled by another scale: ", link->pending->text()),
             "use one loss_id until a scope without delay_unscale, or call zero_grad()");
  }
}

/** Returns true if the scope has nothing to do: no masters, a static scale of 1 and no overflow
 *  checks. */
bool ScaledLoss::Scope::needs_no_scaling() const {
  const bool any_pending = std::any_of(links.begin(), links.end(),
                                       [](const auto& link) { return link->pending.has_value(); });
  return !core->properties.masters() && !scaler().dynamic() && scale.on_host == 1 &&
         !core->properties.check_static_overflow && !any_pending;
}

void ScaledLoss::Scope::enter(const Tensor& unscaled) {
  inert = needs_no_scaling();
  const Tensor widened = is_low(unscaled.dtype()) ? unscaled.to(f32) : unscaled;
  if (scale.on_device.defined())
    loss = widened * scaler().on(unscaled.device(), widened.dtype());
  else
    loss = scale.on_host == 1 ? widened : widened * scale.on_host;
  for (const auto& link : links)
    if (link->optimizer()) link->optimizer()->clock().join_capture();
  if (!inert) {
    MasterChanges changes(core->masters);
    for (const auto& link : links)
      if (link->optimizer()) bring_masters_up_to_date(*core, *link->optimizer(), changes);
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
  try {
    Seen seen;
    for (const auto& link : links)
      if (link->pending) link->mark_seen(seen);
    for (const auto& link : links)
      if (!link->pending) link->prepare(seen);
  } catch (...) {
    for (const auto& link : links)
      if (!link->pending) link->forget_stash();
    throw;
  }
  for (const auto& link : links) link->enter();
}

void ScaledLoss::Scope::leave() {
  for (const auto& link : links) link->in_scope = false;
  --core->open_scopes;
  stop_using_scale();
  core->cache.clear();
  loss = {};
}

namespace {

bool same_pass(const UnscaleWork& p, const UnscaleWork& q) {
  return p.tensors.x.device() == q.tensors.x.device() && p.a == q.a && p.b == q.b &&
         p.fresh == q.fresh;
}

/** Unscales gradients, with one pass for all that share device and factors. Raises `found` for new
 *  non-finite gradients; its flag may be undefined. Waits for other devices than the flag's. */
void run_unscaling(std::vector<UnscaleWork> work, const optim::FoundInf& found) {
  while (!work.empty()) {
    const UnscaleWork first = work.front();
    const auto rest = std::stable_partition(
        work.begin(), work.end(), [&](const UnscaleWork& item) { return same_pass(item, first); });
    std::vector<optim::AxpbyTensors> items;
    for (auto item = work.begin(); item != rest; ++item) items.push_back(item->tensors);
    const Device device = first.tensors.x.device();
    const bool checked = first.fresh && found.flag.defined();
    const bool elsewhere = checked && device != found.flag.device();
    const optim::FoundInf here = elsewhere ? optim::FoundInf::reset_on(device)
                                 : checked ? found
                                           : optim::FoundInf{};
    optim::axpby(items, first.a, first.b,
                 checked ? optim::CheckFinite::x : optim::CheckFinite::none, here);
    if (elsewhere && here.raised()) {
      found.flag.fill_(1);
      found.first.copy_(minimum(found.first, here.first.to(found.first.device())));
    }
    work.erase(work.begin(), rest);
  }
}

}  // namespace

/** Divides the gradients by the scale and adds the earlier ones. */
void ScaledLoss::Scope::unscale(const optim::FoundInf& found) {
  const NoGradNoCasts plain_ops;
  Seen seen;
  std::vector<UnscaleWork> work;
  for (const auto& link : links) link->collect(seen, scale, work);
  const bool low = std::any_of(work.begin(), work.end(), [](const UnscaleWork& item) {
    return !(item.a == optim::Factor(1)) && item.fresh && is_low(item.tensors.out.dtype());
  });
  if (low && !core->properties.masters() && !std::exchange(core->told_about_low_gradients, true))
    core->print(
        "scale_loss: unscaling 16-bit gradients in place; small values may be lost, use "
        "master_weights to keep them");
  try {
    run_unscaling(std::move(work), found);
  } catch (...) {
    if (found.flag.defined()) found.reset();
    throw;
  }
  for (const auto& link : links) {
    link->finish();
    link->pending.reset();
  }
}

/** Returns the first entry that is not in use, with its flag on a device. */
ScopeOverflow& ScaledLoss::Scope::own_overflow(Device device) {
  std::vector<ScopeOverflow>& all = overflows();
  auto entry = std::find_if(all.begin(), all.end(),
                            [](const ScopeOverflow& one) { return one.optimizers.empty(); });
  if (entry == all.end()) entry = all.insert(entry, ScopeOverflow{});
  entry->flag = moved_to(device, entry->flag);
  entry->optimizers.reserve(links.size());
  return *entry;
}

/** Unscales the gradients, updates the scale and makes the next steps depend on the overflow flag,
 *  which stays where the loss is. If the scope has one optimizer, its own flag is used, and on a
 *  device the check is completed with its step, in one kernel call. */
void ScaledLoss::Scope::unscale_and_check() {
  for (const auto& link : links) link->require_reduced_gradients();
  stop_using_scale();
  if (!looks_for_overflow()) {
    unscale({});
    if (!options.delay_overflow_check) scaler().update(false);
    return;
  }
  const Device device = loss.device();
  // Everything is allocated here: nothing may fail once the gradients are unscaled.
  (void)scaler().call(device);
  const std::vector<std::pair<ScopeOverflow*, Links>> delayed = delayed_overflows(device);
  for (const auto& link : links) (void)link->skip_flag(device);
  const bool alone = links.size() == 1 && !options.delay_overflow_check && delayed.empty() &&
                     !links[0]->depends_on_flag();
  ScopeOverflow* const own = alone ? nullptr : &own_overflow(device);
  const optim::FoundInf found = alone ? links[0]->skip_flag(device) : own->flag;
  unscale(found);
  if (options.delay_overflow_check) {
    own->optimizers.assign(links.begin(), links.end());
    return;
  }
  for (const auto& [former, optimizers] : delayed)
    agree(receivers_of(optimizers), scaler(), former->flag);
  agree(receivers_of(links), scaler(), found);
  if (alone) {
    links[0]->depend_on_flag(options.loss_id);
    return scaler().defer(found);
  }
  for (const auto& [former, optimizers] : delayed) {
    raise_flags(optimizers, former->flag, true);
    former->optimizers.clear();
  }
  raise_flags(links, found, false);
}

/** Returns the scopes of this loss that have delayed their check, with their optimizers. */
auto ScaledLoss::Scope::delayed_overflows(Device device) const
    -> std::vector<std::pair<ScopeOverflow*, Links>> {
  std::vector<std::pair<ScopeOverflow*, Links>> delayed;
  if (options.delay_overflow_check) return delayed;
  overflows().reserve(overflows().size() + 1);  // own_overflow() must not move the entries
  for (ScopeOverflow& entry : overflows()) {
    if (entry.optimizers.empty()) continue;
    Links alive;
    for (const auto& remembered : entry.optimizers)
      if (auto link = remembered.lock()) alive.push_back(std::move(link));
    for (const auto& link : alive) (void)link->skip_flag(device);
    entry.flag = moved_to(device, entry.flag);
    delayed.emplace_back(&entry, std::move(alive));
  }
  return delayed;
}

/** Adds a flag to the check of this loss, resets it, and makes the optimizers' next steps depend on
 *  it; those of a delayed scope only on their own flag. Completes the check unless `is_delayed`. */
void ScaledLoss::Scope::raise_flags(const Links& optimizers, const optim::FoundInf& found,
                                    bool is_delayed) {
  const Device device = loss.device();
  for (const auto& link : optimizers) link->complete_check();
  for (std::size_t done = 0; done == 0 || done < optimizers.size();
       done += ScaleCall::kMostRaised) {
    ScaleCall call = scaler().call(device);
    call.noted = pointers_of(found);
    call.raises_for_noted = is_delayed;
    const std::size_t count =
        std::min<std::size_t>(optimizers.size() - done, ScaleCall::kMostRaised);
    for (std::size_t i = 0; i < count; ++i)
      call.raised[i] = optimizers[done + i]->skip_flag(device).flag.data<float>();
    const bool is_last = done + count >= optimizers.size();
    if (is_last) call.reset = call.noted;
    call.completes = call.any = is_last && !is_delayed;
    scaler().run(call);
  }
  for (const auto& link : optimizers) link->depend_on_flag(options.loss_id);
}

/** Leaves the gradients scaled, for a later scope of this loss and scale. */
void ScaledLoss::Scope::keep_scaled() {
  if (scale.on_device.defined()) scale.on_device = scale.on_device.clone();
  for (const auto& link : links) link->pending = AmpOptimizerState::Pending{options.loss_id, scale};
}

/** Closes the scope. Errors: as unscaling; the scope's gradients are dropped then, as if the body
 *  had thrown. */
void ScaledLoss::Scope::exit() {
  const TraceRange range(kOp);
  if (!inert) {
    try {
      if (options.delay_unscale) {
        keep_scaled();
      } else {
        scaler().make_room();  // nothing may fail after the gradients are unscaled
        unscale_and_check();
      }
    } catch (...) {
      exit_by_exception();
      throw;
    }
  }
  for (const auto& link : links) link->unstepped = true;
  leave();
}

void ScaledLoss::Scope::exit_by_exception() {
  if (!inert) {
    // With delay_unscale, new and earlier gradients are accumulated in one tensor. They stay, and
    // stay marked as scaled.
    Seen seen;
    for (const auto& link : links)
      if (link->pending) link->mark_seen(seen);
    for (const auto& link : links)
      if (link->pending)
        link->forget_results();
      else
        link->roll_back(seen);
  }
  leave();
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
  if (!scope_->core->enabled()) {
    scope_->inert = true;
    scope_->loss = loss;
    scope_->links.clear();
    ++scope_->core->open_scopes;
    return;
  }
  scope_->check_loss_id();
  scope_->find_scale(loss.device());
  scope_->check();
  scope_->enter(loss);
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

}  // namespace mezzo::amp
