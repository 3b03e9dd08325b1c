#include "gradients.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "../../autograd/node.h"
#include "../../optim/scaled_gradients.h"
#include "../../tensor/core/error.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/memory/transfer.h"
#include "../../tensor/ops/create.h"
#include "../../tensor/text/text.h"
#include "../diagnose/nonfinite_gradient.h"
#include "../session_core.h"
#include "../weights/master.h"

namespace mezzo::amp {

using optim::FoundInf;
using optim::NonfiniteWord;
using optim::Optimizer;
using optim::Slot;
using optim::StepResult;

Tensor dense(const Tensor& grad) {
  return same_dense_layout(grad, grad) ? grad.detach() : grad.detach().contiguous();
}

std::vector<AxpbyTensors> gradients_of(const Optimizer& optimizer, std::size_t index,
                                       std::string_view op, bool writes) {
  std::vector<AxpbyTensors> gradients;
  std::unordered_set<const void*> seen;
  std::size_t position = 0;
  for (const Slot& slot : optimizer.slots()) {
    const std::size_t here = position++;
    const std::uint32_t number = gradient_number(index, here);
    const Tensor grad = slot.param.grad();
    if (!grad.defined()) continue;
    require_reduced(slot.param, op, "leave no_sync before the last backward");
    require_unscaled_gradient(slot.param, op);
    const GradientMark mark = gradient_mark(slot.param);
    const bool was_unscaled = is_unscaled(mark.scale);
    if (was_unscaled && mark.part.is_same(grad)) {
      gradients.push_back({grad.detach(), {}, {}, number});
      continue;
    }
    if (writes && grad.dtype() == f16)
      fail<DtypeError>(
          op, {.what = str("parameter ", here, " has an f16 gradient"),
               .got = str(grad),
               .expected = "bf16, f32 or f64",
               .hint = "keep the parameters in f32 and run the forward pass under autocast"});
    const bool is_shared = grad.numel() > 0 && !seen.insert(grad.raw_data()).second;
    const Tensor x = is_shared ? grad.detach().clone() : writes ? dense(grad) : grad.detach();
    const Tensor part = writes && was_unscaled ? mark.part.detach() : Tensor{};
    gradients.push_back({x, part, writes ? x : Tensor{}, number});
    if (is_shared || (writes && !same_dense_layout(grad, grad)))
      restore_gradient(slot.param, x, was_unscaled ? mark : GradientMark{});
  }
  return gradients;
}

Receivers receivers_of(std::span<const std::shared_ptr<AmpOptimizerState>> states) {
  Receivers receivers;
  for (const auto& state : states)
    for (const Slot& slot : state->optimizer()->slots())
      if (GradientReceiver* const receiver = gradient_receiver(slot.param);
          receiver && std::find(receivers.begin(), receivers.end(), receiver) == receivers.end())
        receivers.push_back(receiver);
  return receivers;
}

const FoundInf& move_to(Device device, FoundInf& found_inf) {
  if (found_inf.word.defined() && found_inf.word.device() == device) return found_inf;
  const FoundInf moved = FoundInf::reset_on(device);
  if (found_inf.word.defined()) moved.word.copy_(found_inf.word);
  return found_inf = moved;
}

void unscale(std::vector<AxpbyTensors> items, const FoundInf& found_inf, const ScaleValue& scale) {
  for (auto from = items.begin(), to = from; from != items.end(); from = to) {
    const Device device = from->x.device();
    to = std::stable_partition(from, items.end(),
                               [&](const auto& item) { return item.x.device() == device; });
    const bool elsewhere = found_inf.word.defined() && device != found_inf.word.device();
    const FoundInf here = elsewhere ? FoundInf::reset_on(device) : found_inf;
    if (here.word.defined() ||
        std::any_of(from, to, [](const auto& item) { return item.out.defined(); }))
      optim::axpby({from, to}, scale.inverse(device), 1, here);
    if (elsewhere && here.raised()) {
      const NonfiniteWord first = std::max(here.location(), found_inf.location());
      upload(found_inf.word, &first, sizeof first);
    }
  }
}

// ---- several processes --------------------------------------------------------------------------

namespace {

// What one process tells the others, as numbers.
constexpr std::size_t kHasGradients = 0;
constexpr std::size_t kScale = 1;           // the loss scale
constexpr std::size_t kChecks = 2;          // the scaler's number of checks
constexpr std::size_t kLocal = 3;           // 1: its own gradients overflowed; 0: not; -1: unknown
constexpr std::size_t kHigh = 4, kLow = 5;  // the halves of the overflow flag
constexpr std::size_t kNumbers = 6;         // in all

void require_one_scale(std::span<const double> all) {
  for (std::size_t r = kNumbers; r < all.size(); r += kNumbers)
    if (all[r + kScale] != all[kScale] || all[r + kChecks] != all[kChecks])
      fail<CommError>("amp", {.what = "the loss scale differs",
                              .got = str(all[kScale], " on rank 0 after ", all[kChecks],
                                         " checks, ", all[r + kScale], " on rank ", r / kNumbers,
                                         " after ", all[r + kChecks], " checks")});
}

/** Returns where the first process was that had the overflow in its own gradients. */
std::string origin_of(std::span<const double> all) {
  for (std::size_t r = 0; r < all.size(); r += kNumbers)
    if (all[r + kLocal] < 0) return {};
  for (std::size_t r = 0; r < all.size(); r += kNumbers)
    if (all[r + kLocal] > 0) return str(", first on rank ", r / kNumbers);
  return ", on no rank alone: in the sum";
}

double found_local_overflow(const Receivers& receivers) {
  bool is_known = true, any = false;
  for (GradientReceiver* const receiver : receivers) {
    const std::optional<bool> one = receiver->found_local_overflow();
    is_known = is_known && one.has_value();
    any = any || one.value_or(false);
  }
  return any ? 1 : is_known ? 0 : -1;
}

}  // namespace

bool agree(const Receivers& receivers, LossScaler& scaler, const FoundInf& found_inf,
           bool has_gradients) {
  if (receivers.empty()) return has_gradients;
  NonfiniteWord first = found_inf.location();
  const std::array<double, kNumbers> mine{has_gradients ? 1.0 : 0.0,
                                          scaler.loss_scale(),
                                          static_cast<double>(scaler.state().checks),
                                          found_local_overflow(receivers),
                                          static_cast<double>(first >> 32),
                                          static_cast<double>(first & 0xffffffff)};
  const std::vector<double> all = receivers[0]->gather(mine);
  require_one_scale(all);
  for (std::size_t r = 0; r < all.size(); r += kNumbers) {
    has_gradients = has_gradients || all[r + kHasGradients] != 0;
    first = std::max(first, static_cast<NonfiniteWord>(all[r + kHigh]) << 32 |
                                static_cast<NonfiniteWord>(all[r + kLow]));
  }
  if (first != optim::kAllFinite) {
    scaler.overflow_origin = origin_of(all);
    upload(found_inf.word, &first, sizeof first);
  }
  return has_gradients;
}

// ---- the state of an optimizer ------------------------------------------------------------------

void refuse(std::string_view op, std::string what, std::string hint) {
  fail<StateError>(op, {.what = std::move(what), .hint = std::move(hint)});
}

AmpOptimizerState::AmpOptimizerState(std::shared_ptr<SessionCore> session, LossScaler* first_scaler,
                                     Optimizer& optimizer)
    : core(std::move(session)),
      step_state(optimizer.step_state().shared_from_this()),
      scaler(first_scaler) {
  if (scaler) {
    OptimizerTable& all = *scaler->optimizers;
    const auto free =
        std::find_if(all.begin(), all.end(), [](const auto& other) { return !other->owner(); });
    index = static_cast<std::size_t>(free - all.begin());
    if (free == all.end()) all.emplace_back();
    all[index] = step_state;
  }
  name = core ? str("optimizer ", index) : std::string(optimizer.type_name());
}

std::shared_ptr<AmpOptimizerState> AmpOptimizerState::of(Optimizer& optimizer) {
  auto* state = dynamic_cast<AmpOptimizerState*>(optimizer.hooks());
  return state ? state->shared_from_this() : nullptr;
}

// ---- scopes -------------------------------------------------------------------------------------

bool AmpOptimizerState::holds(const Tensor& leaf) const {
  return optimizer() && any_slot(*optimizer(), [&](const Slot& slot) {
           return slot.param.is_same(leaf) || slot.target().is_same(leaf);
         });
}

std::string AmpOptimizerState::pending_text() const {
  return str("loss ", pending->scaler->index, " times ", pending->value());
}

void AmpOptimizerState::refresh_pending() {
  if (!pending || any_slot(*optimizer(), [](const Slot& slot) {
        return gradient_scale(slot.param) == GradientScale::delayed;
      }))
    return;
  pending.reset();
  forget_earlier();
}

void AmpOptimizerState::forget_earlier() {
  if (!core->stash.empty())
    for (const Slot& slot : optimizer()->slots()) core->stash.erase(slot.param.impl());
}

// ---- the step -----------------------------------------------------------------------------------

void AmpOptimizerState::require_unscaled(std::string_view op) {
  refresh_pending();
  if (in_scope)
    refuse(op, "the gradients are still scaled: a scale_loss scope over this optimizer is open",
           "close the scope, or leave its block, before the step");
  if (pending)
    refuse(op,
           str("the gradients are still scaled: the last scale_loss delayed unscaling ",
               pending_text(), " in ", optimizer()->type_name(), " (", name, ")"),
           "run a scope without delay_unscale and call step(), or zero_grad() to drop them");
  const std::shared_ptr<AmpOptimizerState> self = shared_from_this();
  core->require_no_other_pending(op, {&self, 1});
}

void AmpOptimizerState::require_scoped(std::string_view op) {
  if (scoped || !core->scales_losses()) return;
  for (const Slot& slot : optimizer()->slots()) {
    if (!slot.param.grad().defined() || gradient_scale(slot.param) != GradientScale::plain ||
        std::any_of(core->optimizers.begin(), core->optimizers.end(),
                    [&](const auto* other) { return other->scoped && other->holds(slot.param); }))
      continue;
    const std::string weight = core->name_of(slot.param);
    fail<StateError>(
        op, {.what = "backward ran outside scale_loss: without the loss scale, small gradients "
                     "become zero in 16 bits",
             .got = str("a gradient of ", weight.empty() ? "" : "\"" + weight + "\" ", slot.param,
                        " from no scope of this optimizer"),
             .expected = "scale_loss(loss, optimizer, body) around backward, over all optimizers "
                         "whose parameters get gradients",
             .hint = "call zero_grad() to drop them"});
  }
}

void AmpOptimizerState::require_stepped(std::string_view op) {
  require_unscaled(op);
  const std::string of = str(" of ", optimizer()->type_name(), " (", name, ")");
  if (stored_error)
    refuse(op, "a previous scale_loss scope" + of + " failed", "call step(), which throws it");
  if (raised_by && found_inf.raised())
    refuse(op, "an overflow is pending for the next step" + of,
           "call step() first; it will be skipped");
  if (unscaled)
    refuse(op, "gradients are pending for a step" + of + " and would not be saved",
           "call step() first, or zero_grad() to drop them");
}

std::optional<StepResult> AmpOptimizerState::before_step(Optimizer& optimizer, FoundInf& of_step) {
  lent_.clear();
  end_ = {};
  if (!core->enabled()) return std::nullopt;
  if (stored_error) std::rethrow_exception(std::exchange(stored_error, nullptr));
  require_unscaled(str(optimizer.type_name(), ".step"));
  require_scoped(str(optimizer.type_name(), ".step"));
  step_state->observe(shared_from_this(), core->options.max_consecutive_skips);
  if (!Capture::current()) ++steps;
  if (raised_by) of_step = found_inf;
  if (optimizer.skips_now(of_step)) return StepResult::skipped;
  bring_masters_up_to_date(*core, optimizer);
  sync_masters_gradients(optimizer, str(optimizer.type_name(), ".step"));
  set_zero_gradients(optimizer);
  watch_gradients(std::exchange(finite_losses, {}));
  return std::nullopt;
}

Tensor AmpOptimizerState::low_copy(const Tensor& param) {
  const Tensor copy = core->cache.lend(param);
  if (copy.defined()) lent_.push_back(param);
  return copy;
}

void AmpOptimizerState::before_end(optim::StepEnd& end) {
  if (raised_by) raised_by->add_to(end, found_inf);
  end_ = end;
}

void AmpOptimizerState::after_step(Optimizer& optimizer, const StepResult& result) {
  for (const Tensor& param : lent_) core->cache.settle(param);
  lent_.clear();
  unscaled = false;
  if (raised_by) {
    scaler = std::exchange(raised_by, nullptr);
    scaler->finish_step(found_inf, end_);
  }
  if (!result.is_known() || result == StepResult::stepped) masters_in_step(*core, optimizer);
}

void AmpOptimizerState::watch_gradients(std::optional<bool> finite) {
  if (core->checks_gradients() || core->options.max_consecutive_skips == 0) return;
  if (Capture::current()) return;
  // All processes that share gradients have to look at the same steps.
  if (any_slot(*optimizer(),
               [](const Slot& slot) { return gradient_receiver(slot.param) != nullptr; }))
    finite.reset();
  watch_.step(*this, finite);
}

namespace {

/** Returns what to do about a training that diverges. */
std::string divergence_hint(const std::optional<LossHistory::Run>& nonfinite) {
  if (!nonfinite) return "lower the learning rate or run under amp::detect_nonfinite";
  if (nonfinite->from_start)
    return "the loss is not finite from the start, at any learning rate: look at the data, the "
           "labels and the net, under amp::detect_nonfinite";
  return str("the loss is not finite since step ", nonfinite->since,
             ": lower the learning rate, or look at the data of that step, under "
             "amp::detect_nonfinite");
}

/** Returns the first non-finite gradient of a scaler's latest overflow, and whether overflows are
 *  to be expected. */
std::string overflow_text(const LossScaler& scaler) {
  constexpr std::int64_t kStart = 20;  // checks until a scale of 2^16 has come down
  const ScaleState& state = scaler.state();
  const std::string gradient =
      nonfinite_gradient_text(*scaler.optimizers, state.first_nonfinite, scaler.overflow_origin);
  return str(gradient.empty() ? "" : ": " + gradient,
             state.dynamic && state.checks <= kStart
                 ? "; normal in the first steps, until the scale fits"
                 : "");
}

}  // namespace

void AmpOptimizerState::skips_found(Optimizer& optimizer, std::int64_t skips,
                                    std::int64_t diverged_after) {
  if (!core && diverged_after <= 0) return;
  const double scale = scaler->loss_scale();
  try {
    if (core)
      core->print(str("Gradient overflow.  Skipping step, loss scaler ", scaler->index,
                      " reducing loss scale to ", scale_text(scale),
                      skips == 1 ? "" : str(" (", skips, " steps since the last message)"),
                      overflow_text(*scaler)));
  } catch (const std::bad_alloc&) {}  // the step is done: better no message than an error
  if (diverged_after <= 0) return;
  const std::string first = nonfinite_gradient_text(optimizer), loss = scaler->losses.text();
  fail<DivergenceError>(str("step(", name, ")"),
                        {.what = str(diverged_after, " consecutive steps skipped"),
                         .got = str(first.empty() ? "no gradient that is still non-finite"
                                                  : first + " (first non-finite gradient)",
                                    loss.empty() ? "" : ", " + loss, ", loss scale ", scale),
                         .expected = "finite",
                         .hint = divergence_hint(scaler->losses.nonfinite_run())});
}

// ---- other hooks --------------------------------------------------------------------------------

void AmpOptimizerState::forget_gradients() {
  forget_earlier();
  pending.reset();
  unscaled = scoped = false;
}

void AmpOptimizerState::after_zero_grad(Optimizer& optimizer) {
  // In a delayed sequence a parameter whose gradient is local has none left. It has none on the
  // ranks either whose losses did not use it, so that all ranks take the same step.
  if (pending)
    for (const Slot& slot : optimizer.slots())
      if (gradient_receiver(slot.param)) slot.param.set_grad({});
  for (const Slot& slot : optimizer.slots())
    if (through_master(slot)) slot.master.set_grad({});
  forget_gradients();
}

void AmpOptimizerState::require_own(std::string_view op, const SessionCore* core,
                                    std::span<const Slot> slots,
                                    const std::function<std::string(const Tensor&)>& name_of) {
  for (const Slot& slot : slots) {
    const GradState* const state = find_grad_state(slot.param);
    if (!state || state->session_holders == 0 || state->session == core) continue;
    std::string weight = name_of(slot.param);
    if (weight.empty())
      weight = static_cast<const SessionCore*>(state->session)->name_of(slot.param);
    fail<StateError>(
        op, {.what = "a weight belongs to an optimizer of another session",
             .got = str(weight.empty() ? "a weight" : "\"" + weight + "\"", ", ", slot.param),
             .expected = "all optimizers of a weight in one session",
             .hint = "pass them to one amp::initialize, or close the other session"});
  }
}

void AmpOptimizerState::before_add(Optimizer&, std::span<Slot> slots) {
  if (!core->enabled()) return;
  require_own("add_param_group", core.get(), slots,
              [&](const Tensor& param) { return core->name_of(param); });
  MasterChanges changes(core->masters);
  create_masters(*core, slots, changes);
  for (const Slot& slot : slots) (void)grad_state(slot.param);  // below nothing may allocate
  changes.commit();
  for (const Slot& slot : slots) {
    GradState& state = grad_state(slot.param);
    state.session = core.get();
    ++state.session_holders;
  }
}

/** Updates the masters of 16-bit parameters that the program has written to, as a step does. */
void AmpOptimizerState::before_replay(Optimizer& optimizer) {
  bring_masters_up_to_date(*core, optimizer);
}

void AmpOptimizerState::after_replay(Optimizer& optimizer) {
  masters_in_step(*core, optimizer);
  if (!core->enabled()) return;
  ++steps;
  watch_gradients({});
}

void AmpOptimizerState::capture_abandoned(Optimizer&) noexcept {
  raised_by = nullptr;
  forget_gradients();
}

void AmpOptimizerState::detached(Optimizer& optimizer) noexcept {
  for (Slot& slot : optimizer.slots()) {
    slot.master = {};
    GradState* const state = find_grad_state(slot.param);
    if (state && state->session == core.get() && state->session_holders > 0)
      --state->session_holders;
  }
  std::erase(core->optimizers, this);
  step_state = nullptr;
}

}  // namespace mezzo::amp
