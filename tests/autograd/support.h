// Helpers of the autograd tests.
#pragma once

#include <mezzo.h>

#include <vector>

#include "../support/catch.h"
#include "../support/values.h"

using mezzo::testing::counting, mezzo::testing::kInf, mezzo::testing::kNan, mezzo::testing::values;

inline mezzo::Tensor ints(const std::vector<double>& values, mezzo::DType dtype = mezzo::i64) {
  return mezzo::tensor(values, {.dtype = dtype});
}
inline mezzo::Tensor ints(const std::vector<double>& values, const mezzo::Shape& shape) {
  return mezzo::tensor(values, shape, {.dtype = mezzo::i64});
}

inline double largest_difference(const mezzo::Tensor& a, const mezzo::Tensor& b) {
  if (a.numel() == 0) return 0;
  return amax(abs(a.to(mezzo::f64) - b.to(mezzo::f64))).item<double>();
}
