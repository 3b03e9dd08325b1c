// Dataset: samples and labels as two tensors with a common first dimension.
#pragma once

#include <cstdint>
#include <string>

#include "../../tensor/core/tensor.h"
#include "batches.h"

namespace mezzo::data {

/** Samples x [N, ...] of any dtype and labels y [N, ...]. Copies share the tensors. In
 * memory_stats() they count as MemoryCategory::other instead of activations. */
class MZ_API Dataset {
 public:
  /** Constructs from samples and labels. `notice` is a sentence about the source of the data.
   *  Errors: ShapeError unless x and y have the same first dimension, DeviceError unless both are
   *  on the same device. */
  Dataset(const Tensor& x, const Tensor& y, std::string notice = {});

  /** Returns the samples [N, ...], without a copy. */
  const Tensor& x() const { return x_; }
  /** Returns the labels [N, ...], without a copy. */
  const Tensor& y() const { return y_; }
  /** Returns the number of samples. */
  std::int64_t size() const { return x_.size(0); }
  /** Returns the sentence about the source of the data. */
  const std::string& notice() const { return notice_; }

  /** Returns a sample, which shares memory. Errors: IndexError out of range. */
  Sample get(std::int64_t index) const;

  /** Returns samples start..start+count-1, which share memory. Errors: IndexError out of range. */
  Dataset slice(std::int64_t start, std::int64_t count) const;
  /** Returns the data set on a device. */
  Dataset to(Device device) const;
  /** Returns batches over all samples. Errors: ValueError for an empty data set or invalid
   *  options. */
  Batches batches(const BatchOptions& options = {}) const;

 private:
  Tensor x_, y_;
  std::string notice_;
};

/** A training set and a test set. */
struct Split {
  /** Samples for training. */
  Dataset train, test;  // samples for testing

  /** Returns batches over the training set. */
  Batches batches(const BatchOptions& options = {}) const { return train.batches(options); }
};

/** Shape and scaling of images. */
struct ImageOptions {
  bool flat = false;      // [N, rows*cols] instead of [N,1,rows,cols]
  bool normalise = true;  // (v - 0.1307) / 0.3081 (MNIST's mean and deviation) of v in 0..1; off: v
};

/** Converts pixels 0..255 (u8 [N,rows,cols]) to f32 images. Errors: DtypeError, ShapeError. */
MZ_API Tensor images_from_pixels(const Tensor& pixels, const ImageOptions& options = {});

/** Mean of MNIST's 60,000 training images on a scale of 0..1. */
inline constexpr float kMnistMean = 0.1307f;
/** Standard deviation of MNIST's 60,000 training images on a scale of 0..1. */
inline constexpr float kMnistDeviation = 0.3081f;

}  // namespace mezzo::data
