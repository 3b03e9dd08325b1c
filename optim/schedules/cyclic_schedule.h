// Learning-rate schedules that rise and fall: OneCycleLR, CyclicLR, CosineAnnealingWarmRestarts.
#pragma once

#include <cstdint>
#include <optional>

#include "schedule.h"

namespace mezzo::optim {

/** Half cosine waves from base to eta_min, each of which is t_mult times as long as the one before.
 *  Source: Loshchilov, Hutter, SGDR: stochastic gradient descent with warm restarts, 2017. */
struct MZ_API CosineAnnealingWarmRestarts {
  std::int64_t t_0 = 0;     // steps of the first wave; required
  std::int64_t t_mult = 1;  // ratio of the lengths of two waves
  double eta_min = 0;       // lowest rate
  /** Throws ValueError unless t_0 >= 1, t_mult >= 1 and eta_min is finite and >= 0. */
  void check() const;
  /** Returns the learning rate at a step, from the initial rate `base`. */
  double operator()(std::int64_t step, double base) const;
};

/** How OneCycleLR goes from one rate to another. */
enum class Annealing : std::uint8_t { cos, linear };

/** A rise from max_lr / div_factor to max_lr, then a fall to max_lr / (div_factor *
 *  final_div_factor). The initial rates of the optimizer do not matter. Momentum falls while the
 *  rate rises, and the reverse. After total_steps the last rate stays. Source: Smith, Topin,
 *  Super-convergence, 2018; torch.optim.lr_scheduler.OneCycleLR (options and defaults). */
struct MZ_API OneCycleLR {
  double max_lr = -1;            // highest rate; required
  std::int64_t total_steps = 0;  // steps of the whole cycle; required
  double pct_start = 0.3;        // part of the steps in which the rate rises, in [0, 1]
  Annealing anneal_strategy = Annealing::cos;  // shape of the rise and of the fall
  bool cycle_momentum = true;                  // change the momentum, too
  double base_momentum = 0.85;                 // momentum at the highest rate
  double max_momentum = 0.95;                  // momentum at the lowest rates
  double div_factor = 25;                      // max_lr / first rate
  double final_div_factor = 1e4;               // first rate / last rate
  bool three_phase = false;  // fall to the first rate as fast as it rose, then to the last
  /** Throws ValueError for an option that is missing or out of range. */
  void check() const;
  /** Returns the learning rate at a step; `base` does not matter. */
  double operator()(std::int64_t step, double base) const;
  /** Returns the momentum at a step; nothing without cycle_momentum. */
  std::optional<double> momentum(std::int64_t step) const;
};

/** How the height of CyclicLR's cycles changes. */
enum class CyclicMode : std::uint8_t {
  triangular,   // not at all
  triangular2,  // halved in each cycle
  exp_range,    // times gamma in each step
};

/** Straight lines from base_lr to max_lr and back. The initial rates of the optimizer do not
 * matter. Momentum falls while the rate rises, and the reverse. Source: Smith, Cyclical learning
 * rates for training neural networks, 2017; torch.optim.lr_scheduler.CyclicLR (options and
 * defaults). */
struct MZ_API CyclicLR {
  double base_lr = -1;                       // lowest rate; required
  double max_lr = -1;                        // highest rate of the first cycle; required
  std::int64_t step_size_up = 2000;          // steps of a rise
  std::int64_t step_size_down = 0;           // steps of a fall; 0: as many as of a rise
  CyclicMode mode = CyclicMode::triangular;  // how the height changes
  double gamma = 1;                          // of exp_range
  bool cycle_momentum = true;                // change the momentum, too
  double base_momentum = 0.8;                // momentum at the highest rate
  double max_momentum = 0.9;                 // momentum at the lowest rate
  /** Throws ValueError for an option that is missing or out of range. */
  void check() const;
  /** Returns the learning rate at a step; `base` does not matter. */
  double operator()(std::int64_t step, double base) const;
  /** Returns the momentum at a step; nothing without cycle_momentum. */
  std::optional<double> momentum(std::int64_t step) const;
};

}  // namespace mezzo::optim
