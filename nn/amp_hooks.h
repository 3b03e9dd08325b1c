// Interfaces that mixed precision attaches to modules: CallWrapper, StateRule and AttachedSession.
// nn/ only calls them; amp/ implements them.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "../tensor/core/pending_writes.h"
#include "../tensor/core/tensor.h"

namespace mezzo::nn {

/** Hooks around every call of a module. Order: begin, cast_in for each tensor of the arguments,
 *  forward, cast_out for each tensor of the result, end. */
class MZ_API CallWrapper {
 public:
  virtual ~CallWrapper() = default;

  /** Runs on the calling thread before the arguments are cast. Calls nest. */
  virtual void begin() {}
  /** Runs after the result is cast, in reverse order of begin(), also when forward threw. */
  virtual void end() noexcept {}
  /** Returns the cast of a tensor of the arguments. */
  virtual Tensor cast_in(const Tensor& x) const { return x; }
  /** Returns the cast of a tensor of the result. */
  virtual Tensor cast_out(const Tensor& y) const { return y; }
  /** Returns the dtype for arguments of types with their own conversion (`T T::to(DType) const`).
   *  An empty optional leaves them unchanged. */
  virtual std::optional<DType> dtype_in() const { return {}; }
  /** Returns the dtype for such types in the result. */
  virtual std::optional<DType> dtype_out() const { return {}; }
};

/** Rule for saving and loading a tensor whose saved value is not its own value, such as a
 *  low-precision parameter that has an f32 master. */
class MZ_API StateRule {
 public:
  virtual ~StateRule() = default;

  /** Returns the value that a state_dict holds for `tensor`. The caller copies it. */
  virtual Tensor save(const Tensor& tensor) const = 0;
  /** Adds the writes that load `value` (same shape, any floating dtype) into `tensor` and its
   *  master. Fails only if memory runs out, because the whole load was checked before. */
  virtual void stage(const Tensor& tensor, const Tensor& value, PendingWrites& writes) const = 0;
  /** Runs after the staged load of `tensor` was written. */
  virtual void loaded(const Tensor& tensor) const noexcept = 0;
};

/** The session of mixed precision that a module belongs to. */
class MZ_API AttachedSession {
 public:
  /** Returns level, options, loss scales and optimizers, one per line. Processes that train
   *  together need equal texts. */
  virtual std::string description() const = 0;
  /** Returns true if 16-bit parameters have f32 masters, which get their gradients from
   *  scale_loss. */
  virtual bool has_masters() const = 0;
  /** Returns true if scale_loss looks for overflows in the gradients. */
  virtual bool checks_gradients() const = 0;
  /** Called after zero_grad() of a module of the session, with its parameters. */
  virtual void gradients_removed(std::span<const Tensor> params) const = 0;

 protected:
  ~AttachedSession() = default;
};

}  // namespace mezzo::nn
