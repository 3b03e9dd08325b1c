#include "transform.h"

#include <utility>

#include "../../tensor/core/error.h"

namespace mezzo::data {

Compose::Compose(std::vector<Transform> transforms) : transforms_(std::move(transforms)) {
  for (const Transform& transform : transforms_)
    if (!transform)
      fail<ValueError>("Compose", {.what = "a transform is empty", .expected = "a function"});
}

Tensor Compose::operator()(const Tensor& x) const {
  Tensor out = x;
  for (const Transform& transform : transforms_) out = transform(out);
  return out;
}

TransformedDataset::TransformedDataset(AnyDataset set, Transform transform,
                                       Transform target_transform)
    : set_(std::move(set)),
      transform_(std::move(transform)),
      target_transform_(std::move(target_transform)) {}

Sample TransformedDataset::get(std::int64_t index) const {
  Sample sample = set_.get(index);
  if (transform_) sample.x = transform_(sample.x);
  if (target_transform_) sample.y = target_transform_(sample.y);
  return sample;
}

}  // namespace mezzo::data
