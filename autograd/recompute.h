// RecomputedRegion: ops whose saved tensors are recomputed in the backward pass (activation
// checkpointing).
// See also: nn/recompute.h (the public call).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "../tensor/core/pointers.h"
#include "../tensor/core/tensor.h"

namespace mezzo {

struct SavedTensor;

/** A snapshot of a thread's casting state, implemented by mixed precision. */
struct MZ_API CastRecord {
  virtual ~CastRecord() = default;
  /** Calls f(data) in that state, also inside a backward pass. */
  virtual void run(void (*f)(void*), void* data) const = 0;
};
/** Returns a snapshot of the calling thread's casting state. */
using CastRecorder = std::shared_ptr<const CastRecord> (*)();
/** Sets the function that takes snapshots. Without mixed precision there is none. */
MZ_API void set_cast_recorder(CastRecorder recorder);

/** A function that runs once in the forward pass and again in the backward pass.
 *  In the first run the ops number the tensors they would save, and save only arguments and leaves,
 *  which stay alive anyway. When a backward pass needs one of the other tensors, the function runs
 *  again with the random state and the casting state of the first run. Each tensor is returned
 *  once; a second request recomputes it. The graph is that of the first run, so parameters, hooks
 *  and higher derivatives work as without recomputation. */
class MZ_API RecomputedRegion : public RefCounted {
 public:
  virtual ~RecomputedRegion();

  /** Returns what a node saves of x: the tensor, or a slot for value(). */
  SavedTensor keep(const Tensor& x);
  /** Returns the tensor of a slot, with its version after the op. Errors: StateError where an
   *  argument was modified in place since, or where the second run saves other tensors than the
   *  first. */
  SavedTensor value(std::uint32_t slot);

  /** Returns the region that this thread's ops save through, or null outside of regions. */
  static RecomputedRegion* current();

  /** A run of the function on this thread, until the end of the scope. */
  class MZ_API Run {
   public:
    Run(RecomputedRegion& region, bool again);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   private:
    friend class RecomputedRegion;
    RecomputedRegion& region_;
    Run* outer_;
    const bool again_;
    std::uint32_t next_slot_ = 0;
  };

 protected:
  /** Records the random state and the casting state; called before the first run. */
  explicit RecomputedRegion(std::span<const Tensor> arguments);
  /** Runs the function on the arguments. */
  virtual void run_again(std::span<const Tensor> arguments) = 0;

 private:
  struct State;
  void compute_again();
  void run_in_recorded_state();

  Owner<State> state_;
};

}  // namespace mezzo
