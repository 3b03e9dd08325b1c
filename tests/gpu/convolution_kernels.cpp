// Convolutions on the emulated device with and without cuDNN: our own kernels must compute what the
// library does not support.
#include "../emulator/dnn.h"
#include "../support/catch.h"
#include "convolution.h"

using namespace convolution;

TEST_CASE("convolutions are exact for integers, with and without cuDNN", "[gpu][conv]") {
  for (const bool with_library : {true, false}) {
    emulator::set_has_dnn(with_library);
    for (const DType dtype : {f32, f16, bf16, f64})
      for (const ConvCase& c : kConvCases) {
        INFO(with_library << " " << name(dtype) << " " << str(c.x));
        CHECK(conv_results(c, dtype, kDevice) == conv_results(c, dtype, cpu));
      }
  }
  emulator::set_has_dnn(true);
}
