// The casting state of a thread: its open guards, activated sessions and executing models, and the
// casts that the next op gets from them.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "../../tensor/core/dispatch.h"
#include "../policy.h"
#include "cast_cache.h"
#include "cast_stats.h"

namespace mezzo::amp {

struct CastLedger;

/** The part of a session that casting uses. Threads hold a reference while the session is active
 *  on them and check `live` before they use it. */
struct MZ_API CastingSession {
  virtual ~CastingSession() = default;

  std::atomic<bool> live{true};
  std::uint64_t number = 0;  // ascending: the most recent session has the greatest
  bool casts_ops = false;    // the level casts the inputs of ops
  DType low = f16;
  bool prints_casts = false;  // log every cast
  CastCache cache;
};

/** What automatic casts do to the next op on a thread. */
struct CastState {
  bool active = false;
  DType low = f16;
  bool from_guard = false;     // explicit guards refuse banned ops whatever their inputs
  bool prints = false;         // log every cast
  CastCache* cache = nullptr;  // null: no caching
  std::shared_ptr<CastingSession> session;  // the session that decided; null for a guard
};

/** An open guard; a node of the thread's stack of guards. */
struct GuardFrame {
  bool enabled = true;
  DType low = f16;
  bool cache_enabled = true;
  bool strict = true;  // refuses banned ops whatever their inputs; false for a session's state
                       // that custom_function restores
  GuardFrame* outer = nullptr;
};

/** The guards, activated sessions and executing models of one thread. */
class MZ_API ThreadCasts {
 public:
  /** Returns the calling thread's instance. */
  static ThreadCasts& here();

  /** Opens a guard; `frame` must outlive it. */
  void open(GuardFrame& frame);
  /** Closes the innermost guard. Closing the outermost one also drops the cached casts. */
  void close(GuardFrame& frame) noexcept;
  /** Returns the number of open guards. */
  int depth() const;

  /** Activates a session's op casts on this thread. */
  void activate(std::shared_ptr<CastingSession> session);
  /** Undoes the latest activate() of that session; does nothing if there is none. */
  void deactivate(const CastingSession& session) noexcept;
  bool activated(const CastingSession& session) const;
  /** Returns the most recently created live session among the activated ones, or null. */
  std::shared_ptr<CastingSession> current_session() const;

  /** Makes `session` decide about ops until leave_model(): a model it owns is executing. */
  void enter_model(std::shared_ptr<CastingSession> session);
  /** Ends the innermost enter_model(). */
  void leave_model() noexcept;

  /** Returns the state in force: that of the innermost guard, else of the executing model's
   *  session, else of the most recent activated session. Inactive where a CastScope switches
   *  casts off. */
  const CastState& state();

  CastLedger* ledger = nullptr;  // of the innermost trace

 private:
  friend class OpCasts;
  CastState resolve();
  void refresh();
  /** True if the session that `state_` came from has been closed. */
  bool outdated() const {
    return state_.session && !state_.session->live.load(std::memory_order_acquire);
  }

  GuardFrame* guard_ = nullptr;
  std::vector<std::shared_ptr<CastingSession>> sessions_;  // activated on this thread
  std::vector<std::shared_ptr<CastingSession>> models_;    // executing, innermost last
  CastCache region_cache_;                                 // of the outermost guard
  CastState state_;
};

/** Why a cast happens; shown by traces and logs. */
struct CastReason {
  std::string_view op;   // the op, or "model input" and "model output"
  std::string_view tag;  // the precision tag, or "model", "cast_inputs"
};

/** Receives every cast of a thread; see trace.h. */
struct MZ_API CastLedger {
  CastLedger* outer = nullptr;  // the ledger that was installed before this one

  /** Records a cast, or with `cached` a cast taken from the cache. */
  virtual void note(const CastReason& reason, const Tensor& from, const Tensor& to,
                    bool cached) = 0;

 protected:
  ~CastLedger() = default;
};

/** Casts x to another dtype if it is eligible, as a recorded op, and counts the cast. Weights come
 *  from the cache of `state` if it has one. With `late`, a cast from 16 bits to f32 waits until its
 *  result is read (op::late_to_f32). */
MZ_API Tensor cast_eligible(const Tensor& x, DType dtype, const CastState& state,
                            const CastReason& reason, bool late = false);

}  // namespace mezzo::amp
