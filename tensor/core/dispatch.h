// run(): executes an op. Every op takes the same steps: cast hook, shape rule, kernel, autograd
// record, trace hook.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "op.h"

namespace mezzo {

/** The hook through which automatic mixed precision casts an op's inputs. */
struct MZ_API CastHook {
  /** Replaces inputs by recorded casts of them, or throws if the op is banned. */
  virtual void cast(const OpInfo& info, std::span<Tensor> in, bool in_place) = 0;
  /** Returns true if the op is cast by its own precision tag, false if a user override applies. */
  virtual bool keeps_tag(const OpInfo&) const { return true; }
  /** Drops cached casts, because a captured step needs its own. */
  virtual void forget_casts() {}

 protected:
  ~CastHook() = default;
};

/** The hook that observes every finished op: used by the cast ledger, profilers and the search for
 *  non-finite values. */
struct MZ_API TraceHook {
  /** Called after an op with its inputs and outputs. */
  virtual void trace(const OpInfo& info, Inputs in, Outputs out) = 0;
  /** Called before an op. Each call is paired with one of leave_forward(); pairs nest if the op
   *  calls others. trace() is called in between, or not at all if the op throws. */
  virtual void enter_forward(const OpInfo&) {}
  /** Called after an op, also if it threw. */
  virtual void leave_forward(const OpInfo&) noexcept {}
  /** Called before the backward rule of a recorded op. Each call is paired with one of
   *  leave_backward(); pairs may nest. Ops that the rule calls are traced in between. */
  virtual void enter_backward(const OpInfo&) {}
  /** Called after the backward rule, also if it threw. `gy` are the gradients of the op's outputs.
   *  `gradients` are those of its inputs, undefined where not requested; the span is empty if the
   *  rule threw. */
  virtual void leave_backward(const OpInfo&, Inputs /*gy*/, Inputs /*gradients*/) {}
  /** Called when a TraceRange opens. The name is valid during the call only. Ranges nest, also with
   *  ops and backward rules. */
  virtual void enter_range(std::string_view /*name*/) {}
  /** Called when the innermost TraceRange closes, also if it was opened before this hook. */
  virtual void leave_range() noexcept {}
  /** Returns true if the hook reads the results of each op, so that ops must not run fused with
   *  others; false if it measures what runs without it. */
  virtual bool needs_single_ops() const { return true; }

 protected:
  ~TraceHook() = default;
};

/** The hooks and switches of this thread that every op reads. Change them only through scopes
 *  (GradMode, CastScope, autocast, ...). */
struct ThreadHooks {
  CastHook* cast = nullptr;    // casts the inputs of ops; null: no casting
  TraceHook* trace = nullptr;  // the innermost trace hook; null: none
  bool grad_enabled = true;    // false: ops are not recorded for backward
  /** True inside a composite, a backward pass or a step: guards opened there cannot enable
   *  casting. */
  bool casts_barred = false;
};

/** Returns the hooks of this thread. */
MZ_API ThreadHooks& thread_hooks();

/** Returns whether ops on this thread are recorded for the backward pass. */
inline bool grad_enabled() { return thread_hooks().grad_enabled; }

/** Returns true if a trace hook of this thread reads the results of each op. */
inline bool needs_single_ops() {
  const TraceHook* hook = thread_hooks().trace;
  return hook && hook->needs_single_ops();
}

/** A scope that names work that is not an op, such as "Adam.step", for this thread's trace hooks:
 *    const TraceRange range("read a batch");
 *  Does nothing without a hook. */
class TraceRange {
 public:
  /** Opens the range. `name` need not outlive the call. */
  explicit TraceRange(std::string_view name) {
    if (TraceHook* hook = thread_hooks().trace) hook->enter_range(name);
  }
  ~TraceRange() {
    if (TraceHook* hook = thread_hooks().trace) hook->leave_range();
  }
  TraceRange(const TraceRange&) = delete;             // Not copyable.
  TraceRange& operator=(const TraceRange&) = delete;  // Not copyable.
};

/** A scope that replaces this thread's cast hook. nullptr disables casting and prevents guards
 *  inside the scope from enabling it. */
class CastScope {
 public:
  /** Installs `hook` on this thread; the destructor restores the previous hook. `hook` must outlive
   *  the scope and is not owned. */
  explicit CastScope(CastHook* hook)
      : previous_(thread_hooks().cast), was_barred_(thread_hooks().casts_barred) {
    thread_hooks().cast = hook;
    thread_hooks().casts_barred = hook == nullptr;
  }
  ~CastScope() {
    thread_hooks().cast = previous_;
    thread_hooks().casts_barred = was_barred_;
  }
  CastScope(const CastScope&) = delete;             // Not copyable.
  CastScope& operator=(const CastScope&) = delete;  // Not copyable.

 private:
  CastHook* previous_;
  bool was_barred_;
};

/** Sets the recording of gradients on this thread until the end of the scope. Scopes nest. */
class GradMode {
 public:
  /** Turns recording on this thread on or off; the destructor restores the previous mode. */
  explicit GradMode(bool enabled) : previous_(thread_hooks().grad_enabled) {
    thread_hooks().grad_enabled = enabled;
  }
  ~GradMode() { thread_hooks().grad_enabled = previous_; }
  GradMode(const GradMode&) = delete;             // Not copyable.
  GradMode& operator=(const GradMode&) = delete;  // Not copyable.

 private:
  bool previous_;
};

/** Turns recording off until the end of the scope, for evaluation and parameter updates. */
class NoGrad : GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

/** Turns recording and casts off until the end of the scope, for the library's own arithmetic on
 *  parameters, gradients and states. */
class NoGradNoCasts {
  GradMode no_grad_{false};
  CastScope no_casts_{nullptr};
};

/** Runs an op. `in` is modified: casts replace its entries. `out` receives the results. */
MZ_API void run(const OpInfo& info, std::span<Tensor> in, std::span<Tensor> out, const void* attrs);

/** Runs an op on a copy of `in`, which may have any length. */
MZ_API void run_list(const OpInfo& info, std::span<const Tensor> in, std::span<Tensor> out,
                     const void* attrs);

/** Runs an op so that its result overwrites in[0]. Nothing is written if it throws. Errors:
 *  StateError for a leaf that requires a gradient; ShapeError or DtypeError if the result does not
 *  fit in[0]; ValueError if elements of in[0] share memory. */
MZ_API void run_in_place(const OpInfo& info, std::span<Tensor> in, const void* attrs);

/** Returns the shape and dtype of an elementwise op's result, by broadcasting and type
 *  promotion. */
MZ_API OutSpecs infer_elementwise(const OpInfo& info, Inputs in, const void* attrs);

/** Returns the memory format of a result of this shape by the op's channels-last rule. Undefined
 *  operands are ignored. All results get their format here. */
MZ_API MemoryFormat kept_format(ChannelsLast rule, Inputs in, const Shape& shape);

/** Returns the dtype that several operands promote to: bool < integer < floating by category.
 *  Within the highest category dimensioned tensors take precedence over 0-dim tensors, and these
 *  over C++ numbers. Undefined operands are ignored. */
MZ_API DType promoted_dtype(Inputs in);

// ---- defined in autograd/; only declared here ---------------------------------------------------

/** Attaches a graph node for the op to its outputs. */
void record(const OpInfo& info, Inputs in, Outputs out, const void* attrs);
/** Records that `view` is a view of `base`, so that an in-place write through either updates the
 *  graph of both. */
void remember_view(const Tensor& base, const Tensor& view);
/** Checks that `self` may be overwritten while gradients are recorded, and returns a handle to its
 *  previous place in the graph. */
Tensor begin_in_place(const OpInfo& info, const Tensor& self);

// ---- calling an op by its struct ----------------------------------------------------------------

/** Returns the first result of Op on the given operands. */
template <class Op, class... Ts>
requires(std::same_as<Ts, Tensor> && ...)
Tensor apply_with(const AttrsOf<Op>& attrs, const Ts&... operands) {
  static_assert(is_op<Op>());
  Tensor in[] = {operands...};
  std::array<Tensor, Op::traits.outputs> out;
  run(op_info<Op>, in, out, &attrs);
  return std::move(out[0]);
}

/** Returns the first result of an Op without attributes. */
template <class Op, class... Ts>
requires(std::same_as<Ts, Tensor> && ...)
Tensor apply(const Ts&... operands) {
  return apply_with<Op>(AttrsOf<Op>{}, operands...);
}

/** Returns all results of Op, including those that only the gradient needs. */
template <class Op, class... Ts>
requires(std::same_as<Ts, Tensor> && ...)
std::array<Tensor, Op::traits.outputs> apply_all(const AttrsOf<Op>& attrs, const Ts&... operands) {
  Tensor in[] = {operands...};
  std::array<Tensor, Op::traits.outputs> out;
  run(op_info<Op>, in, out, &attrs);
  return out;
}

/** Returns the first two results of Op as a Pair, a struct of two tensors. */
template <class Pair, class Op, class... Ts>
Pair apply_pair(const AttrsOf<Op>& attrs, const Ts&... operands) {
  auto results = apply_all<Op>(attrs, operands...);
  return {std::move(results[0]), std::move(results[1])};
}

/** Returns the first result of Op on a list of operands. */
template <class Op> Tensor apply_list(const AttrsOf<Op>& attrs, std::span<const Tensor> operands) {
  static_assert(is_op<Op>());
  std::array<Tensor, Op::traits.outputs> out;
  run_list(op_info<Op>, operands, out, &attrs);
  return std::move(out[0]);
}

/** Overwrites `self` with the result of Op, and returns `self`. */
template <class Op, class... Ts>
requires(std::same_as<Ts, Tensor> && ...)
const Tensor& apply_in_place(const AttrsOf<Op>& attrs, const Tensor& self, const Ts&... others) {
  Tensor in[] = {self, others...};
  run_in_place(op_info<Op>, in, &attrs);
  return self;
}

/** Records an op whose result overwrites `self`, then calls write(data). The graph is extended
 *  first, because that allocates memory. If either throws, `self` keeps its place in the graph and
 *  its version. Defined in autograd/. */
void recorded_write(const OpInfo& info, Inputs in, Tensor& self, const void* attrs,
                    void (*write)(void* data), void* data);

/** A trace hook that is installed on this thread for its lifetime and forwards to the previously
 *  installed one. Hooks should be destroyed in the reverse order of construction; one destroyed out
 *  of order is unlinked from the chain, and an error is logged. */
class MZ_API NestedTrace : public TraceHook {
 public:
  NestedTrace(const NestedTrace&) = delete;
  NestedTrace& operator=(const NestedTrace&) = delete;

  void trace(const OpInfo& info, Inputs in, Outputs out) override {
    if (outer_) outer_->trace(info, in, out);
  }
  void enter_forward(const OpInfo& info) override {
    if (outer_) outer_->enter_forward(info);
  }
  void leave_forward(const OpInfo& info) noexcept override {
    if (outer_) outer_->leave_forward(info);
  }
  void enter_backward(const OpInfo& info) override {
    if (outer_) outer_->enter_backward(info);
  }
  void leave_backward(const OpInfo& info, Inputs gy, Inputs gradients) override {
    if (outer_) outer_->leave_backward(info, gy, gradients);
  }
  void enter_range(std::string_view name) override {
    if (outer_) outer_->enter_range(name);
  }
  void leave_range() noexcept override {
    if (outer_) outer_->leave_range();
  }
  bool needs_single_ops() const override {
    return reads_results_ || (outer_ && outer_->needs_single_ops());
  }

 protected:
  /** Installs the hook. `out_of_order` is logged if the hook is destroyed before one that was
   *  constructed later. With `observes` false the hook is not installed and never called. */
  explicit NestedTrace(
      const char* out_of_order = "trace hooks must be destroyed in reverse order of construction",
      bool observes = true)
      : outer_(thread_hooks().trace), out_of_order_(out_of_order), observes_(observes) {
    if (observes) thread_hooks().trace = this;
  }
  ~NestedTrace();
  /** Lets ops run fused, unless an outer hook reads their results. */
  void allow_fused_ops() { reads_results_ = false; }

 private:
  TraceHook* outer_;
  const char* out_of_order_;
  bool observes_;
  bool reads_results_ = true;
};

}  // namespace mezzo
