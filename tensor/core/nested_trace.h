// NestedTrace: a trace hook that forwards every call to the trace hook installed before it.
#pragma once

#include "dispatch.h"

namespace mezzo {

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
