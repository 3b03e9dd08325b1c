// strong_wolfe: a line search with the strong Wolfe conditions. Private to optim/.
#pragma once

#include <cstdint>
#include <functional>

#include "../tensor/core/tensor.h"

namespace mezzo::optim {

/** A point on the line x + t d, and what the loss is there. */
struct LinePoint {
  double t;      // distance from x, in lengths of d
  double loss;   // value of the loss
  double slope;  // its derivative along d
  Tensor grad;   // its gradient
};

/** Options of strong_wolfe. */
struct LineSearchOptions {
  double first = 1;                  // the first t
  double largest_step = 0;           // largest magnitude in d
  double tolerance_change = 1e-9;    // brackets whose largest step is smaller end the search
  std::int64_t max_evaluations = 0;  // of `at`; one more is made for the first t
};

/** Returns a point at which the loss is smaller and its slope flatter than at `start`, where t is
 *  0, or the best point that was found. `at` evaluates the loss at a t and is called at least once;
 *  `evaluations` becomes the number of calls. Source: Nocedal and Wright, Numerical optimization,
 *  2006, section 3.5; torch.optim.LBFGS (constants and interpolation). */
LinePoint strong_wolfe(const std::function<LinePoint(double t)>& at, const LinePoint& start,
                       const LineSearchOptions& options, std::int64_t& evaluations);

}  // namespace mezzo::optim
