// NestedTrace: an observer that stands before those already there: what it does not look at itself goes on to them.
// Sees: dispatch.h.
// Read next: ../amp/detect_nonfinite.h, ../cuda/range.h (two of them).
#pragma once

#include "dispatch.h"

namespace mezzo {

/** This thread's observer until its end, with the one that was it before behind it. They end in the
 *  reverse order of their beginning; one that does not is taken out from between the others, and
 *  the log says so. */
class MZ_API NestedTrace : public TraceHook {
 public:
  NestedTrace(const NestedTrace&) = delete;
  NestedTrace& operator=(const NestedTrace&) = delete;

  void trace(const OpRow& row, Inputs in, Outputs out) override {
    if (outer_) outer_->trace(row, in, out);
  }
  void enter_forward(const OpRow& row) override {
    if (outer_) outer_->enter_forward(row);
  }
  void leave_forward(const OpRow& row) noexcept override {
    if (outer_) outer_->leave_forward(row);
  }
  void enter_backward(const OpRow& row) override {
    if (outer_) outer_->enter_backward(row);
  }
  void leave_backward(const OpRow& row, Inputs gy, Inputs gradients) override {
    if (outer_) outer_->leave_backward(row, gy, gradients);
  }

 protected:
  /** `out_of_order`: what the log says when it ends before one that began later. `observes`: false
   *  makes it one that is never called. */
  explicit NestedTrace(const char* out_of_order = "observers must end in reverse order of beginning",
                       bool observes = true)
      : outer_(thread_hooks().trace), out_of_order_(out_of_order), observes_(observes) {
    if (observes) thread_hooks().trace = this;
  }
  ~NestedTrace();

 private:
  TraceHook* outer_;
  const char* out_of_order_;
  bool observes_;
};

}  // namespace mezzo
