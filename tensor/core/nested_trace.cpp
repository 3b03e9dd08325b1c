#include "nested_trace.h"

#include "../text/log.h"

namespace mezzo {

NestedTrace::~NestedTrace() {
  if (!observes_) return;
  TraceHook*& innermost = thread_hooks().trace;
  if (innermost == this) {
    innermost = outer_;
    return;
  }
  log_text(Severity::error, out_of_order_);
  for (auto* inner = dynamic_cast<NestedTrace*>(innermost); inner;
       inner = dynamic_cast<NestedTrace*>(inner->outer_))
    if (inner->outer_ == this) inner->outer_ = outer_;
}

}  // namespace mezzo
