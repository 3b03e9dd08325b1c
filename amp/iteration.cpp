#include "iteration.h"

#include "../tensor/text.h"
#include "optimizer_link.h"

namespace mezzo::amp {

namespace {

void require_stepped(std::string_view op, const OptimizerLink& link) {
  const std::string which = str(link.optimizer()->type_name(), " (optimizer ", link.index(), ")");
  if (link.pending)
    fail<StateError>(op, {.what = "scaled gradients wait: the last scale_loss delayed unscaling",
                          .got = str("gradients times ", link.pending->scale, " of ", which),
                          .expected = "a point between a step and the next backward pass",
                          .hint = "run a scope without delay_unscale and call step(), or call zero_grad()"});
  if (link.stored_error)
    fail<StateError>(op, {.what = "an error waits that the end of a scale_loss scope met",
                          .got = which,
                          .hint = "call step(), which throws it"});
  if (link.will_skip())
    fail<StateError>(op, {.what = "an overflow waits for the step that it skips",
                          .got = which,
                          .hint = "call step() first, which skips itself"});
  bool waits = link.unstepped;
  for (std::size_t group = 0; group < link.optimizer()->num_groups(); ++group)
    for (const optim::Slot& slot : std::as_const(*link.optimizer()).slots(group))
      waits = waits || (slot.master.defined() && slot.master.grad().defined());
  if (waits)
    fail<StateError>(op, {.what = "gradients wait for a step, and are not saved",
                          .got = str("a finished scale_loss and no step of ", which),
                          .expected = "a point between a step and the next backward pass",
                          .hint = "call step() first, or zero_grad() to drop them"});
}

}  // namespace

void require_no_scope(std::string_view op, const SessionCore& session) {
  if (session.open_scopes > 0)
    fail<StateError>(op, {.what = "a scale_loss scope is open",
                          .expected = "a point between a step and the next backward pass",
                          .hint = "close the scope, or leave its block, and call step() first"});
}

void require_between_iterations(std::string_view op, const SessionCore& session) {
  require_no_scope(op, session);
  for (const OptimizerLink* link : session.optimizers) require_stepped(op, *link);
  for (const DeferredOverflow& deferred : session.deferred)
    if (deferred.found)
      fail<StateError>(op, {.what = "an overflow waits that a scope with delay_overflow_check found",
                            .hint = "run a scope without it and call step() first"});
}

void forget_iteration(SessionCore& session) {
  for (OptimizerLink* link : session.optimizers) link->forget_iteration();
  for (DeferredOverflow& deferred : session.deferred) deferred = {};
}

}  // namespace mezzo::amp
