// SGD: stochastic gradient descent with momentum, dampening, Nesterov's variant and weight decay.
// Sees: optimizer_of.h.
// Read next: updates.h (the formula).
#pragma once

#include <array>

#include "optimizer_of.h"

namespace mezzo::optim {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;      // factor of the running direction
  double dampening = 0;     // share of the gradient that does not enter it
  double weight_decay = 0;  // L2: this times the weight joins the gradient
  bool nesterov = false;    // looks one step ahead along the running direction
};

struct MZ_API SgdRule {
  using Options = SgdOptions;
  using Update = SgdUpdate;
  static constexpr std::string_view type_name = "SGD";
  static constexpr std::array<std::string_view, 1> state_names{"momentum_buffer"};

  static void check(const Options& options);
  static bool keeps_state(const Options& options) { return options.momentum != 0; }
  static SgdSettings settings(const Options& options, std::int64_t step, bool fresh);
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit("lr", o.lr);
    visit("momentum", o.momentum);
    visit("dampening", o.dampening);
    visit("weight_decay", o.weight_decay);
    visit("nesterov", o.nesterov);
  }
};

extern template class MZ_API OptimizerOf<SgdRule>;

/** Per step, with g the gradient plus weight_decay * p: the buffer becomes g at a parameter's first update, then
 *  momentum * buffer + (1 - dampening) * g; p -= lr * buffer, under Nesterov lr * (g + momentum * buffer), without momentum lr * g.
 *  Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64; one rounding per step.
 *  Errors: ValueError for a negative option, for Nesterov without momentum or with dampening.
 *  Source: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013. */
class MZ_API SGD final : public OptimizerOf<SgdRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
