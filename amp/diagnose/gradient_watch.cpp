#include "gradient_watch.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/memory/transfer.h"
#include "../../tensor/text/text.h"
#include "../scaling/gradients.h"
#include "../scaling/scale.h"
#include "nonfinite_gradient.h"
#include "unobserved.h"

namespace mezzo::amp {

using optim::NonfiniteWord;

namespace {

/** Returns the gradients that an update reads, numbered for a NonfiniteWord. */
std::vector<AxpbyTensors> gradients_to_check(const optim::Optimizer& optimizer, std::size_t index) {
  std::vector<AxpbyTensors> gradients;
  std::size_t position = 0;
  for (const optim::Slot& slot : optimizer.slots()) {
    const std::uint32_t number = gradient_number(index, position++);
    if (const Tensor grad = optimizer.gradient_of(slot); grad.defined())
      gradients.push_back({grad.detach(), {}, {}, number});
  }
  return gradients;
}

/** Returns true if a weight is not finite. Waits for the device. */
bool any_nonfinite_weight(const optim::Optimizer& optimizer) {
  std::vector<AxpbyTensors> weights;
  for (const Tensor& x : optimizer.params()) weights.push_back({x.detach()});
  const auto found = optim::FoundInf::reset_on(cpu);
  unscale(std::move(weights), found);
  return found.raised();
}

}  // namespace

void GradientWatch::step(AmpOptimizerState& state, std::optional<bool> finite_losses) {
  ++steps_;
  const bool due = finite_losses ? !*finite_losses : steps_ % kEvery == 0;
  if (read_) look(state, due);
  if (!due) return;
  const Unobserved quiet;
  const optim::Optimizer& optimizer = *state.optimizer();
  std::vector<AxpbyTensors> gradients = gradients_to_check(optimizer, state.index);
  if (gradients.empty()) return;
  const Device device = gradients[0].x.device();
  move_to(device, found_);
  found_.reset();
  unscale(std::move(gradients), found_);
  checked_ = steps_;
  read_ = read_later(found_.word, sizeof(NonfiniteWord));
  if (device == cpu) look(state, true);
}

void GradientWatch::look(AmpOptimizerState& state, bool waits) {
  if (!waits && !read_->arrived()) return;
  const std::unique_ptr<AsyncRead> read = std::move(read_);
  read->wait();
  const auto word = *static_cast<const NonfiniteWord*>(read->data());
  if (word == optim::kAllFinite) return;
  const Unobserved quiet;
  const std::string gradient = nonfinite_gradient_text(*state.scaler->optimizers, word, {}),
                    loss = state.scaler->losses.text();
  const bool is_this_step = checked_ == steps_ && found_.word.device() == cpu;
  const bool good_weights = is_this_step && !any_nonfinite_weight(*state.optimizer());
  fail<DivergenceError>(
      str("step(", state.name, ")"),
      {.what = good_weights ? str("a gradient of step ", checked_,
                                  " is not finite; the weights are finite still")
                            : str("gradients of step ", checked_,
                                  " are not finite, and weights since that step or an earlier one"),
       .got = str(gradient, " (first non-finite gradient)", loss.empty() ? "" : ", " + loss),
       .expected = "finite",
       .hint = str("run under amp::detect_nonfinite; ",
                   good_weights ? "zero_grad() drops the gradients, "
                                : "load a checkpoint of an earlier step, ",
                   "check_static_overflow skips such steps")});
}

}  // namespace mezzo::amp
