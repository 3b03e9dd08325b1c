// RecomputedRegion: ops that do not keep what their backward needs, but have it computed again when it is asked for.
// Sees: tensor.
// Read next: recompute.cpp, op_node.cpp (who saves through it), ../nn/checkpoint.h (the call that users make).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "../tensor/tensor.h"

namespace mezzo {

struct SavedTensor;

/** The casting state of a moment, kept by mixed precision, which alone knows what it is. */
struct MZ_API CastRecord {
  virtual ~CastRecord() = default;
  /** Calls f(data) in that state, inside a backward pass too. */
  virtual void run(void (*f)(void*), void* data) const = 0;
};
using CastRecorder = std::shared_ptr<const CastRecord> (*)();
/** Where the record of the calling thread's state comes from; a program without mixed precision has none. */
MZ_API void set_cast_recorder(CastRecorder recorder);

/** Runs a function once forward and again in the backward pass. In the first run the ops inside number what they would save and let it go,
 *  but for the arguments and for leaves, which live anyway. The first of these tensors that a backward pass asks for makes the function run
 *  again, under the random and the casting state of the first run; each tensor is handed out once, then it has to be computed anew. The graph
 *  is that of the first run: parameters, hooks and derivatives of derivatives are as without. */
class MZ_API RecomputedRegion : public RefCounted {
 public:
  virtual ~RecomputedRegion();

  /** What a node made now keeps of x; without a tensor where it is to ask value(). */
  SavedTensor keep(const Tensor& x);
  /** The tensor of that number, its version behind the op included. Errors: StateError where an argument was modified in place since, or where the
   *  second run saves other tensors than the first. */
  SavedTensor value(std::uint32_t slot);

  /** The region that this thread's ops save through; null outside of all. */
  static RecomputedRegion* current();
  /** Whether it is computing again. */
  static bool computing_again();

  /** A run of the function on this thread, from here to the end of the scope. */
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
  /** Made before the first run: notes the states it will find. */
  explicit RecomputedRegion(std::span<const Tensor> arguments);
  virtual void run_again(std::span<const Tensor> arguments) = 0;

 private:
  struct State;
  void compute_again();
  void run_in_recorded_state();

  std::unique_ptr<State> state_;
};

}  // namespace mezzo
