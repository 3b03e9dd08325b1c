// Helpers of tests that compare with lists of values at the edges of a dtype.
#pragma once

#include <cmath>
#include <vector>

#include "../support/catch.h"
#include "../support/values.h"
#include "samples.h"

namespace edges {

using namespace mezzo;
using cases::test_device;
using testing::values;

using Values = std::vector<double>;

inline Tensor made(const Values& values, DType dtype = f32) {
  return tensor(values, {.dtype = dtype, .device = test_device()});
}
inline Tensor made(const Values& values, const Shape& shape, DType dtype = f32) {
  return tensor(values, shape, {.dtype = dtype, .device = test_device()});
}

/** Checks values to a relative error. */
inline void check_near(const Tensor& x, const Values& expected, double error = 1e-5) {
  const Values got = values(x);
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i << " is " << got[i] << ", expected " << expected[i]);
    const double e = expected[i];
    CHECK((got[i] == e || (std::isnan(got[i]) && std::isnan(e)) ||
           std::fabs(got[i] - e) <= error * std::fabs(e)));
  }
}

}  // namespace edges
