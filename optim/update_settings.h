// What one update of a parameter runs with: the numbers that the formulas of updates.h take.
// Sees: nothing. Parsed by g++ and by nvcc.
// Read next: updates.h.
#pragma once

namespace mezzo::optim {

struct SgdSettings {
  double lr, momentum, dampening, weight_decay;
  bool nesterov;
  bool first;  // the buffer is new and starts as the gradient
};

struct AdamSettings {
  double lr, beta1, beta2, eps, weight_decay;
  double correction1, correction2;  // 1 / (1 - beta^t), or 1: what the means are multiplied by
  bool decoupled;
};

struct SgdUpdate;
struct AdamUpdate;

}  // namespace mezzo::optim
