#include "dataset.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/text/text.h"

namespace mezzo::data {

Dataset::Dataset(const Tensor& x, const Tensor& y, std::string notice)
    : notice_(std::move(notice)) {
  if (!x.defined() || !y.defined() || x.dim() == 0 || y.dim() == 0 || x.size(0) != y.size(0))
    fail<ShapeError>("dataset", {.what = "samples and labels differ in number",
                                 .got = str(x, " and ", y),
                                 .expected = "the same first dimension"});
  if (!(x.device() == y.device()))
    fail<DeviceError>("dataset", {.what = "samples and labels are on different devices",
                                  .got = str(x, " and ", y)});
  const NoGrad no_grad;
  x_ = x.detach().contiguous();
  y_ = y.detach().contiguous();
  for (const Tensor& data : {x_, y_}) {
    Storage& storage = *data.impl()->storage;
    if (storage.category() == MemoryCategory::activations)
      storage.set_category(MemoryCategory::other);
  }
}

Sample Dataset::get(std::int64_t index) const {
  detail::require_sample("Dataset::get", index, size());
  return {x_[index], y_[index]};
}

Dataset Dataset::slice(std::int64_t start, std::int64_t count) const {
  return {x_.narrow(0, start, count), y_.narrow(0, start, count), notice_};
}

Dataset Dataset::to(Device device) const { return {x_.to(device), y_.to(device), notice_}; }

Batches Dataset::batches(const BatchOptions& options) const { return {x_, y_, options}; }

Tensor images_from_pixels(const Tensor& pixels, const ImageOptions& options) {
  if (pixels.dim() != 3)
    fail<ShapeError>(
        "images_from_pixels",
        {.what = "expected a stack of images", .got = str(pixels), .expected = "[N,rows,cols]"});
  const Tensor bytes = pixels.contiguous();
  const Tensor x = empty_tensor(pixels.shape(), DType::f32, cpu);
  const auto* from = bytes.data<std::uint8_t>();
  auto* to = x.data<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const float v = static_cast<float>(from[i]) / 255.0f;
    to[i] = options.normalise ? (v - kMnistMean) / kMnistDeviation : v;
  }
  return options.flat ? x.flatten(1) : x.unsqueeze(1);
}

}  // namespace mezzo::data
