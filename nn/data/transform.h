// Transform: a function that changes the input or the target of a sample. Compose and
// TransformedDataset apply them.
// See also: image_transforms.h (those of images).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "any_dataset.h"

namespace mezzo::data {

/** Returns a changed input or target; the argument stays as it is. Random transforms draw from the
 *  default generator of the thread, which Batches sets for each sample. */
using Transform = std::function<Tensor(const Tensor&)>;

/** Several transforms, one after the other. */
class MZ_API Compose {
 public:
  /** Applies the transforms in the given order. Errors: ValueError for an empty function. */
  explicit Compose(std::vector<Transform> transforms);

  /** Returns the result of the last transform. Errors: those of the transforms. */
  Tensor operator()(const Tensor& x) const;

 private:
  std::vector<Transform> transforms_;
};

/** A data set whose samples are transformed each time they are read. */
class MZ_API TransformedDataset {
 public:
  /** Applies `transform` to x and `target_transform` to y; an empty function changes nothing. */
  TransformedDataset(AnyDataset set, Transform transform, Transform target_transform = {});

  /** Returns the number of samples. */
  std::int64_t size() const { return set_.size(); }
  /** Returns a transformed sample. Errors: those of the data set and of the transforms. */
  Sample get(std::int64_t index) const;

 private:
  AnyDataset set_;
  Transform transform_, target_transform_;
};

}  // namespace mezzo::data
