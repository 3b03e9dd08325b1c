// The settings of one update of a parameter: the numbers that the formulas of updates/ use.
// Pointers refer to memory of the device that runs the update, so that a step needs no host
// synchronisation to read a norm. Parsed by g++ and by nvcc.
#pragma once

#include "clock.h"

namespace mezzo::optim {

/** Values that a step may read from its device: the learning rate and the parameter's
 *  clock. Null pointers: use the host's values. */
struct DeviceTime {
  const double* lr = nullptr;
  const ParamClock* clock = nullptr;

  /** Returns the device's value, or `of_host` if there is none. */
  MZ_HD double rate(double of_host) const { return lr ? *lr : of_host; }
  MZ_HD double correction1(double of_host) const { return clock ? clock->correction1 : of_host; }
  MZ_HD double correction2(double of_host) const { return clock ? clock->correction2 : of_host; }
};

/** Settings of SgdUpdate. */
struct SgdSettings {
  double lr, momentum, dampening, weight_decay;
  bool nesterov;
  bool first;               // the buffer is new and starts as the gradient
  bool decay_last = false;  // add weight decay after momentum instead of before
  DeviceTime time = {};
};

/** Settings of AdamUpdate. */
struct AdamSettings {
  double lr, beta1, beta2, eps, weight_decay;
  double correction1, correction2;  // 1 / (1 - beta^t), or 1: factors of the running means
  bool decoupled;
  DeviceTime time = {};
};

/** Settings of AdagradUpdate. */
struct AdagradSettings {
  double lr, eps, weight_decay;
  bool decoupled;
  DeviceTime time = {};
};

/** Settings of LambDirectionUpdate. */
struct LambSettings {
  double lr, beta1, beta2, beta3, eps, weight_decay;
  double correction1, correction2;
  double max_grad_norm;
  bool decoupled;
  bool adapts;  // the step length depends on the norms of parameter and direction
  const double* global_norm = nullptr;  // of all gradients; null: no clipping
  DeviceTime time = {};
};

/** Settings of LambStepUpdate. */
struct LambStepSettings {
  double lr;
  const double* param_norm = nullptr;  // null: the step length is lr
  const double* direction_norm = nullptr;
  DeviceTime time = {};
};

/** Settings of NovoGradNormUpdate. */
struct NovoGradNormSettings {
  double beta2;
  bool max_norm;  // largest magnitude instead of the L2 norm
  bool first;     // v starts as the first norm
};

/** Settings of NovoGradUpdate. */
struct NovoGradSettings {
  double lr, beta1, beta3, eps, weight_decay;
  double correction1, correction2;  // 1 / (1 - beta1^t) and 1 / sqrt(1 - beta2^t), or 1
  bool reg_inside_moment;
  const void* norm = nullptr;  // the tensor's running norm, in the compute dtype
  NovoGradNormSettings running = {};
  DeviceTime time = {};
};

/** Settings of LarcUpdate. */
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
