// Sums over all alignments of one label sequence with a sequence of outputs, forwards and backwards
// through time, as logarithms in f64. Source: Graves, Fernandez, Gomez, Schmidhuber, ICML 2006.
// Parsed by g++ and by nvcc.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "../../core/macros.h"

namespace mezzo::cpu_kernels {

inline constexpr double kNever = -std::numeric_limits<double>::infinity();  // ln 0

/** Returns ln(e^a + e^b); -inf if both are -inf. */
MZ_HD inline double log_add(double a, double b) {
  if (a + b != a + b) return a + b;
  const double high = a < b ? b : a, low = a < b ? a : b;
  return low == kNever ? high : high + std::log1p(std::exp(low - high));
}

/** The alignments of one sample. log_probs(t, c) returns its log-probabilities; the states are its
 *  labels with a blank before, between and after them. */
template <class LogProbs> struct Alignments {
  LogProbs log_probs;
  std::int64_t time;
  const std::int64_t* labels;
  std::int64_t length, blank;

  MZ_HD std::int64_t states() const { return 2 * length + 1; }
  MZ_HD std::int64_t class_of(std::int64_t s) const { return s % 2 == 0 ? blank : labels[s / 2]; }
  MZ_HD double log_prob(std::int64_t t, std::int64_t s) const { return log_probs(t, class_of(s)); }

  /** Returns the logarithm of the sum over all prefixes that are in state s at time t, including
   *  output t; `before` holds the values of all states at t - 1. */
  MZ_HD double forwards(std::int64_t t, std::int64_t s, const double* before) const {
    const double own = log_prob(t, s);  // first: a GPU sums while it is loaded
    double sum = t == 0 && s < 2 ? 0 : kNever;
    for (std::int64_t step = 0; t > 0 && step <= reach(s) && step <= s; ++step)
      sum = log_add(sum, before[s - step]);
    return sum == kNever ? kNever : sum + own;
  }

  /** Returns the logarithm of the sum over all suffixes from state s at time t, including output t;
   *  `behind` holds the values of all states at t + 1. */
  MZ_HD double backwards(std::int64_t t, std::int64_t s, const double* behind) const {
    const double own = log_prob(t, s);
    double sum = t == time - 1 && s >= states() - 2 ? 0 : kNever;
    for (std::int64_t step = 0; t < time - 1 && s + step < states() && step <= reach(s + step);
         ++step)
      sum = log_add(sum, behind[s + step]);
    return sum == kNever ? kNever : sum + own;
  }

  /** Returns the negative logarithm of the sum over all alignments; `last` holds the values of
   *  forwards() at the last time. */
  MZ_HD double loss(const double* last) const {
    if (time == 0) return states() == 1 ? 0 : -kNever;
    const double end = last[states() - 1];
    return -(states() == 1 ? end : log_add(end, last[states() - 2]));
  }

  /** Returns the share of the alignments in state s at time t, which is subtracted from the
   *  gradient of its class's score. `forward` and `backward` are the values of forwards() and
   *  backwards(). */
  MZ_HD double share(std::int64_t t, std::int64_t s, double forward, double backward,
                     double loss) const {
    const double own = log_prob(t, s);
    const bool impossible = own == kNever || forward == kNever || backward == kNever;
    return impossible ? 0 : std::exp(forward + backward + loss - own);
  }

 private:
  /** Returns how many states a step that ends in `to` may advance: a blank between different labels
   *  can be skipped. */
  MZ_HD std::int64_t reach(std::int64_t to) const {
    return to % 2 == 1 && to >= 3 && class_of(to) != class_of(to - 2) ? 2 : 1;
  }
};

}  // namespace mezzo::cpu_kernels
