// Dataset: samples and labels as two tensors with a common first dimension.
// Sees: autograd.
// Read next: batches.h (walking over one), mnist.h and digits.h (where they come from).
#pragma once

#include <cstdint>
#include <string>

#include "../../tensor/tensor.h"
#include "batches.h"

namespace mezzo::data {

/** Samples x [N, ...] of any dtype and labels y [N, ...]. A handle: copies share the tensors. */
class MZ_API Dataset {
 public:
  /** `notice` says in a sentence where the data comes from.
   *  Errors: ShapeError unless x and y agree in their first dimension, DeviceError unless both are in one place. */
  Dataset(const Tensor& x, const Tensor& y, std::string notice = {});

  const Tensor& x() const { return x_; }
  const Tensor& y() const { return y_; }
  std::int64_t size() const { return x_.size(0); }
  const std::string& notice() const { return notice_; }

  /** Samples start..start+count-1, sharing memory. Errors: IndexError when they do not exist. */
  Dataset slice(std::int64_t start, std::int64_t count) const;
  Dataset to(Device device) const;
  /** A walk over all samples in batches. Errors: ValueError for an empty data set or bad options. */
  Batches batches(const BatchOptions& options = {}) const;

 private:
  Tensor x_, y_;
  std::string notice_;
};

/** What one trains on and what one is judged by. */
struct Split {
  Dataset train, test;

  /** A walk over the samples to train on. */
  Batches batches(const BatchOptions& options = {}) const { return train.batches(options); }
};

/** How images come. */
struct ImageOptions {
  bool flat = false;      // [N, rows*cols] instead of [N,1,rows,cols]
  bool normalise = true;  // (v - 0.1307) / 0.3081, by MNIST's mean and deviation, of v in 0..1; off: v
};

/** Pixels 0..255 (u8 [N,rows,cols]) as a net takes them, f32. Errors: DtypeError, ShapeError. */
MZ_API Tensor images_from_pixels(const Tensor& pixels, const ImageOptions& options = {});

/** Mean and standard deviation of MNIST's 60,000 training images on a scale of 0..1. */
inline constexpr float kMnistMean = 0.1307f, kMnistDeviation = 0.3081f;

}  // namespace mezzo::data
