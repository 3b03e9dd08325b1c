// Dropout layers: zero random elements or channels while training.
#pragma once

#include "model.h"

namespace mezzo::nn {

/** In training mode, zeroes elements with probability p and divides the others by 1 - p. In
 *  evaluation mode, returns its argument.
 *  Shape: any.
 *  Precision: follows the input.
 *  Errors: ValueError unless 0 <= p <= 1. */
class MZ_API Dropout : public Model<Dropout> {
 public:
  /** Constructs the layer; p = 1 zeroes all elements. */
  explicit Dropout(double p = 0.5);

  /** Returns x with dropout; x itself in evaluation mode. */
  Tensor forward(const Tensor& x) const;

 private:
  double p_;
};

/** In training mode, zeroes whole channels with probability p and divides the others by 1 - p.
 *  Shape: [N,C,...] or [C,...] with 1, 2 or 3 spatial dimensions; the result has the same shape.
 *  Precision: follows the input.
 *  Errors: ValueError unless 0 <= p <= 1; calls throw ShapeError.
 *  Source: Tompson et al., CVPR 2015. */
template <class Derived, int kDims> class MZ_API ChannelDropout : public Model<Derived> {
 public:
  /** Constructs the layer; p = 1 zeroes all channels. */
  explicit ChannelDropout(double p);

  /** Returns x with dropout of channels; x itself in evaluation mode. */
  Tensor forward(const Tensor& x) const;

 private:
  double p_;
};

/** ChannelDropout with one spatial dimension: [N,C,L] or [C,L]. */
struct MZ_API Dropout1d : ChannelDropout<Dropout1d, 1> {
  /** Constructs the layer; p is the probability to zero a channel. */
  explicit Dropout1d(double p = 0.5);
};
/** ChannelDropout with two spatial dimensions: [N,C,H,W] or [C,H,W]. */
struct MZ_API Dropout2d : ChannelDropout<Dropout2d, 2> {
  /** Constructs the layer; p is the probability to zero a channel. */
  explicit Dropout2d(double p = 0.5);
};
/** ChannelDropout with three spatial dimensions: [N,C,D,H,W] or [C,D,H,W]. */
struct MZ_API Dropout3d : ChannelDropout<Dropout3d, 3> {
  /** Constructs the layer; p is the probability to zero a channel. */
  explicit Dropout3d(double p = 0.5);
};

/** In training mode, sets elements to SELU's limit at -infinity with probability p, then scales
 *  and shifts all elements so that standard normal inputs keep mean and variance. In evaluation
 *  mode, returns its argument.
 *  Shape: any.
 *  Precision: follows the input.
 *  Errors: ValueError unless 0 <= p <= 1.
 *  Source: Klambauer et al., Self-normalizing neural networks (2017). */
class MZ_API AlphaDropout : public Model<AlphaDropout> {
 public:
  /** Constructs the layer; p = 1 gives zeros. */
  explicit AlphaDropout(double p = 0.5);

  /** Returns a tensor of x's shape; x itself in evaluation mode. */
  Tensor forward(const Tensor& x) const;

 private:
  double p_;
};

/** Applies AlphaDropout to whole channels. Shape: [N,C,...]; the result has the same shape. */
class MZ_API FeatureAlphaDropout : public Model<FeatureAlphaDropout> {
 public:
  /** Constructs the layer. Errors: ValueError unless 0 <= p <= 1. */
  explicit FeatureAlphaDropout(double p = 0.5);

  /** Returns a tensor of x's shape; x itself in evaluation mode. Errors: ShapeError below two
   *  dimensions. */
  Tensor forward(const Tensor& x) const;

 private:
  double p_;
};

extern template class ChannelDropout<Dropout1d, 1>;
extern template class ChannelDropout<Dropout2d, 2>;
extern template class ChannelDropout<Dropout3d, 3>;

}  // namespace mezzo::nn
