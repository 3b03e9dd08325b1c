// ScaleWindow: the loss scales with which gradients fit into f16.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "lines.h"

namespace mezzo::amp::report {

/** 2^16 and above is infinite in f16. */
inline constexpr int kF16FirstInfinite = 16;
/** Share of a sum of magnitudes that rounding may change before a gradient counts as underflown. */
inline constexpr double kMostUnderflow = 0.01;

/** Returns the number of elements that are neither zero nor infinite nor NaN. */
std::int64_t count_finite_nonzero(const Histogram& h);

/** Returns floor(log2) of the largest finite element; empty if all are 0. */
std::optional<int> greatest_exponent(const Histogram& h);

/** Returns floor(log2(scale)); 0 for a scale that is not positive and finite. */
int exponent_of(double scale);

/** Returns the error of rounding to f16 after multiplication by 2^shift, relative to the sum of
 *  magnitudes. Elements below 2^-14 are rounded to multiples of 2^-24: each is off by a quarter of
 *  that on average, or by itself if it is smaller. Rounding of others does not count. */
double subnormal_error(const Histogram& h, int shift);

/** The exponents of the loss scales with which gradients neither underflow nor overflow in f16. */
struct ScaleWindow {
  int least = kNone, most = -kNone;
  std::string least_name, most_name;  // the gradients that decide

  /** Narrows the window to the scales that suit a gradient. `held` is the exponent of the loss
   *  scale that the elements contain. */
  void add(const std::string& name, const Histogram& h, int held);
  /** Returns true if no gradient with nonzero elements was added. */
  bool is_unknown() const { return least == kNone; }
  bool is_empty() const { return least > most; }
  /** Returns the exponent to suggest: a quarter of the greatest scale, for gradients that grow, but
   *  at least the least. */
  int suggestion() const { return std::max(least, most - 2); }

 private:
  static constexpr int kNone = -1000;
};

}  // namespace mezzo::amp::report
