#include "averaging.h"

#include <cmath>

namespace mezzo::nn {

bool Averaging::sums_in_f32(DType dtype) const {
  return options_.reduce_dtype == ReduceDtype::automatic && is_low(dtype) &&
         options_.order != comm::Order::fast;
}

/** By default f16 gradients are divided by about sqrt(ranks) before the sum, so that it overflows
 *  later and the gradients do not become subnormal. */
double Averaging::predivide(DType dtype) const {
  if (options_.predivide_factor) return *options_.predivide_factor;
  if (dtype != DType::f16 || !options_.average) return 1;
  return std::exp2(std::floor(std::log2(ranks_) / 2));
}

double Averaging::factor_after(DType dtype) const {
  return options_.average ? predivide(dtype) / ranks_ : 1;
}

}  // namespace mezzo::nn
