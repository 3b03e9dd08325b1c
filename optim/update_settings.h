// What one update of a parameter runs with: the numbers that the formulas of updates/ take. Pointers lead to the memory of the device that
// the update runs on, so that nobody waits for a norm to arrive at the host.
// Sees: nothing. Parsed by g++ and by nvcc.
// Read next: updates/update.h.
#pragma once

namespace mezzo::optim {

struct SgdSettings {
  double lr, momentum, dampening, weight_decay;
  bool nesterov;
  bool first;               // the buffer is new and starts as the gradient
  bool decay_last = false;  // weight decay joins after momentum instead of before
};

struct AdamSettings {
  double lr, beta1, beta2, eps, weight_decay;
  double correction1, correction2;  // 1 / (1 - beta^t), or 1: what the means are multiplied by
  bool decoupled;
};

struct AdagradSettings {
  double lr, eps, weight_decay;
  bool decoupled;
};

struct LambSettings {
  double lr, beta1, beta2, beta3, eps, weight_decay;
  double correction1, correction2;
  double max_grad_norm;
  bool decoupled;
  bool adapts;                          // the step's length follows the norms of parameter and direction
  const double* global_norm = nullptr;  // of all gradients; null: no clipping
};

struct LambStepSettings {
  double lr;
  const double* param_norm = nullptr;  // null: a step of lr whatever the norms
  const double* direction_norm = nullptr;
};

struct NovoGradNormSettings {
  double beta2;
  bool max_norm;  // largest magnitude instead of the L2 norm
  bool first;     // v starts as the first norm
};

struct NovoGradSettings {
  double lr, beta1, beta3, eps, weight_decay;
  double correction1, correction2;  // 1 / (1 - beta1^t) and 1 / sqrt(1 - beta2^t), or 1
  bool reg_inside_moment;
  const void* norm = nullptr;  // the tensor's running norm, in the type of its arithmetic
  NovoGradNormSettings running = {};
};

struct LarcSettings {
  double lr, weight_decay, trust_coefficient, eps;
  bool clip;
  const double* param_norm = nullptr;
  const double* grad_norm = nullptr;
};

struct AdagradUpdate;
struct AdamUpdate;
struct LambDirectionUpdate;
struct NovoGradUpdate;
struct SgdUpdate;

}  // namespace mezzo::optim
