// Golden calls: convolution, pooling.
#include "golden.h"

namespace {

using namespace golden;
using namespace mezzo;

void add_convolutions() {
  GOLDEN("conv1d", conv1d(x[0], x[1], x[2]));
  GOLDEN("conv1d/options",
         conv1d(x[0], x[1], {}, {.stride = 2, .padding = 2, .dilation = 2, .groups = 2}));
  GOLDEN("conv1d/same", conv1d(x[0], x[1], {}, {.padding = "same", .dilation = 2}));
  GOLDEN("conv1d/unbatched", conv1d(x[0], x[1], x[2]));
  GOLDEN("conv2d", conv2d(x[0], x[1], x[2]));
  GOLDEN("conv2d/options",
         conv2d(x[0], x[1], x[2],
                {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2}));
  GOLDEN("conv2d/depthwise", conv2d(x[0], x[1], {}, {.padding = 1, .groups = 3}));
  GOLDEN("conv2d/one by one", conv2d(x[0], x[1]));
  GOLDEN("conv3d", conv3d(x[0], x[1], x[2]));
  GOLDEN("conv3d/options", conv3d(x[0], x[1], {}, {.stride = 2, .padding = 1}));
  GOLDEN("conv_transpose1d", conv_transpose1d(x[0], x[1], x[2]));
  GOLDEN("conv_transpose1d/options",
         conv_transpose1d(
             x[0], x[1], {},
             {.stride = 3, .padding = 1, .output_padding = 2, .groups = 2, .dilation = 2}));
  GOLDEN("conv_transpose2d", conv_transpose2d(x[0], x[1], x[2]));
  GOLDEN("conv_transpose2d/options",
         conv_transpose2d(x[0], x[1], x[2], {.stride = 2, .padding = 1, .output_padding = 1}));
  GOLDEN("conv_transpose3d", conv_transpose3d(x[0], x[1], x[2]));
  GOLDEN("conv_transpose3d/options", conv_transpose3d(x[0], x[1], {}, {.stride = 2, .padding = 1}));
}

#define GOLDEN_POOLING(n, steps)                                                                   \
  GOLDEN("max_pool" #n "d", max_pool##n##d(x[0], 2));                                              \
  GOLDEN("max_pool" #n "d/options",                                                                \
         max_pool##n##d_with_indices(                                                              \
             x[0], 3, {.stride = 2, .padding = 1, .dilation = steps, .ceil_mode = true}));         \
  GOLDEN("avg_pool" #n "d", avg_pool##n##d(x[0], 2));                                              \
  GOLDEN(                                                                                          \
      "avg_pool" #n "d/options",                                                                   \
      avg_pool##n##d(x[0], 3,                                                                      \
                     {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false})); \
  GOLDEN("adaptive_avg_pool" #n "d", adaptive_avg_pool##n##d(x[0], 4));                            \
  GOLDEN("adaptive_max_pool" #n "d", adaptive_max_pool##n##d_with_indices(x[0], 3))

void add_pooling() {
  GOLDEN_POOLING(1, 2);
  GOLDEN_POOLING(2, 1);
  GOLDEN_POOLING(3, 1);
  GOLDEN("avg_pool2d/divisor", avg_pool2d(x[0], {3, 2}, {.stride = {1, 2}, .divisor_override = 5}));
}

const Registrar additions([] {
  add_convolutions();
  add_pooling();
});

}  // namespace
