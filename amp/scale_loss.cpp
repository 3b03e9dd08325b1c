#include "scale_loss.h"

#include <algorithm>
#include <exception>

#include "../autograd/grad_mode.h"
#include "../autograd/ops/create.h"
#include "../autograd/ops/operators.h"
#include "../tensor/log.h"
#include "../tensor/text.h"
#include "nonfinite_gradient.h"
#include "optimizer_link.h"

namespace mezzo::amp {

namespace {

constexpr std::string_view kOp = "amp::scale_loss";

[[noreturn]] void refuse(const std::string& what, const std::string& hint = {}) {
  fail<StateError>(kOp, {.what = what, .hint = hint});
}

using Links = std::vector<std::shared_ptr<OptimizerLink>>;

Links links_of(const OptimizerList& optimizers) {
  Links links;
  for (optim::Optimizer* optimizer : optimizers) {
    std::shared_ptr<OptimizerLink> link = OptimizerLink::of(*optimizer);
    if (!link)
      refuse(str(optimizer->type_name(), " is attached to no session"),
             "pass it to amp::initialize, and keep the session that returns");
    if (!links.empty() && link->core() != links[0]->core())
      refuse("the optimizers belong to different sessions");
    if (std::find(links.begin(), links.end(), link) == links.end()) links.push_back(std::move(link));
  }
  return links;
}

std::shared_ptr<SessionCore> core_of(const Links& links) {
  if (!links.empty()) return links[0]->core();
  auto session = std::dynamic_pointer_cast<SessionCore>(ThreadCasts::here().current_session());
  if (!session) refuse("there is no session", "call amp::initialize first and keep what it returns");
  return session;
}

/** One flag per device, raised where a gradient is not finite. */
class OverflowFlags {
 public:
  OverflowFlags() = default;
  /** One that is there already. */
  explicit OverflowFlags(const FoundInf& flag) : flags_{flag} {}
  FoundInf of(Device device) {
    for (const FoundInf& found : flags_)
      if (found.flag.device() == device) return found;
    return flags_.emplace_back(FoundInf{zeros({}, {.dtype = f32, .device = device}), {}});
  }
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
  bool deferred = false;  // scale and overflow stay on the device; `scale` only tells one from another then
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
  /** A static scale that skips nothing need not know: its flags are never read. */
  bool looks_for_overflow() const { return scaler().dynamic() || core->properties.check_static_overflow; }
  bool defers() const;
  bool unscale();
  void unscale_on_device();
  void raise_skips(DeferredOverflow& waiting, Device device);
  void run_unscale(const ScopeScale& by, OverflowFlags& flags);
  std::string culprit() const;
  void act_on(bool overflow);
  void exit_by_exception();
};

/** Of a scale on the device the host knows only how often it was checked: scopes between which nothing was met one scale. */
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
    if (link->in_scope) refuse("nested scale_loss over one optimizer", "close the outer scope first");
    if (link->pending && (link->pending->loss_id != options.loss_id || link->pending->scale != scale))
      refuse(str("scaled gradients wait that another scale made: loss ", link->pending->loss_id, " times ",
                 link->pending->scale),
             "use one loss_id until a scope without delay_unscale, or call zero_grad()");
  }
}

/** The default path of the levels without scaling and without masters costs nothing (AMP.md 6, entry 3). */
bool ScaledLoss::Scope::needs_no_scaling() const {
  const bool waiting =
      std::any_of(links.begin(), links.end(), [](const auto& link) { return link->pending.has_value(); });
  return !core->properties.masters() && !scaler().dynamic() && scale == 1 &&
         !core->properties.check_static_overflow && !waiting;
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

/** All or none. */
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

bool together(const UnscaleWork& p, const UnscaleWork& q) {
  return p.tensors.x.device() == q.tensors.x.device() && p.a == q.a && p.b == q.b && p.fresh == q.fresh;
}

/** Does the work, all that shares device and factors in one pass. */
void run_unscaling(std::vector<UnscaleWork> work, bool looks_for_overflow, OverflowFlags& flags) {
  while (!work.empty()) {
    const UnscaleWork first = work.front();
    const auto rest = std::stable_partition(work.begin(), work.end(),
                                            [&](const UnscaleWork& item) { return together(item, first); });
    std::vector<optim::AxpbyTensors> items;
    for (auto item = work.begin(); item != rest; ++item) items.push_back(item->tensors);
    const bool checked = first.fresh && looks_for_overflow;
    optim::axpby(items, first.a, first.b, checked ? optim::CheckFinite::x : optim::CheckFinite::none,
                 checked || !Capture::current() ? flags.of(first.tensors.x.device()) : FoundInf{});
    work.erase(work.begin(), rest);
  }
}

}  // namespace

/** Divides the gradients by the scale and merges them with the earlier ones. */
void ScaledLoss::Scope::run_unscale(const ScopeScale& by, OverflowFlags& flags) {
  const NoGrad no_grad;
  const CastScope no_casts(nullptr);
  Seen seen;
  std::vector<UnscaleWork> work;
  for (const auto& link : links) link->collect(seen, by, work);
  const bool low = std::any_of(work.begin(), work.end(), [](const UnscaleWork& item) {
    return !(item.a == optim::Factor(1)) && item.fresh && is_low(item.tensors.out.dtype());
  });
  if (low && !core->properties.masters() && !std::exchange(core->told_about_low_gradients, true))
    core->print(
        "scale_loss: unscaling 16-bit gradients in place; small ones may be lost, master_weights would keep "
        "them");
  run_unscaling(std::move(work), looks_for_overflow(), flags);
  for (const auto& link : links) {
    link->finish();
    link->pending.reset();
  }
}

/** True when a new gradient is seen not to be finite. */
bool ScaledLoss::Scope::unscale() {
  OverflowFlags flags;
  run_unscale({.of_host = scale, .inverse = 1 / scale}, flags);
  return flags.any();
}

/** Whether the scope can leave its answer on the device: with a scale that moves by one. */
bool ScaledLoss::Scope::defers() const {
  return core->defers() && looks_for_overflow() && scaler().dynamic();
}

/** What unscale() and act_on() do, on the device. One optimizer's check waits for its step, which does both in one launch. */
void ScaledLoss::Scope::unscale_on_device() {
  if (scale != -1 - static_cast<double>(scaler().device_checks()))
    fail<Unsupported>(kOp, {.what = "scopes of one loss scaler are nested while steps are deferred",
                            .hint = "close one before the next begins, or give them loss_ids of their own"});
  const Device device = loss.device();
  const Tensor divisor = scaler().on(device).scale(f64);
  DeferredOverflow& waiting = deferred_overflow();
  const bool alone =
      links.size() == 1 && !options.delay_overflow_check && !waiting.on_device && !links[0]->flagged;
  if (!waiting.flag.flag.defined() && !alone) waiting.flag = lowered_flag(device);
  const FoundInf flag = alone ? links[0]->skip_flag(device) : waiting.flag;
  OverflowFlags flags(flag);
  run_unscale({.of_device = divisor, .inverse = optim::Factor::over(1, divisor.data<double>())}, flags);
  if (alone) {
    links[0]->flagged = options.loss_id;
    return scaler().owe(flag);
  }
  waiting.optimizers.insert(waiting.optimizers.end(), links.begin(), links.end());
  waiting.on_device = options.delay_overflow_check;
  if (options.delay_overflow_check) return;
  raise_skips(waiting, device);
}

/** Moves the scale by the flag of this loss, and lets it raise the flags of all optimizers that took part. */
void ScaledLoss::Scope::raise_skips(DeferredOverflow& waiting, Device device) {
  std::vector<float*> raised;
  for (const auto& remembered : waiting.optimizers)
    if (const auto link = remembered.lock()) {
      raised.push_back(link->skip_flag(device).flag.data<float>());
      if (!link->flagged) link->flagged = options.loss_id;
    }
  for (std::size_t done = 0; done == 0 || done < raised.size(); done += ScaleCall::kMostRaised) {
    ScaleCall call = scaler().call();
    call.noted = of_device(waiting.flag);
    const std::size_t count = std::min<std::size_t>(raised.size() - done, ScaleCall::kMostRaised);
    std::copy_n(raised.begin() + static_cast<std::ptrdiff_t>(done), count, call.raised);
    call.moves = call.any = done + count >= raised.size();
    if (call.moves) call.lowered = of_device(waiting.flag);
    if (call.moves) scaler().count_check();
    scaler().run(call);
  }
  waiting.optimizers.clear();
}

/** The first gradient that is not finite; only asked for after an overflow. */
std::string ScaledLoss::Scope::culprit() const {
  for (const auto& link : links)
    if (link->optimizer())
      if (std::string text = nonfinite_gradient_text(*link->optimizer()); !text.empty()) return text;
  return {};
}

/** Moves the scale and marks the steps to skip, or leaves that to the next checked exit. */
void ScaledLoss::Scope::act_on(bool overflow) {
  DeferredOverflow& waiting = deferred_overflow();
  if (std::exchange(waiting.on_device, false) && is_raised(waiting.flag)) {
    const auto noted = static_cast<optim::BadValue::Word>(waiting.flag.first.item<std::int64_t>());
    if (!std::exchange(waiting.found, true)) waiting.culprit = core->name_of(optim::BadValue::of(noted));
  }
  if (options.delay_overflow_check) {
    if (overflow && !std::exchange(waiting.found, true)) waiting.culprit = culprit();
    if (overflow) waiting.optimizers.insert(waiting.optimizers.end(), links.begin(), links.end());
    return;
  }
  std::string first = waiting.found ? std::move(waiting.culprit) : overflow ? culprit() : "";
  overflow = overflow || waiting.found;
  const bool of_static = !scaler().dynamic() && core->properties.check_static_overflow && overflow;
  const bool skip = scaler().update(overflow, std::move(first)) || of_static;
  if (skip) {
    for (const auto& link : links) link->skip_next_step(options.loss_id);
    for (const auto& remembered : waiting.optimizers)
      if (const auto link = remembered.lock()) link->skip_next_step(options.loss_id);
  }
  waiting = {};
}

/** Errors: of unscaling; then the scope's gradients are dropped, as if the body had thrown. */
void ScaledLoss::Scope::exit() {
  if (!inert && options.delay_unscale) {
    for (const auto& link : links) link->pending = OptimizerLink::Pending{options.loss_id, scale};
  } else if (!inert) {
    try {
      // Once gradients are unscaled, nothing may fail.
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
    // Within a delayed sequence new and old gradients are one sum: they stay, and stay marked.
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

// ---- the handle ---------------------------------------------------------------------------------------------------------------

ScaledLoss::ScaledLoss(const Tensor& loss, const OptimizerList& optimizers, const ScaleLossOptions& options)
    : scope_(std::make_unique<Scope>()) {
  if (!loss.defined() || !is_floating(loss.dtype()))
    fail<DtypeError>(kOp, {.what = "only a floating tensor can be scaled", .got = str(loss)});
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
