// The casting state of a thread: which guards, sessions and models are at work, and what that means for the next op.
// Sees: policy.h, cast_cache.h.
// Read next: casting.cpp (the precedence, and the casts themselves), autocast.h (the guard), session.h.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "../tensor/dispatch.h"
#include "cast_cache.h"
#include "cast_stats.h"
#include "policy.h"

namespace mezzo::amp {

struct CastLedger;

/** What a session contributes to casting. Threads hold it while it is active there, and look at `live` before they follow it. */
struct MZ_API CastingSession {
  virtual ~CastingSession() = default;

  std::atomic<bool> live{true};
  std::uint64_t number = 0;  // sessions count up: the greatest is the most recent
  bool casts_ops = false;
  DType low = f16;
  bool prints_casts = false;
  CastCache cache;
};

/** What the next op meets. */
struct CastState {
  bool active = false;
  DType low = f16;
  bool from_guard = false;  // explicit guards refuse banned ops whatever their inputs
  bool prints = false;
  CastCache* cache = nullptr;               // absent: the cache is off
  std::shared_ptr<CastingSession> session;  // where it comes from, unless from a guard
};

/** An open guard. */
struct GuardFrame {
  bool enabled = true;
  DType low = f16;
  bool cache_enabled = true;
  bool strict = true;  // refuses banned ops whatever their inputs; a session's state put back does not
  GuardFrame* outer = nullptr;
};

/** One thread's guards, activated sessions and executing models. */
class MZ_API ThreadCasts {
 public:
  static ThreadCasts& here();

  void open(GuardFrame& frame);
  /** Closes the innermost guard; the outermost one takes the casts of weights along. */
  void close(GuardFrame& frame) noexcept;
  int depth() const;

  void activate(std::shared_ptr<CastingSession> session);
  void deactivate(const CastingSession& session) noexcept;
  bool activated(const CastingSession& session) const;
  /** The most recently created live session among the activated; null when there is none. */
  std::shared_ptr<CastingSession> current_session() const;

  void enter_model(std::shared_ptr<CastingSession> session);
  void leave_model() noexcept;

  /** The state that decides now (AMP.md 5.1); inactive where casts are barred. */
  const CastState& state();

  CastLedger* ledger = nullptr;  // of the innermost trace

 private:
  friend class OpCasts;
  CastState resolve();
  void refresh();
  bool outdated() const { return state_.session && !state_.session->live.load(std::memory_order_acquire); }

  GuardFrame* guard_ = nullptr;
  std::vector<std::shared_ptr<CastingSession>> sessions_;  // activated on this thread
  std::vector<std::shared_ptr<CastingSession>> models_;    // executing, innermost last
  CastCache region_cache_;                                 // of the outermost guard
  CastState state_;
};

/** Why something is cast: for which op, or at which door, and by which rule. */
struct CastReason {
  std::string_view op;
  std::string_view rule;
};

/** Writes down casts; see trace.h. */
struct MZ_API CastLedger {
  CastLedger* outer = nullptr;  // the one that was the thread's before

  virtual void note(const CastReason& reason, const Tensor& from, const Tensor& to, bool cached) = 0;

 protected:
  ~CastLedger() = default;
};

/** x in another dtype if it is eligible: a recorded op, counted. Weights come from the cache of `state`, where it has one. */
MZ_API Tensor cast_eligible(const Tensor& x, DType dtype, const CastState& state, const CastReason& reason);

}  // namespace mezzo::amp
