// Dropout: forgets elements at random while training.
// Sees: model.h.
// Read next: ../autograd/ops/random.h.
#pragma once

#include "model.h"

namespace mezzo::nn {

/** While training, zeroes elements with probability p and divides the others by 1 - p; returns its argument otherwise. Shape: any.
 *  Precision: follows the input.   Errors: ValueError unless 0 <= p <= 1. */
class MZ_API Dropout : public Model<Dropout> {
 public:
  explicit Dropout(double p = 0.5);

  Tensor forward(const Tensor& x) const;

 private:
  double p_;
};

/** Dropout of whole channels: each is zeroed with probability p or divided by 1 - p.
 *  Shape: [N,C,...] or [C,...] with 1, 2 or 3 dimensions of space, kept.   Precision: follows the input.
 *  Errors: ValueError unless 0 <= p <= 1; when called: ShapeError.   Source: Tompson et al., CVPR 2015. */
template <class Derived, int kDims> class MZ_API ChannelDropout : public Model<Derived> {
 public:
  explicit ChannelDropout(double p);

  Tensor forward(const Tensor& x) const;

 private:
  double p_;
};

struct MZ_API Dropout1d : ChannelDropout<Dropout1d, 1> {
  explicit Dropout1d(double p = 0.5);
};
struct MZ_API Dropout2d : ChannelDropout<Dropout2d, 2> {
  explicit Dropout2d(double p = 0.5);
};
struct MZ_API Dropout3d : ChannelDropout<Dropout3d, 3> {
  explicit Dropout3d(double p = 0.5);
};

/** While training, sets elements to SELU's value at -infinity with probability p, then scales and shifts all so that standard normal inputs keep
 *  mean and variance; returns its argument otherwise. Shape: any.   Precision: follows the input.
 *  Errors: ValueError unless 0 <= p <= 1.   Source: Klambauer et al., Self-normalizing neural networks (2017). */
class MZ_API AlphaDropout : public Model<AlphaDropout> {
 public:
  explicit AlphaDropout(double p = 0.5);

  Tensor forward(const Tensor& x) const;

 private:
  double p_;
};

/** AlphaDropout of whole channels. Shape: [N,C,...], kept. */
class MZ_API FeatureAlphaDropout : public Model<FeatureAlphaDropout> {
 public:
  explicit FeatureAlphaDropout(double p = 0.5);

  Tensor forward(const Tensor& x) const;

 private:
  double p_;
};

extern template class ChannelDropout<Dropout1d, 1>;
extern template class ChannelDropout<Dropout2d, 2>;
extern template class ChannelDropout<Dropout3d, 3>;

}  // namespace mezzo::nn
