#include "scale_loss.h"

#include <algorithm>
#include <exception>

#include "../../autograd/grad_mode.h"
#include "../../autograd/ops/create.h"
#include "../../autograd/ops/operators.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"
#include "amp_optimizer_state.h"
#include "nonfinite_gradient.h"

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

/** Overflow flags, one per device; non-zero if a gradient is non-finite. */
class OverflowFlags {
 public:
  OverflowFlags() = default;
  /** Uses an existing flag for its device. */
  explicit OverflowFlags(const FoundInf& flag) : flags_{flag} {}
  /** Returns the flag of a device; creates it if there is none. */
  FoundInf of(Device device) {
    for (const FoundInf& found : flags_)
      if (found.flag.device() == device) return found;
    return flags_.emplace_back(FoundInf{zeros({}, {.dtype = f32, .device = device}), {}});
  }
  /** Returns true if a flag is raised. Waits for the devices. */
  bool any() const { return std::any_of(flags_.begin(), flags_.end(), is_raised); }

 private:
  std::vector<FoundInf> flags_;
};

}  // namespace

struct ScaledLoss::Scope {
  std::shared_ptr<SessionCore> core;
  Links links;
  ScaleLossOptions options;
  double scale = 1;
  Tensor loss;
  bool inert = false;     // nothing to unscale and nothing to check
  bool deferred = false;  // scale and flag stay on the device; `scale` is only an identifier
  int exceptions = std::uncaught_exceptions();

  LossScaler& scaler() const { return core->scalers[static_cast<std::size_t>(options.loss_id)]; }
  DeferredOverflow& deferred_overflow() const {
    return core->deferred[static_cast<std::size_t>(options.loss_id)];
  }

  void find_scale();
  void check() const;
  bool needs_no_scaling() const;
  void enter(const Tensor& unscaled);
  void set_gradients_aside();
  void leave();
  void exit();
  /** Returns true if gradients are checked. A static scale without check_static_overflow never
   *  skips, so it needs no check. */
  bool looks_for_overflow() const {
    return scaler().dynamic() || core->properties.check_static_overflow;
  }
  bool defers() const;
  bool unscale();
  void unscale_on_device();
  void raise_skips(DeferredOverflow& stored, Device device);
  void run_unscale(const ScopeScale& by, OverflowFlags& flags);
  std::string first_nonfinite() const;
  void act_on(bool overflow);
  void exit_by_exception();
};

/** Sets `scale`. For a scale on the device it is a negative number derived from the number of
 *  checks: scopes with equal numbers have the same scale. */
void ScaledLoss::Scope::find_scale() {
  deferred = defers();
  scale = deferred ? -1 - static_cast<double>(scaler().device_checks()) : scaler().loss_scale();
}

void ScaledLoss::Scope::check() const {
  if (options.loss_id < 0 || options.loss_id >= static_cast<int>(core->scalers.size()))
    fail<ValueError>(kOp, {.what = "no such loss",
                           .got = str("loss_id ", options.loss_id),
                           .expected = str("0..", static_cast<int>(core->scalers.size()) - 1),
                           .hint = "set num_losses in amp::initialize"});
  for (const auto& link : links) {
    if (link->in_scope)
      refuse("nested scale_loss over one optimizer", "close the outer scope first");
    if (link->pending &&
        (link->pending->loss_id != options.loss_id || link->pending->scale != scale))
      refuse(str("gradients are still scaled by another scale: loss ", link->pending->loss_id,
                 " times ", link->pending->scale),
             "use one loss_id until a scope without delay_unscale, or call zero_grad()");
  }
}

/** Returns true if the scope has nothing to do: no masters, a static scale of 1 and no overflow
 *  checks. */
bool ScaledLoss::Scope::needs_no_scaling() const {
  const bool any_pending = std::any_of(links.begin(), links.end(),
                                       [](const auto& link) { return link->pending.has_value(); });
  return !core->properties.masters() && !scaler().dynamic() && scale == 1 &&
         !core->properties.check_static_overflow && !any_pending;
}

void ScaledLoss::Scope::enter(const Tensor& unscaled) {
  inert = needs_no_scaling();
  const Tensor widened = is_low(unscaled.dtype()) ? unscaled.to(f32) : unscaled;
  if (deferred)
    loss = widened * scaler().on(unscaled.device()).scale(widened.dtype());
  else
    loss = scale == 1 ? widened : widened * scale;
  for (const auto& link : links)
    if (link->optimizer()) link->optimizer()->clock().join_capture();
  if (!inert) {
    MasterChanges changes(core->masters);
    for (const auto& link : links) link->bring_masters_up_to_date(changes);
    changes.commit();
    set_gradients_aside();
  }
  for (const auto& link : links) link->in_scope = true;
  ++core->open_scopes;
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
  core->cache.clear();
  loss = {};
}

namespace {

bool same_pass(const UnscaleWork& p, const UnscaleWork& q) {
  return p.tensors.x.device() == q.tensors.x.device() && p.a == q.a && p.b == q.b &&
         p.fresh == q.fresh;
}

/** Unscales gradients, with one pass for all that share device and factors. */
void run_unscaling(std::vector<UnscaleWork> work, bool looks_for_overflow, OverflowFlags& flags) {
  while (!work.empty()) {
    const UnscaleWork first = work.front();
    const auto rest = std::stable_partition(
        work.begin(), work.end(), [&](const UnscaleWork& item) { return same_pass(item, first); });
    std::vector<optim::AxpbyTensors> items;
    for (auto item = work.begin(); item != rest; ++item) items.push_back(item->tensors);
    const bool checked = first.fresh && looks_for_overflow;
    optim::axpby(items, first.a, first.b,
                 checked ? optim::CheckFinite::x : optim::CheckFinite::none,
                 checked || !Capture::current() ? flags.of(first.tensors.x.device()) : FoundInf{});
    work.erase(work.begin(), rest);
  }
}

}  // namespace

/** Divides the gradients by the scale and adds the earlier ones. */
void ScaledLoss::Scope::run_unscale(const ScopeScale& by, OverflowFlags& flags) {
  const NoGradNoCasts plain_ops;
  Seen seen;
  std::vector<UnscaleWork> work;
  for (const auto& link : links) link->collect(seen, by, work);
  const bool low = std::any_of(work.begin(), work.end(), [](const UnscaleWork& item) {
    return !(item.a == optim::Factor(1)) && item.fresh && is_low(item.tensors.out.dtype());
  });
  if (low && !core->properties.masters() && !std::exchange(core->told_about_low_gradients, true))
    core->print(
        "scale_loss: unscaling 16-bit gradients in place; small values may be lost, use "
        "master_weights to keep them");
  run_unscaling(std::move(work), looks_for_overflow(), flags);
  for (const auto& link : links) {
    link->finish();
    link->pending.reset();
  }
}

/** Unscales on the host's scale. Returns true if a new gradient is non-finite. Waits for the
 *  device. */
bool ScaledLoss::Scope::unscale() {
  OverflowFlags flags;
  run_unscale({.of_host = scale, .inverse = 1 / scale}, flags);
  return flags.any();
}

/** Returns true if the overflow flag can stay on the device: only a dynamic scale is updated
 *  there. */
bool ScaledLoss::Scope::defers() const {
  return core->defers() && looks_for_overflow() && scaler().dynamic();
}

/** Does the work of unscale() and act_on() on the device. If the scope has one optimizer, the check
 *  is deferred to its step, which does both in one launch. */
void ScaledLoss::Scope::unscale_on_device() {
  if (scale != -1 - static_cast<double>(scaler().device_checks()))
    fail<Unsupported>(
        kOp, {.what = "scopes of one loss scaler are nested while steps are deferred",
              .hint = "close one before the next begins, or give them loss_ids of their own"});
  const Device device = loss.device();
  const Tensor divisor = scaler().on(device).scale(f64);
  DeferredOverflow& stored = deferred_overflow();
  const bool alone =
      links.size() == 1 && !options.delay_overflow_check && !stored.on_device && !links[0]->flagged;
  if (!stored.flag.flag.defined() && !alone) stored.flag = lowered_flag(device);
  const FoundInf flag = alone ? links[0]->skip_flag(device) : stored.flag;
  OverflowFlags flags(flag);
  run_unscale({.of_device = divisor, .inverse = optim::Factor::over(1, divisor.data<double>())},
              flags);
  if (alone) {
    links[0]->flagged = options.loss_id;
    return scaler().defer(flag);
  }
  stored.optimizers.insert(stored.optimizers.end(), links.begin(), links.end());
  stored.on_device = options.delay_overflow_check;
  if (options.delay_overflow_check) return;
  raise_skips(stored, device);
}

/** Updates the scale from the flag of this loss, and raises the flags of all optimizers of the
 *  scopes if it is set. */
void ScaledLoss::Scope::raise_skips(DeferredOverflow& stored, Device device) {
  std::vector<float*> raised;
  for (const auto& remembered : stored.optimizers)
    if (const auto link = remembered.lock()) {
      raised.push_back(link->skip_flag(device).flag.data<float>());
      if (!link->flagged) link->flagged = options.loss_id;
    }
  for (std::size_t done = 0; done == 0 || done < raised.size(); done += ScaleCall::kMostRaised) {
    ScaleCall call = scaler().call();
    call.noted = of_device(stored.flag);
    const std::size_t count = std::min<std::size_t>(raised.size() - done, ScaleCall::kMostRaised);
    std::copy_n(raised.begin() + static_cast<std::ptrdiff_t>(done), count, call.raised);
    call.moves = call.any = done + count >= raised.size();
    if (call.moves) call.lowered = of_device(stored.flag);
    if (call.moves) scaler().count_check();
    scaler().run(call);
  }
  stored.optimizers.clear();
}

/** Returns a description of the first non-finite gradient. Called only after an overflow. */
std::string ScaledLoss::Scope::first_nonfinite() const {
  for (const auto& link : links)
    if (link->optimizer())
      if (std::string text = nonfinite_gradient_text(*link->optimizer()); !text.empty())
        return text;
  return {};
}

/** Updates the scale and marks the steps to skip. With delay_overflow_check, only records the
 *  overflow for the next checked exit. */
void ScaledLoss::Scope::act_on(bool overflow) {
  DeferredOverflow& stored = deferred_overflow();
  if (std::exchange(stored.on_device, false) && is_raised(stored.flag)) {
    const auto noted =
        static_cast<optim::NonfiniteLocation::Word>(stored.flag.first.item<std::int64_t>());
    if (!std::exchange(stored.found, true))
      stored.first_nonfinite = core->name_of(optim::NonfiniteLocation::of(noted));
  }
  if (options.delay_overflow_check) {
    if (overflow && !std::exchange(stored.found, true)) stored.first_nonfinite = first_nonfinite();
    if (overflow) stored.optimizers.insert(stored.optimizers.end(), links.begin(), links.end());
    return;
  }
  std::string first = stored.found ? std::move(stored.first_nonfinite)
                      : overflow   ? first_nonfinite()
                                   : "";
  overflow = overflow || stored.found;
  const bool of_static = !scaler().dynamic() && core->properties.check_static_overflow && overflow;
  const bool skip = scaler().update(overflow, std::move(first)) || of_static;
  if (skip) {
    for (const auto& link : links) link->skip_next_step(options.loss_id);
    for (const auto& remembered : stored.optimizers)
      if (const auto link = remembered.lock()) link->skip_next_step(options.loss_id);
  }
  stored = {};
}

/** Closes the scope. Errors: as unscaling; the scope's gradients are dropped then, as if the body
 *  had thrown. */
void ScaledLoss::Scope::exit() {
  if (!inert && options.delay_unscale) {
    for (const auto& link : links)
      link->pending = AmpOptimizerState::Pending{options.loss_id, scale};
  } else if (!inert) {
    try {
      // Reserves memory first: nothing may fail after the gradients are unscaled.
      scaler().make_room();
      deferred_overflow().optimizers.reserve(deferred_overflow().optimizers.size() + links.size());
      if (deferred)
        unscale_on_device();
      else
        act_on(unscale());
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
    : scope_(std::make_unique<Scope>()) {
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
  scope_->scale = 1;
  if (options.loss_id >= 0 && options.loss_id < static_cast<int>(scope_->core->scalers.size()))
    scope_->find_scale();
  scope_->check();
  scope_->enter(loss);
}

ScaledLoss::ScaledLoss(ScaledLoss&& other) noexcept = default;

ScaledLoss::~ScaledLoss() {
  if (!scope_) return;
  const std::unique_ptr<Scope> scope = std::move(scope_);
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
  const std::unique_ptr<Scope> scope = std::move(scope_);
  scope->exit();
}

void ScaledLoss::abandon() {
  if (!scope_) return;
  const std::unique_ptr<Scope> scope = std::move(scope_);
  scope->exit_by_exception();
}

}  // namespace mezzo::amp
