#include "scale_loss.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "../../autograd/gradient_mark.h"
#include "../../autograd/gradient_receiver.h"
#include "../../autograd/hooks.h"
#include "../../autograd/node.h"
#include "../../optim/scaled_gradients.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/ops/create.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"
#include "../diagnose/nonfinite_gradient.h"
#include "../session_core.h"
#include "../weights/master.h"
#include "gradients.h"

namespace mezzo::amp {

using optim::FoundInf;
using optim::Optimizer;
using optim::Slot;

namespace {

constexpr std::string_view kOp = "amp::scale_loss";

/** Passes a gradient on, and notes that there was one. */
class WatchedNode final : public Node {
 public:
  WatchedNode(const Tensor& x, const std::shared_ptr<ScaledPasses>& passes)
      : passes_(passes), is_in_scope_(passes->core != nullptr) {
    follow(gradient_edge(x));
  }
  Grads apply(Grads gy) override {
    const auto passes = passes_.lock();
    if (!passes && is_in_scope_ && gy[0].defined())
      fail<StateError>(kOp, {.what = "backward of a scaled loss after the end of its scope",
                             .got = "gradients that would stay multiplied by the loss scale",
                             .expected = "scaled.backward() in the body of scale_loss, or "
                                         "scope.loss().backward() before scope.close()"});
    if (passes && gy[0].defined()) ++passes->scaled;
    return gy;
  }
  std::string name() const override { return "scale_loss"; }

 private:
  std::weak_ptr<ScaledPasses> passes_;
  bool is_in_scope_;
};

}  // namespace

Tensor watched(const Tensor& x, const std::shared_ptr<ScaledPasses>& passes) {
  if (!x.requires_grad() || !grad_enabled()) return x;
  const Tensor y = x.detach();
  set_grad_fn(y, make_ref<WatchedNode>(x, passes), 0);
  return y;
}

// ---- the scope ----------------------------------------------------------------------------------

namespace {

using States = std::vector<std::shared_ptr<AmpOptimizerState>>;

States states_of(const OptimizerList& optimizers) {
  States states;
  for (Optimizer* optimizer : optimizers) {
    std::shared_ptr<AmpOptimizerState> state = AmpOptimizerState::of(*optimizer);
    if (!state)
      refuse(kOp, str(optimizer->type_name(), " is attached to no session"),
             "pass it to amp::initialize, and keep the session that it returns");
    if (!states.empty() && state->core != states[0]->core)
      refuse(kOp, "the optimizers belong to different sessions");
    if (std::find(states.begin(), states.end(), state) == states.end())
      states.push_back(std::move(state));
  }
  return states;
}

/** Calls f(state, slot, number) for each parameter of the optimizers, for one of several only once.
 *  `number` identifies it in a NonfiniteWord. */
template <class F> void each_param(const States& states, const F& f) {
  std::unordered_set<const TensorImpl*> seen;
  for (const auto& state : states) {
    std::size_t position = 0;
    for (const Slot& slot : state->optimizer()->slots()) {
      const std::uint32_t number = gradient_number(state->index, position++);
      if (seen.insert(slot.param.impl()).second) f(*state, slot, number);
    }
  }
}

/** Of the open scopes and the GradScalers of this thread. */
thread_local std::vector<std::weak_ptr<ScaledPasses>> scaled_here;

/** Called with each parameter or master whose gradient is clipped. Throws if it is still scaled in
 *  an open scope; logs once for each GradScaler that has not unscaled it. Errors: StateError. */
void check_clipped(std::string_view op, const Tensor& leaf) {
  for (const auto& scaled : scaled_here) {
    const auto passes = scaled.lock();
    if (!passes || !passes->core) continue;
    for (const AmpOptimizerState* const state : passes->core->optimizers)
      if (state->in_scope && state->holds(leaf))
        fail<StateError>(op, {.what = "gradients are still scaled: a scale_loss scope is open",
                              .got = str("the gradient of ", leaf),
                              .expected = "a call between the end of scale_loss and the step",
                              .hint = "clip after the body of scale_loss, or within the step: "
                                      "optimizer.step({.max_norm = ...})"});
  }
  if (!leaf.grad().defined() || gradient_scale(leaf) != GradientScale::plain) return;
  const auto unscaled = std::erase_if(scaled_here, [](const auto& scaled) {
    const auto passes = scaled.lock();
    return passes && !passes->core && passes->scaled;
  });
  if (unscaled == 0) return;
  log_text(
      Severity::warning,
      str(op, ": a GradScaler has scaled a loss, and the gradient is not unscaled; got that of ",
          leaf, ", expected scaler.unscale_(optimizer) before clipping"));
}

}  // namespace

void watch_clipping(const std::shared_ptr<ScaledPasses>& passes) {
  std::erase_if(scaled_here, [](const auto& scaled) { return scaled.expired(); });
  scaled_here.push_back(passes);
  optim::set_clip_check(&check_clipped);
}

// ---- earlier gradients --------------------------------------------------------------------------

namespace {

/** Returns the gradient that a scope has set aside; an undefined one if there is none. */
ScopeGradient stashed(const SessionCore& core, const Tensor& param) {
  const auto found = core.stash.find(param.impl());
  return found == core.stash.end() ? ScopeGradient{} : found->second;
}

/** Gives a parameter without a new gradient its earlier one back. */
void restore(const SessionCore& core, const Tensor& param) {
  const auto found = core.stash.find(param.impl());
  if (found == core.stash.end() || param.grad().defined()) return;
  restore_gradient(param, found->second.grad, found->second.mark);
  core.stash.erase(found);
}

/** Sets the gradients aside, except those that a scope with delay_unscale left scaled, to which the
 *  new scope adds. Errors: StateError for one that was not reduced over the processes that train
 *  together; no gradient has changed then. */
void stash_gradients(const States& states) {
  each_param(states, [](const AmpOptimizerState& state, const Slot& slot, std::uint32_t) {
    if (gradient_scale(slot.param) == GradientScale::delayed) return;
    state.core->stash.erase(slot.param.impl());
    const Tensor grad = slot.param.grad();
    if (!grad.defined()) return;
    require_reduced(slot.param, kOp, "leave no_sync before the last backward");
    state.core->stash[slot.param.impl()] = {slot.param, grad, gradient_mark(slot.param)};
  });
  for (const auto& state : states)
    for (const Slot& slot : state->optimizer()->slots())
      if (slot.param.grad().defined() && gradient_scale(slot.param) != GradientScale::delayed)
        slot.param.set_grad({});
}

}  // namespace

// ---- the entry ----------------------------------------------------------------------------------

ScaledLoss::ScaledLoss(const Tensor& loss, const OptimizerList& optimizers,
                       const ScaleLossOptions& options)
    : options_(options), exceptions_(std::uncaught_exceptions()) {
  const TraceRange range(kOp);
  if (!loss.defined() || !is_floating(loss.dtype()))
    fail<DtypeError>(kOp, {.what = "expected a floating-point tensor", .got = str(loss)});
  states_ = states_of(optimizers);
  core_ = states_.empty() ? SessionCore::current(kOp) : states_[0]->core;
  if (core_->enabled()) {
    enter(loss);
  } else {
    loss_ = loss;
    states_.clear();
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
  bool any_pending = false;
  for (const auto& state : states_) {
    state->refresh_pending();
    any_pending = any_pending || state->pending;
    if (state->in_scope)
      refuse(kOp, "nested scale_loss over one optimizer", "close the outer scope first");
    if (state->pending && !state->pending->equals(scale_))
      refuse(kOp, str("gradients are still scaled by another scale: ", state->pending_text()),
             "use one loss_id until a scope without delay_unscale, or call zero_grad()");
  }
  core_->require_no_other_pending(kOp, states_);
  const bool multiplies = scale_.multiplies();
  inert_ = !multiplies && !any_pending && !core_->options.masters() && !core_->checks_gradients();
  loss_ = multiplies                 ? scaler().times(unscaled)
          : is_low(unscaled.dtype()) ? unscaled.to(f32)
                                     : unscaled;
  passes_ = std::make_shared<ScaledPasses>();
  passes_->core = core_.get();
  passes_->scaled = multiplies ? 0 : 1;
  if (multiplies) loss_ = watched(loss_, passes_);
  if (!states_.empty()) scaler().losses.note(unscaled, states_[0]->steps + 1);
  for (const auto& state : states_) state->step_state->join_capture();
  if (!inert_) {
    MasterChanges changes(core_->masters);
    for (const auto& state : states_)
      bring_masters_up_to_date(*core_, *state->optimizer(), changes);
    changes.commit();
    for (const auto& state : states_) sync_masters_gradients(*state->optimizer(), kOp);
    stash_gradients(states_);
  }
  for (const auto& state : states_) {
    state->in_scope = true;
    if (unscaled.device() == cpu && unscaled.numel() == 1)
      state->finite_losses = state->finite_losses.value_or(true) && !scaler().losses.is_nonfinite();
  }
  core_->open_loss = options_.loss_id;
  if (multiplies || core_->options.masters()) watch_clipping(passes_);
}

/** Throws if backward() ran and may have added to a gradient, but not from the scaled loss. Errors:
 *  StateError. */
void ScaledLoss::require_backward() const {
  if (!passes_ || !passes_->missed()) return;
  each_param(states_, [&](const AmpOptimizerState&, const Slot& slot, std::uint32_t) {
    if (!slot.param.grad().defined() ||
        (gradient_scale(slot.param) == GradientScale::delayed && !written_since_mark(slot.param)))
      return;
    fail<StateError>(
        kOp, {.what = "backward ran, but not from the scaled loss",
              .got = str("gradients that are not multiplied by the loss scale ", scale_.value()),
              .expected = "backward() of the tensor that the body gets, or of "
                          "scope.loss()",
              .hint = "write scaled.backward() instead of loss.backward()"});
  });
}

// ---- new gradients ------------------------------------------------------------------------------

namespace {

/** Returns true if a new gradient can stay scaled: nothing has to be added to it or combined with
 *  it, and `late` takes it. A 16-bit one without a master cannot, since rounding it would come
 * after the update, or before, depending on who reads it. */
bool can_stay_scaled(const SessionCore& core, const Slot& slot, const optim::LateGradients& late) {
  const Tensor grad = slot.param.grad();
  if (!grad.defined() || grad.numel() == 0) return true;
  const bool adds = through_master(slot)
                        ? slot.master.grad().defined()
                        : is_low(grad.dtype()) || core.stash.contains(slot.param.impl());
  return !adds && !gradient_receiver(slot.param) &&
         late.takes(grad, through_master(slot) ? slot.master : grad);
}

/** Returns how a new gradient is divided and added to the earlier one: in the master, if there is
 *  one, else in place. */
AxpbyTensors unscaled_sum(const SessionCore& core, const Slot& slot, const ScaleValue& scale) {
  const Tensor grad = slot.param.grad();
  const ReceivedGradient received = received_gradient(slot.param);
  AxpbyTensors sum{.factor = received.factor};
  if (through_master(slot)) {
    sum.x = received.wide.defined() ? received.wide : grad;
    sum.y = sum.out = slot.master.grad();
    if (sum.out.defined()) return sum;
    sum.out = empty_like(slot.master);
    sum.out.impl()->storage->set_category(MemoryCategory::gradients);
    return sum;
  }
  sum.x = dense(grad);
  sum.y = stashed(core, slot.param).grad;
  // A captured step accumulates in the memory that the next replay reads.
  const bool in_former = sum.y.defined() && Capture::current() && same_dense_layout(sum.y, sum.y) &&
                         !sum.y.requires_grad();
  if (sum.y.defined() || scale.multiplies() || sum.factor != 1) sum.out = in_former ? sum.y : sum.x;
  return sum;
}

/** Creates missing masters, and appends to `items` what unscale() is to do with the gradients of
 *  these optimizers: the new ones of their open scope, or, where none is open, those that
 *  delay_unscale left scaled. They are divided by `scale` and added to earlier ones, in the masters
 *  where there are some. With `late` they stay scaled and are only checked: the update divides
 *  them, or the first read does. Returns the gradients for set_gradients(). Errors: StateError for
 *  a gradient that was not reduced over the processes that train together. */
std::vector<ScopeGradient> collect(const States& states, const ScaleValue& scale,
                                   std::vector<AxpbyTensors>& items,
                                   optim::LateGradients* late = nullptr) {
  for (const auto& state : states) {
    MasterChanges changes(state->core->masters);
    create_masters(*state->core, state->optimizer()->slots(), changes);
    changes.commit();
  }
  std::vector<ScopeGradient> results;
  each_param(states, [&](const AmpOptimizerState& state, const Slot& slot, std::uint32_t number) {
    require_reduced(slot.param, kOp, "pass delay_unscale, or leave no_sync before the last scope");
    const Tensor grad = slot.param.grad();
    if (!grad.defined()) return;
    if (!state.in_scope && gradient_scale(slot.param) != GradientScale::delayed) return;
    const bool in_master = through_master(slot);
    if (in_master) (void)grad_state(slot.master);  // set_gradients() must not allocate it
    ScopeGradient result{
        slot.target(), {}, {in_master ? GradientScale::unscaled : GradientScale::plain}};
    AxpbyTensors item{grad.detach()};
    if (late && grad.numel() > 0) {
      std::tie(result.grad, result.late) = late->add(grad, slot.master);
    } else {
      item = unscaled_sum(*state.core, slot, scale);
      result.grad = item.out.defined() ? item.out : item.x;
    }
    item.number = number;
    items.push_back(std::move(item));
    results.push_back(std::move(result));
    if (in_master) results.push_back({slot.param, slot.param.grad(), {GradientScale::in_master}});
  });
  return results;
}

/** Sets the gradients of collect(), restores those without a new one, and discards the earlier
 *  ones. */
void set_gradients(const States& states, const std::vector<ScopeGradient>& results) {
  for (const ScopeGradient& result : results) {
    if (result.late) result.late->arm();
    result.leaf.set_grad(result.grad);
    mark_gradient(result.leaf, result.mark.scale);
  }
  for (const auto& state : states) {
    for (const Slot& slot : state->optimizer()->slots()) restore(*state->core, slot.param);
    state->forget_earlier();
    state->pending.reset();
  }
}

}  // namespace

void SessionCore::finish_gradients() {
  for (AmpOptimizerState* const one : optimizers) {
    const States state{one->shared_from_this()};
    one->refresh_pending();
    sync_masters_gradients(*one->optimizer());
    if (!one->pending && !one->raised_by) continue;
    const FoundInf nonfinite = FoundInf::reset_on(cpu);
    if (one->pending) {
      const NoGradNoCasts plain_ops;
      std::vector<AxpbyTensors> items;
      try {
        const std::vector<ScopeGradient> results = collect(state, *one->pending, items);
        unscale(std::move(items), nonfinite, *one->pending);
        set_gradients(state, results);
      } catch (const StateError&) {}  // not reduced over all processes: stays pending, is dropped
    }
    if (nonfinite.raised() || one->pending || (one->raised_by && one->found_inf.raised()))
      one->optimizer()->zero_grad();
  }
}

// ---- the exit -----------------------------------------------------------------------------------

namespace {

/** Returns true if f32 holds the scale, whatever it becomes by the rule. */
bool stays_in_f32(const optim::ScaleState& rule) {
  const auto is_f32 = [](double x) { return static_cast<double>(static_cast<float>(x)) == x; };
  return is_f32(rule.scale) && is_f32(rule.min_scale) && is_f32(rule.max_scale) &&
         rule.growth_factor == 2 && rule.backoff_factor == 0.5;
}

}  // namespace

/** Checks the gradients, divides them by the scale and adds the earlier ones. Where nothing is
 *  added, the division is left to the update, or to the first read of a gradient. `own`: the next
 *  step completes the check. */
void ScaledLoss::unscale_gradients(const FoundInf& found_inf, bool own) {
  const NoGradNoCasts plain_ops;
  const Device device = loss_.device();
  std::shared_ptr<optim::LateGradients> late;
  // A scale on a device stays until the step only if that completes the check.
  if (!scale_.on_device.defined() || (own && stays_in_f32(scaler().rule())))
    late = std::make_shared<optim::LateGradients>(device, scale_.inverse(device), scale_.on_device,
                                                  scale_.use);
  // One that cannot stay scaled would make two passes of one.
  for (const auto& state : states_)
    if (late && any_slot(*state->optimizer(),
                         [&](const Slot& slot) { return !can_stay_scaled(*core_, slot, *late); }))
      late = nullptr;
  scale_.use.reset();
  std::vector<AxpbyTensors> items;
  const std::vector<ScopeGradient> results = collect(states_, scale_, items, late.get());
  if (late)
    if (const auto copy = late->copy_of_scale()) items.push_back(*copy);
  const bool low = std::any_of(items.begin(), items.end(), [this](const AxpbyTensors& item) {
    return item.out.defined() && (scale_.multiplies() || item.factor != 1) &&
           is_low(item.out.dtype());
  });
  if (low && !core_->options.masters() && !std::exchange(core_->told_about_low_gradients, true))
    core_->print(
        "scale_loss: unscaling 16-bit gradients in place; small values may be lost, use "
        "master_weights to keep them");
  try {
    unscale(std::move(items), found_inf, late ? ScaleValue{} : scale_);
  } catch (...) {
    found_inf.reset();
    throw;
  }
  set_gradients(states_, results);
}

/** Unscales the gradients, updates the scale and makes the next steps depend on the overflow flag,
 *  which stays where the loss is. If the scope has one optimizer, its own flag is used, and on a
 *  device the check is completed with its step, in one kernel call. */
void ScaledLoss::unscale_and_check() {
  // A static scale without check_static_overflow never skips, so it needs no check.
  if (!core_->checks_gradients()) {
    unscale_gradients({}, false);
    scaler().update(false);
    return;
  }
  const Device device = loss_.device();
  scaler().move_to(device);
  const bool own = states_.size() == 1 && !states_[0]->raised_by;
  std::vector<optim::NonfiniteWord*> flags;  // of the optimizers, raised after an overflow
  for (const auto& state : states_) {
    if (state->raised_by) state->raised_by->finish_pending();  // another loss can raise it then
    flags.push_back(move_to(device, state->found_inf).data());
  }
  const FoundInf found_inf =
      own ? states_[0]->found_inf : move_to(device, scaler().scope_found_inf);
  unscale_gradients(found_inf, own);
  agree(receivers_of(states_), scaler(), found_inf);
  if (own)
    scaler().defer(found_inf);
  else
    scaler().run({.resets = true, .completes = true, .any = true}, found_inf, flags);
  for (const auto& state : states_)
    if (!state->raised_by && (device != cpu || state->found_inf.raised()))
      state->raised_by = &scaler();
}

void ScaledLoss::close() {
  if (!core_) refuse(kOp, "the scope is closed already");
  const TraceRange range(kOp);
  std::erase_if(states_, [](const auto& state) { return !state->optimizer(); });  // destroyed
  try {
    require_backward();
    if (!inert_ && options_.delay_unscale) {
      // The gradients stay scaled, for a later scope of this loss and scale.
      if (scale_.on_device.defined()) scale_.on_device = scale_.on_device.clone();
      scale_.use.reset();
      each_param(states_, [](const AmpOptimizerState& state, const Slot& slot, std::uint32_t) {
        mark_gradient(slot.param, GradientScale::delayed);
        restore(*state.core, slot.param);
      });
      for (const auto& state : states_) state->pending = scale_;
    } else if (!inert_) {
      unscale_and_check();
    }
  } catch (...) {
    abandon();  // as if the body had thrown
    throw;
  }
  for (const auto& state : states_) state->unscaled = state->scoped = true;
  leave();
}

void ScaledLoss::abandon() {
  if (!core_) return;
  std::erase_if(states_, [](const auto& state) { return !state->optimizer(); });
  if (!inert_) {
    // Those that delay_unscale left scaled, to which this scope has added, stay.
    each_param(states_, [](const AmpOptimizerState& state, const Slot& slot, std::uint32_t) {
      if (gradient_scale(slot.param) == GradientScale::delayed) return;
      const ScopeGradient earlier = stashed(*state.core, slot.param);
      drop_local_gradient(slot.param);
      restore_gradient(slot.param, earlier.grad, earlier.mark);
      state.core->stash.erase(slot.param.impl());
    });
  }
  leave();
}

void ScaledLoss::leave() {
  for (const auto& state : states_) state->in_scope = false;
  scale_.use.reset();
  --core_->open_scopes;
  core_->cache.end_round();
  passes_ = nullptr;  // a backward pass from the loss is refused from here on
  core_ = nullptr;
  loss_ = {};
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
    for (const auto& state : states_) state->stored_error = std::current_exception();
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

void SessionCore::require_no_other_pending(
    std::string_view op, std::span<const std::shared_ptr<AmpOptimizerState>> own) const {
  for (AmpOptimizerState* const other : optimizers) {
    if (std::any_of(own.begin(), own.end(), [&](const auto& one) { return one.get() == other; }))
      continue;
    other->refresh_pending();
    if (!other->pending && !other->in_scope) continue;
    for (const auto& one : own)
      for (const Slot& slot : one->optimizer()->slots()) {
        if (!other->in_scope && gradient_scale(slot.param) != GradientScale::delayed) continue;
        if (!other->holds(slot.param)) continue;
        refuse(op,
               str("the gradient of ", slot.param, " is still scaled: ",
                   other->in_scope ? "a scale_loss scope is open over"
                                   : "a scale_loss with delay_unscale left it so for",
                   " another optimizer, ", other->optimizer()->type_name(), " (", other->name, ")"),
               "pass both optimizers to the scopes, or finish that optimizer's first");
      }
  }
}

void SessionCore::gradients_removed(std::span<const Tensor> params) const {
  for (const Tensor& param : params) {
    stash.erase(param.impl());
    if (const Master* const master = masters.find(param)) master->master.set_grad({});
  }
  for (AmpOptimizerState* const state : optimizers) {
    state->scoped = state->scoped && any_slot(*state->optimizer(), [](const Slot& slot) {
                      return slot.param.grad().defined();
                    });
  }
}

void SessionCore::require_between_iterations(std::string_view op) const {
  require_no_scope(op);
  for (AmpOptimizerState* const state : optimizers) state->require_stepped(op);
}

void SessionCore::forget_iteration() {
  for (const auto& scaler : scalers) (void)scaler->state();  // completes its check
  for (AmpOptimizerState* const state : optimizers) {
    if (std::exchange(state->raised_by, nullptr)) state->found_inf.reset();
    state->stored_error = nullptr;
    state->optimizer()->zero_grad();
  }
}

}  // namespace mezzo::amp
