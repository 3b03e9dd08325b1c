// run(): the one road every op takes: cast hook -> shape rule -> kernel -> autograd record -> trace hook.
// Sees: op.h.
// Read next: elementwise.h and ops/*.h (the ops), autograd/record.cpp (what recording does).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "op.h"

namespace mezzo {

/** Automatic mixed precision plugs in here: may replace inputs by recorded casts of them, or throw. */
struct MZ_API CastHook {
  virtual void cast(const OpRow& row, std::span<Tensor> in, bool in_place) = 0;
  /** Whether the op is cast by its own tag now, not by one that a user gave it. */
  virtual bool keeps_tag(const OpRow&) const { return true; }
  /** Drops casts that are kept for reuse: a captured step makes its own. */
  virtual void forget_casts() {}

 protected:
  ~CastHook() = default;
};

/** Sees every finished op: the cast ledger, profilers, the hunter of non-finite values. */
struct MZ_API TraceHook {
  virtual void trace(const OpRow& row, Inputs in, Outputs out) = 0;
  /** Around an op, in pairs that nest where one calls others; it is traced in between, or never where it throws. */
  virtual void enter_forward(const OpRow&) {}
  virtual void leave_forward(const OpRow&) noexcept {}
  /** Around the rule of a recorded op in a backward pass, in pairs that may nest; ops that the rule calls are traced in between. `gradients` are of
   *  the op's inputs, undefined where none is wanted; there are none when the rule threw. */
  virtual void enter_backward(const OpRow&) {}
  virtual void leave_backward(const OpRow&, Inputs /*gy*/, Inputs /*gradients*/) {}

 protected:
  ~TraceHook() = default;
};

/** What this thread's ops pass through. Change it through scopes only (GradMode, CastScope, autocast, ...). */
struct ThreadHooks {
  CastHook* cast = nullptr;
  TraceHook* trace = nullptr;
  bool grad_enabled = true;
  bool casts_barred =
      false;  // inside a composite, a backward pass, a step: no guard opened there switches casting on
};
MZ_API ThreadHooks& thread_hooks();

/** Replaces this thread's cast hook until the end of the scope; nullptr switches casting off and bars it. */
class CastScope {
 public:
  explicit CastScope(CastHook* hook)
      : previous_(thread_hooks().cast), was_barred_(thread_hooks().casts_barred) {
    thread_hooks().cast = hook;
    thread_hooks().casts_barred = hook == nullptr;
  }
  ~CastScope() {
    thread_hooks().cast = previous_;
    thread_hooks().casts_barred = was_barred_;
  }
  CastScope(const CastScope&) = delete;
  CastScope& operator=(const CastScope&) = delete;

 private:
  CastHook* previous_;
  bool was_barred_;
};

/** Runs an op. `in` is the callee's to change (casts replace entries); `out` receives the results. */
MZ_API void run(const OpRow& row, std::span<Tensor> in, std::span<Tensor> out, const void* attrs);

/** Runs an op so that its result overwrites in[0]. Errors: StateError for a leaf that requires a gradient, ShapeError or DtypeError where the
 *  result does not fit, ValueError where elements of in[0] share memory; nothing is written then. */
MZ_API void run_in_place(const OpRow& row, std::span<Tensor> in, const void* attrs);

/** Generic shape rule of the elementwise ops: broadcasting and promotion (OPS.md 9.1, 9.2). */
MZ_API OutSpecs infer_elementwise(const OpRow& row, Inputs in, const void* attrs);

/** How a result of this shape lies in memory by a rule about its operands (undefined ones are passed over). Nobody else decides it. */
MZ_API MemoryFormat kept_format(ChannelsLast rule, Inputs in, const Shape& shape);

/** The dtype several operands promote to: by category bool < integer < floating; within it 0-dim tensors and numbers yield to dimensioned
 *  tensors (OPS.md 9.1). Undefined operands are passed over. */
MZ_API DType promoted_dtype(Inputs in);

// ---- defined in autograd/, which this room knows only by these names --------------------------------------------------

/** Attaches a graph node for the op to its outputs. */
void record(const OpRow& row, Inputs in, Outputs out, const void* attrs);
/** Notes that `view` shows elements of `base`, so that an in-place write through either reaches the graph of both. */
void remember_view(const Tensor& base, const Tensor& view);
/** Checks that `self` may be overwritten while gradients are recorded, and returns a handle that stands for its old place in the graph. */
Tensor begin_in_place(const OpRow& row, const Tensor& self);

// ---- calling an op by its struct ----------------------------------------------------------------------------------

/** The first result of Op on the given operands. */
template <class Op, class... Ts>
requires(std::same_as<Ts, Tensor>&&...) Tensor apply_with(const AttrsOf<Op>& attrs, const Ts&... operands) {
  Tensor in[] = {operands...};
  std::array<Tensor, Op::traits.outputs> out;
  run(row<Op>, in, out, &attrs);
  return std::move(out[0]);
}

template <class Op, class... Ts>
requires(std::same_as<Ts, Tensor>&&...) Tensor apply(const Ts&... operands) {
  return apply_with<Op>(AttrsOf<Op>{}, operands...);
}

/** Every result of Op, those that only the gradient wants included. */
template <class Op, class... Ts>
requires(std::same_as<Ts, Tensor>&&...) std::array<Tensor, Op::traits.outputs> apply_all(
    const AttrsOf<Op>& attrs, const Ts&... operands) {
  Tensor in[] = {operands...};
  std::array<Tensor, Op::traits.outputs> out;
  run(row<Op>, in, out, &attrs);
  return out;
}

/** The first result of an op on a list of operands. */
template <class Op> Tensor apply_list(const AttrsOf<Op>& attrs, std::span<const Tensor> operands) {
  std::vector<Tensor> in(operands.begin(), operands.end());
  std::array<Tensor, Op::traits.outputs> out;
  run(row<Op>, in, out, &attrs);
  return std::move(out[0]);
}

/** Op's result written over `self`. */
template <class Op, class... Ts>
requires(std::same_as<Ts, Tensor>&&...) const Tensor& apply_in_place(const AttrsOf<Op>& attrs,
                                                                     const Tensor& self,
                                                                     const Ts&... others) {
  Tensor in[] = {self, others...};
  run_in_place(row<Op>, in, &attrs);
  return self;
}

}  // namespace mezzo
