// Every op has a kernel on the device.
#include <mezzo.h>

#include <set>
#include <string_view>

#include "../support/catch.h"

using namespace mezzo;

namespace {

// Rows that are being written for the device. A kernel that arrives has to leave the list, so that it ends empty.
const std::set<std::string_view> kNotYet{
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "attention_backward",
    "avg_pool1d",
    "avg_pool1d_backward",
    "avg_pool2d",
    "avg_pool2d_backward",
    "avg_pool3d",
    "avg_pool3d_backward",
    "batch_norm",
    "batch_norm_backward",
    "class_weights",
    "cross",
    "flip",
    "fold",
    "grid_sample",
    "grid_sample_backward",
    "group_norm",
    "group_norm_backward",
    "instance_norm",
    "interpolate",
    "interpolate_backward",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool_backward",
    "named_classes",
    "one_hot",
    "pad",
    "place_backward",
    "recurrent_layer",
    "recurrent_layer_backward",
    "renorm",
    "repeat",
    "roll",
    "scaled_dot_product_attention",
    "tril",
    "triu",
    "unfold",
    "update_running",
    "upsample_bicubic",
    "upsample_bilinear",
    "upsample_linear",
    "upsample_nearest",
    "upsample_nearest_exact",
    "upsample_trilinear",
};

/** Whether what a row computes on the CPU it computes on the device as well. */
bool runs_on_device(const OpRow& row) {
  constexpr std::size_t kCpu = 0, kCuda = static_cast<std::size_t>(DeviceKind::cuda);
  return (row.kernel[kCpu] == nullptr || row.kernel[kCuda] != nullptr) &&
         (row.derivative[kCpu] == nullptr || row.derivative[kCuda] != nullptr);
}

}  // namespace

TEST_CASE("every op with a kernel has one on the device", "[gpu]") {
  if (Device::best() == cpu) SKIP_TEST("no CUDA device");
  std::set<std::string_view> unknown = kNotYet;
  for (const OpRow* row : all_ops()) {
    INFO(row->traits.name);
    CHECK(runs_on_device(*row) == !kNotYet.contains(row->traits.name));
    unknown.erase(row->traits.name);
  }
  CHECK(unknown.empty());
}
