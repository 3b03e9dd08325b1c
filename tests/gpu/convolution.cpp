// Convolutions of integers on any device, by cuDNN or by our own kernels.
#include "convolution.h"

#include <algorithm>
#include <cmath>

#include "../support/catch.h"
#include "need_device.h"

using namespace convolution;

namespace {

/** Returns the error of engines that transform their operands, relative to the largest number. */
double conv_tolerance(DType dtype) {
  return dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : dtype == f16 ? 0x1p-9 : 0x1p-6;
}

double list_distance(const std::vector<double>& got, const std::vector<double>& expected) {
  double greatest = 1, apart = got.size() == expected.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    greatest = std::max(greatest, std::abs(expected[i]));
    apart = std::max(apart, std::abs(got[i] - expected[i]));
  }
  return apart / greatest;
}

}  // namespace

TEST_CASE("convolutions and their gradients agree with the CPU", "[gpu][conv]") {
  NEED_DEVICE();
  for (const DType dtype : {f32, f16, bf16, f64})
    for (const ConvCase& c : kConvCases) {
      INFO(name(dtype) << " " << str(c.x));
      const auto there = conv_results(c, dtype, kDevice), here = conv_results(c, dtype, cpu);
      for (std::size_t i = 0; i < here.size(); ++i)
        CHECK(list_distance(there[i], here[i]) <= conv_tolerance(dtype));
    }
}
