#include "casting.h"

#include <algorithm>
#include <iterator>

#include "../../tensor/core/guard_list.h"
#include "../../tensor/ops/loss/cross_entropy.h"
#include "../../tensor/ops/shape/copy.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"
#include "custom_function.h"
#include "overrides.h"

namespace mezzo::amp {

namespace {

CastStats& counters() {
  static thread_local CastStats stats;
  return stats;
}

}  // namespace

CastStats cast_stats() { return counters(); }

namespace {

// Runs before any recomputation: every program that casts links this file.
[[maybe_unused]] const bool kRecomputeHookInstalled = (detail::record_casts_for_recompute(), true);

}  // namespace

// ---- which state decides -----------------------------------------------------------------------

ThreadCasts& ThreadCasts::here() {
  static thread_local ThreadCasts instance;
  return instance;
}

std::shared_ptr<CastingSession> ThreadCasts::current_session() const {
  std::shared_ptr<CastingSession> latest;
  for (const std::shared_ptr<CastingSession>& session : sessions_)
    if (session->live && (!latest || session->number > latest->number)) latest = session;
  return latest;
}

bool ThreadCasts::activated(const CastingSession& session) const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [&](const auto& s) { return s.get() == &session; });
}

CastState ThreadCasts::resolve() {
  if (guard_)
    return {.active = guard_->enabled,
            .low = guard_->low,
            .from_guard = guard_->strict,
            .prints = false,
            .cache = guard_->cache_enabled ? &region_cache_ : nullptr,
            .session = nullptr};
  std::shared_ptr<CastingSession> chosen;
  if (!models_.empty() && models_.back()->live) {
    chosen = models_.back();
    if (!chosen->casts_ops || !activated(*chosen)) return {.active = false, .session = chosen};
  } else {
    for (const std::shared_ptr<CastingSession>& session : sessions_)
      if (session->live && session->casts_ops && (!chosen || session->number > chosen->number))
        chosen = session;
  }
  if (!chosen) return {};
  return {.active = true,
          .low = chosen->low,
          .from_guard = false,
          .prints = chosen->prints_casts,
          .cache = &chosen->cache,
          .session = chosen};
}

namespace {

/** Runs f and ignores exceptions, for exits of guards that must not throw. A state that cannot be
 *  resolved is off. */
template <class F> void without_throwing(const F& f) noexcept {
  try {
    f();
  } catch (...) {}
}

bool contains_only_live(const std::vector<std::shared_ptr<CastingSession>>& sessions) {
  return std::all_of(sessions.begin(), sessions.end(),
                     [](const auto& s) { return s->live.load(); });
}

}  // namespace

void ThreadCasts::open(GuardFrame& frame) {
  frame.outer = guard_;
  guard_ = &frame;
  refresh();
}

void ThreadCasts::close(GuardFrame& frame) noexcept {
  close_guard(guard_, frame, &GuardFrame::outer,
              "autocast: guards must close in reverse order of opening");
  without_throwing([&] {
    if (!guard_) region_cache_.clear();
    refresh();
  });
}

int ThreadCasts::depth() const {
  int depth = 0;
  for (const GuardFrame* frame = guard_; frame; frame = frame->outer) ++depth;
  return depth;
}

void ThreadCasts::activate(std::shared_ptr<CastingSession> session) {
  if (!contains_only_live(sessions_))
    std::erase_if(sessions_, [](const auto& s) { return !s->live; });
  sessions_.push_back(std::move(session));
  refresh();
}

void ThreadCasts::deactivate(const CastingSession& session) noexcept {
  const auto last = std::find_if(sessions_.rbegin(), sessions_.rend(),
                                 [&](const auto& s) { return s.get() == &session; });
  if (last != sessions_.rend()) sessions_.erase(std::next(last).base());
  without_throwing([&] { refresh(); });
}

void ThreadCasts::enter_model(std::shared_ptr<CastingSession> session) {
  models_.push_back(std::move(session));
  refresh();
}

void ThreadCasts::leave_model() noexcept {
  models_.pop_back();
  without_throwing([&] { refresh(); });
}

const CastState& ThreadCasts::state() {
  static const CastState off;
  if (thread_hooks().casts_barred) return off;
  if (outdated()) refresh();
  return state_;
}

// ---- the casts ---------------------------------------------------------------------------------

Tensor cast_eligible(const Tensor& x, DType dtype, const CastState& state, const CastReason& reason,
                     bool late) {
  if (!x.defined() || x.dtype() == dtype || !eligible(x.dtype())) return x;
  CastLedger* ledger = ThreadCasts::here().ledger;
  const bool cached = state.cache && CastCache::admits(x, dtype);
  bool is_new = false;
  const Tensor found = cached ? state.cache->find(x, dtype, &is_new) : Tensor{};
  if (found.defined() && !is_new) {
    ++counters().cache_hits;
    if (ledger) ledger->note(reason, x, found, true);
    return found;
  }
  const Tensor cast = is_new                                      ? found
                      : cached                                    ? state.cache->cast(x, dtype)
                      : late && dtype == f32 && is_low(x.dtype()) ? op::late_to_f32(x)
                                                                  : x.to(dtype);
  if (ledger) ledger->note(reason, x, cast, false);
  ++counters().casts;
  counters().bytes += cast.numel() * static_cast<std::int64_t>(item_size(dtype));
  if (state.prints) log_text(Severity::info, str(x.dtype(), "->", dtype, " (", reason.op, ")"));
  return cast;
}

namespace {

[[noreturn]] void refuse_banned(const OpInfo& op, std::span<const Tensor> in) {
  std::vector<Tensor> given;
  std::copy_if(in.begin(), in.end(), std::back_inserter(given),
               [](const Tensor& x) { return x.defined(); });
  fail<DtypeError>(
      op.traits.name,
      {.what = "gradient may not fit f16",
       .got = str(std::span<const Tensor>(given)),
       .expected = "casts off",
       .hint = "use binary_cross_entropy_with_logits, disable_casts with f32 inputs, or a "
               "policy override"});
}

[[noreturn]] void refuse_in_place(const OpInfo& op, const Tensor& self) {
  fail<DtypeError>(str(op.traits.name, "_"), {.what = "in-place form of a full-precision op",
                                              .got = str(self),
                                              .expected = "f32",
                                              .hint = str("use ", op.traits.name, "(x)")});
}

/** The rule for banned ops under a session: an error only for a 16-bit input. */
bool any_low(std::span<const Tensor> in) {
  return std::any_of(in.begin(), in.end(),
                     [](const Tensor& x) { return x.defined() && is_low(x.dtype()); });
}

bool any_floating(std::span<const Tensor> in) {
  return std::any_of(in.begin(), in.end(),
                     [](const Tensor& x) { return x.defined() && is_floating(x.dtype()); });
}

void cast_all(const OpInfo& op, std::span<Tensor> in, DType dtype, const CastState& state) {
  const CastReason reason{op.traits.name, name(effective_tag(op))};
  const bool widens_itself = &op == &op_info<mezzo::op::CrossEntropy>;
  for (Tensor& x : in) x = cast_eligible(x, dtype, state, reason, widens_itself);
}

}  // namespace

/** The cast hook of dispatch. All threads share one object; the state is per thread. */
class OpCasts final : public CastHook {
 public:
  bool keeps_tag(const OpInfo& op) const override {
    return effective_tag(op) == op.traits.precision;
  }
  void forget_casts() override {
    ThreadCasts& here = ThreadCasts::here();
    here.region_cache_.clear();
    for (const auto& session : here.sessions_) session->cache.clear();
  }
  void cast(const OpInfo& op, std::span<Tensor> in, bool in_place) override {
    const Precision tag = effective_tag(op);
    const Action what = action(tag, true);
    const bool natively =
        what == Action::promote && tag == op.traits.precision;  // the op promotes by itself
    if (what == Action::keep || natively) return;
    ThreadCasts& thread = ThreadCasts::here();
    if (thread.outdated()) thread.refresh();
    const CastState& state = thread.state_;
    if (!state.active) return;
    if (what == Action::refuse) {
      if (state.from_guard ? any_floating(in) : any_low(in)) refuse_banned(op, in);
    } else if (in_place) {
      cast_in_place(op, in, what, state);
    } else {
      cast_all(op, in, target(what, in, state), state);
    }
  }

 private:
  static DType target(Action what, std::span<const Tensor> in, const CastState& state) {
    if (what == Action::promote) return promoted_dtype(in);
    return what == Action::to_low ? state.low : f32;
  }

  /** Casts the other operands. The result has self's dtype, so self is never cast. */
  static void cast_in_place(const OpInfo& op, std::span<Tensor> in, Action what,
                            const CastState& state) {
    const DType self = in[0].dtype();
    if (what == Action::to_f32 && is_low(self)) refuse_in_place(op, in[0]);
    if (what == Action::to_f32 || eligible(self))
      cast_all(op, in.subspan(1), what == Action::to_f32 ? f32 : self, state);
  }
};

void ThreadCasts::refresh() {
  static OpCasts hook;
  state_ = resolve();
  ThreadHooks& hooks = thread_hooks();
  if (!hooks.casts_barred) hooks.cast = state_.active ? &hook : nullptr;
}

}  // namespace mezzo::amp
