#include "custom_function.h"

#include "../../autograd/recompute.h"
#include "casting.h"
#include "overrides.h"

namespace mezzo::amp {

RecordedCasts RecordedCasts::here() {
  const CastState& state = ThreadCasts::here().state();
  return {.active = state.active,
          .low = state.low,
          .cache_enabled = state.cache != nullptr,
          .from_guard = state.from_guard,
          .overrides = OverriddenTags::here()};
}

namespace detail {

/** The guard that restores the recorded state, and the thread's hooks before it. */
struct RecordedScope::State {
  CastHook* hook;
  bool barred;
  GuardFrame frame;
  std::unique_ptr<policy_override> overrides;
};

RecordedScope::RecordedScope(const RecordedCasts& recorded) : state_(new State) {
  ThreadHooks& hooks = thread_hooks();
  state_->hook = hooks.cast;
  state_->barred = hooks.casts_barred;
  state_->frame = {.enabled = recorded.active,
                   .low = recorded.low,
                   .cache_enabled = recorded.cache_enabled,
                   .strict = recorded.from_guard,
                   .outer = nullptr};
  state_->overrides = OverriddenTags::restore(recorded.overrides.get());
  hooks.casts_barred = false;
  ThreadCasts::here().open(state_->frame);
}

RecordedScope::~RecordedScope() {
  ThreadCasts::here().close(state_->frame);
  state_->overrides.reset();
  thread_hooks().cast = state_->hook;
  thread_hooks().casts_barred = state_->barred;
}

namespace {

struct RecordedForRegion final : CastRecord {
  RecordedCasts recorded = RecordedCasts::here();

  void run(void (*f)(void*), void* data) const override {
    const RecordedScope scope(recorded);
    f(data);
  }
};

}  // namespace

void record_casts_for_recompute() {
  set_cast_recorder(
      []() -> std::shared_ptr<const CastRecord> { return std::make_shared<RecordedForRegion>(); });
}

Tensor CastTo::operator()(const Tensor& x) const {
  const CastState uncached;
  return cast_eligible(x, dtype, uncached, {"custom_function", "cast_inputs"});
}

}  // namespace detail

}  // namespace mezzo::amp
