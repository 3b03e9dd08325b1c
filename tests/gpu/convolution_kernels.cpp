// Convolutions on the emulated device with and without cuDNN: our own kernels must compute what the
// library does not support.
#include <algorithm>

#include "../emulator/dnn.h"
#include "../emulator/fill.h"
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

namespace {

/** Returns how often a result and its two gradients in 16 bits copy the columns of a kernel. */
std::int64_t column_copies(const ConvCase& c, MemoryFormat format) {
  const emulator::FillLog log;
  conv_results(c, f16, kDevice, format);
  return std::count_if(log.launches.begin(), log.launches.end(),
                       [](const auto& launch) { return launch.kernel == "windows_kernel"; });
}

}  // namespace

TEST_CASE("columns of the kernel are channels where there are few, with the same results",
          "[gpu][conv]") {
  constexpr MemoryFormat kLast = MemoryFormat::channels_last;
  const std::vector<ConvCase> cases{
      {{2, 3, 18, 17}, {16, 3, 7, 7}, {.stride = 2, .padding = 3}},  // 21 channels of 24
      {{1, 1, 9, 7}, {4, 1, 3, 3}, {.padding = 1}},
      {{2, 4, 8, 9}, {8, 4, 2, 2}, {}},  // 8 channels of 8
      {{1, 3, 8, 8}, {9, 3, 3, 5}, {.stride = {1, 3}, .padding = {0, 4}, .dilation = {2, 1}}},
      {{2, 7, 5, 6}, {32, 7, 1, 3}, {.padding = {0, 1}}},
      {{3, 6, 6}, {8, 3, 3, 3}, {.padding = 1}},  // without a batch
      {{1, 2, 5, 6, 7}, {8, 2, 2, 3, 3}, {.stride = 2, .padding = 1}}};
  for (const ConvCase& c : cases)
    for (const DType dtype : {f16, bf16}) {
      INFO(name(dtype) << " " << str(c.x) << " " << str(c.w));
      CHECK(conv_results(c, dtype, kDevice, kLast) == conv_results(c, dtype, cpu, kLast));
    }
  for (std::size_t i = 0; i < 5; ++i) {
    INFO(i);
    // With and without a bias: x and the weight for the result, x for the gradient of the weight.
    CHECK(column_copies(cases[i], kLast) == 6);
    CHECK(column_copies(cases[i], MemoryFormat::contiguous) == 0);
  }
  for (const ConvCase& c : std::vector<ConvCase>{{{1, 8, 6, 6}, {8, 8, 3, 3}, {}},
                                                 {{1, 4, 6, 6}, {8, 2, 3, 3}, {.groups = 2}},
                                                 {{1, 3, 6, 6}, {8, 3, 3, 1}, {}},
                                                 {{1, 3, 9, 9}, {8, 3, 3, 3}, {.dilation = 2}},
                                                 {{1, 3, 9, 9}, {3, 3, 3, 3}, {}}}) {
    INFO(str(c.x) << " " << str(c.w));
    CHECK(column_copies(c, kLast) == 0);
  }
}
