// GradientReceiver: takes the gradients of leaves from backward passes and combines them with those
// of other processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "node.h"

namespace mezzo {

namespace comm {
class Communicator;
}

/** What a receiver has for a leaf besides its gradient. */
struct ReceivedGradient {
  Tensor wide = {};   // replaces the leaf's gradient, in a wider dtype; undefined: none
  double factor = 1;  // still has to multiply the gradient
};

/** Takes the new gradients of leaves (GradState::receiver) over from backward(). grad() ignores
 *  it. */
class MZ_API GradientReceiver {
 public:
  /** Returns how many receivers this process had made before. */
  std::uint64_t number() const { return number_; }

  /** A pass begins that reaches leaves of this receiver: `indices`, each once, in no particular
   *  order. Called again in a pass inside that pass. */
  virtual void begin_backward(std::span<const std::size_t> indices) = 0;
  /** Takes the complete gradient that a pass has computed for a leaf, after the leaf's hooks; has
   *  to add it to the leaf's gradient at the end of the outermost pass. Returns false to leave that
   *  to the engine. */
  virtual bool receive(std::size_t index, Tensor& gradient) = 0;

  /** Returns true if the leaf's gradient contains parts that were not combined with those of the
   *  other processes. */
  virtual bool has_unreduced(std::size_t index) const = 0;
  /** Returns what unscaling has to take into account. */
  virtual ReceivedGradient received(std::size_t index) const = 0;
  /** Drops parts of the leaf's gradient that were not combined, and what else is kept for it: the
   *  gradient becomes one that all processes have, or that none has. Called before the gradient is
   *  replaced. */
  virtual void drop_local(std::size_t index) = 0;
  /** Returns the leaf's name, for messages. */
  virtual const std::string& name(std::size_t index) const = 0;

  /** Returns the processes whose gradients are combined. */
  virtual const comm::Communicator& ranks() const = 0;
  /** Returns these numbers of all processes, one process after the other: processes that share
   *  gradients agree with them whether to skip a step. */
  virtual std::vector<double> gather(std::span<const double> numbers) = 0;
  /** Returns whether gradients of this process had a non-finite value before they were combined;
   *  nothing if they were not checked. The next pass checks them. */
  virtual std::optional<bool> found_local_overflow() = 0;

 protected:
  GradientReceiver();
  ~GradientReceiver() = default;
  GradientReceiver(const GradientReceiver&) = delete;
  GradientReceiver& operator=(const GradientReceiver&) = delete;

 private:
  std::uint64_t number_;
};

/** Returns the receiver of a leaf's gradients; null if there is none. */
inline GradientReceiver* gradient_receiver(const Tensor& leaf) {
  const GradState* state = find_grad_state(leaf);
  return state ? state->receiver : nullptr;
}

/** Returns what the leaf's receiver has for it. */
inline ReceivedGradient received_gradient(const Tensor& leaf) {
  const GradState* state = find_grad_state(leaf);
  if (!state || !state->receiver) return {};
  return state->receiver->received(state->receiver_index);
}

/** Throws if the leaf's gradient contains parts that were not combined with those of the other
 *  processes. `hint` says what to do. Errors: StateError naming the leaf. */
MZ_API void require_reduced(const Tensor& leaf, std::string_view op, std::string_view hint);

/** Drops parts of the leaf's gradient that were not combined with those of the other processes.
 * Call it before replacing the gradient. */
MZ_API void drop_local_gradient(const Tensor& leaf);

}  // namespace mezzo
