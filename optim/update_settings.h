// What one update of a parameter runs with: the numbers that the formulas of updates/ take. Pointers lead to the memory of the device that
// the update runs on, so that nobody waits for a norm to arrive at the host.
// Sees: clock.h. Parsed by g++ and by nvcc.
// Read next: updates/update.h.
#pragma once

#include "clock.h"

namespace mezzo::optim {

/** What a step that nobody waits for takes from its device: the learning rate and the parameter's clock. Null: the host's numbers hold. */
struct DeviceTime {
  const double* lr = nullptr;
  const ParamClock* clock = nullptr;

  MZ_HD double rate(double of_host) const { return lr ? *lr : of_host; }
  MZ_HD double correction1(double of_host) const { return clock ? clock->correction1 : of_host; }
  MZ_HD double correction2(double of_host) const { return clock ? clock->correction2 : of_host; }
};

struct SgdSettings {
  double lr, momentum, dampening, weight_decay;
  bool nesterov;
  bool first;               // the buffer is new and starts as the gradient
  bool decay_last = false;  // weight decay joins after momentum instead of before
  DeviceTime time = {};
};

struct AdamSettings {
  double lr, beta1, beta2, eps, weight_decay;
  double correction1, correction2;  // 1 / (1 - beta^t), or 1: what the means are multiplied by
  bool decoupled;
  DeviceTime time = {};
};

struct AdagradSettings {
  double lr, eps, weight_decay;
  bool decoupled;
  DeviceTime time = {};
};

struct LambSettings {
  double lr, beta1, beta2, beta3, eps, weight_decay;
  double correction1, correction2;
  double max_grad_norm;
  bool decoupled;
  bool adapts;                          // the step's length follows the norms of parameter and direction
  const double* global_norm = nullptr;  // of all gradients; null: no clipping
  DeviceTime time = {};
};

struct LambStepSettings {
  double lr;
  const double* param_norm = nullptr;  // null: a step of lr whatever the norms
  const double* direction_norm = nullptr;
  DeviceTime time = {};
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
  DeviceTime time = {};
};

struct LarcSettings {
  double lr, weight_decay, trust_coefficient, eps;
  bool clip;
  const double* param_norm = nullptr;
  const double* grad_norm = nullptr;
  DeviceTime time = {};
};

struct AdagradUpdate;
struct AdamUpdate;
struct LambDirectionUpdate;
struct NovoGradUpdate;
struct SgdUpdate;

}  // namespace mezzo::optim
