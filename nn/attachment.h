// What mixed precision may attach to a module. This room calls it and knows nothing else about it.
// Sees: tensor.
// Read next: model.h (who calls it), state_dict.h (the rules), ../amp (who implements it).
#pragma once

#include <optional>

#include "../tensor/pending_writes.h"
#include "../tensor/tensor.h"

namespace mezzo::nn {

/** Surrounds every call of a module: begin, cast_in for each tensor of the arguments, forward, cast_out for each tensor of the result, end. */
class MZ_API CallWrapper {
 public:
  virtual ~CallWrapper() = default;

  /** Called on the executing thread, before the arguments are cast; calls nest. */
  virtual void begin() {}
  /** Called in reverse order, also when forward threw. */
  virtual void end() noexcept {}
  virtual Tensor cast_in(const Tensor& x) const { return x; }
  virtual Tensor cast_out(const Tensor& y) const { return y; }
  /** The dtype that arguments and results which can convert themselves (`T T::to(DType) const`) are given; none leaves them alone. */
  virtual std::optional<DType> dtype_in() const { return {}; }
  virtual std::optional<DType> dtype_out() const { return {}; }
};

/** What a parameter or buffer is saved as and loaded from, where that is not its own value: a low parameter and its f32 master. */
class MZ_API StateRule {
 public:
  virtual ~StateRule() = default;

  /** The value a state_dict shows for `tensor`. The caller copies it. */
  virtual Tensor save(const Tensor& tensor) const = 0;
  /** Adds what a load of `value` (same shape, any floating dtype) writes into `tensor` and what
   *  stands behind it. Throws nothing but for want of memory: the whole load was checked before. */
  virtual void stage(const Tensor& tensor, const Tensor& value, PendingWrites& writes) const = 0;
  /** The staged load of `tensor` was written. */
  virtual void loaded(const Tensor& tensor) const noexcept = 0;
};

}  // namespace mezzo::nn
