#include "iteration.h"

#include "../../tensor/text/text.h"
#include "../scaling/amp_optimizer_state.h"

namespace mezzo::amp {

namespace {

void require_stepped(std::string_view op, const AmpOptimizerState& link) {
  const std::string which = str(link.optimizer()->type_name(), " (optimizer ", link.index(), ")");
  if (link.pending)
    fail<StateError>(
        op, {.what = "the gradients are still scaled: the last scale_loss delayed unscaling",
             .got = str("gradients of ", link.pending->text(), " in ", which),
             .expected = "a point between a step and the next backward pass",
             .hint = "run a scope without delay_unscale and call step(), or call zero_grad()"});
  if (link.stored_error)
    fail<StateError>(op, {.what = "a previous scale_loss scope failed",
                          .got = which,
                          .hint = "call step(), which throws it"});
  if (link.will_skip())
    fail<StateError>(op, {.what = "an overflow is pending for the next step",
                          .got = which,
                          .hint = "call step() first; it will be skipped"});
  bool has_gradients = link.unstepped;
  for (std::size_t group = 0; group < link.optimizer()->num_groups(); ++group)
    for (const optim::Slot& slot : std::as_const(*link.optimizer()).slots(group))
      has_gradients = has_gradients || (slot.master.defined() && slot.master.grad().defined());
  if (has_gradients)
    fail<StateError>(op, {.what = "gradients are pending for a step and would not be saved",
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
  for (const AmpOptimizerState* link : session.optimizers) require_stepped(op, *link);
  for (const std::vector<ScopeOverflow>& of_loss : session.overflows)
    for (const ScopeOverflow& delayed : of_loss)
      if (!delayed.optimizers.empty() && delayed.flag.raised())
        fail<StateError>(op,
                         {.what = "an overflow is pending from a scope with delay_overflow_check",
                          .hint = "run a scope without it and call step() first"});
}

void forget_iteration(SessionCore& session) {
  for (const LossScaler& scaler : session.scalers) (void)scaler.state();  // completes its checks
  for (AmpOptimizerState* link : session.optimizers) link->forget_iteration();
  for (std::vector<ScopeOverflow>& of_loss : session.overflows)
    for (ScopeOverflow& delayed : of_loss) {
      if (!delayed.optimizers.empty()) delayed.flag.reset();
      delayed.optimizers.clear();
    }
}

}  // namespace mezzo::amp
