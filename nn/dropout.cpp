#include "dropout.h"

#include <cmath>

#include "../tensor/ops/elementwise/operators.h"
#include "../tensor/ops/elementwise/selection.h"
#include "../tensor/ops/random/random.h"
#include "../tensor/ops/require.h"
#include "arguments.h"

namespace mezzo::nn {

Dropout::Dropout(double p) : p_(p) {
  detail::require_probability("Dropout", "p", p);
  set_summary(str(p));
  set_uses_mode();
}

Tensor Dropout::forward(const Tensor& x) const {
  return dropout(x, {.p = p_, .training = training()});
}

namespace {

/** Returns x's sizes up to its channels, followed by 1s. */
Shape channels_of(const Tensor& x, int channel_dim) {
  Shape shape = Shape::filled(x.dim(), 1);
  for (int i = 0; i <= channel_dim; ++i) shape[i] = x.size(i);
  return shape;
}

/** Returns a random mask of the given shape: 1 with probability 1 - p, else 0. */
Tensor kept_at_random(const Shape& shape, const Tensor& x, double p) {
  require_floating_operands("dropout", {&x, 1});
  const Tensor kept = empty(shape, {.dtype = x.dtype(), .device = x.device()});
  return bernoulli_(kept, 1 - p);
}

}  // namespace

template <class Derived, int kDims>
ChannelDropout<Derived, kDims>::ChannelDropout(double p) : p_(p) {
  detail::require_probability(this->kind(), "p", p);
  this->set_summary(str(p));
  this->set_uses_mode();
}

template <class Derived, int kDims>
Tensor ChannelDropout<Derived, kDims>::forward(const Tensor& x) const {
  require_defined(this->kind(), x);
  if (x.dim() != kDims + 1 && x.dim() != kDims + 2)
    fail<ShapeError>(this->kind(), {.what = "the input has the wrong number of dimensions",
                                    .got = str(x),
                                    .expected = str(kDims + 1, " or ", kDims + 2, " dimensions")});
  if (!this->training() || p_ == 0) return x;
  if (p_ == 1) return x * 0.0;
  const Tensor kept = kept_at_random(channels_of(x, x.dim() - kDims - 1), x, p_);
  // Divides by 1 - p, as dropout() does, instead of multiplying by the rounded reciprocal.
  return where(kept.to(DType::boolean), x / (1 - p_), 0.0);
}

#define MZ_CHANNEL_DROPOUT(dims)                         \
  template class ChannelDropout<Dropout##dims##d, dims>; \
  Dropout##dims##d::Dropout##dims##d(double p) : ChannelDropout(p) {}
MZ_CHANNEL_DROPOUT(1)
MZ_CHANNEL_DROPOUT(2)
MZ_CHANNEL_DROPOUT(3)
#undef MZ_CHANNEL_DROPOUT

namespace {

Tensor alpha_dropout(const Tensor& x, const Shape& mask, double p) {
  if (p == 0) return x;
  if (p == 1) return x * 0.0;
  constexpr double kLeast = -1.7580993408473766;  // limit of SELU at -infinity
  const double scale = 1 / std::sqrt((1 - p) * (1 + p * kLeast * kLeast)),
               shift = -scale * kLeast * p;
  const Tensor kept = kept_at_random(mask, x, p).to(DType::boolean);
  return where(kept, x, operand(kLeast)) * scale + shift;
}

}  // namespace

AlphaDropout::AlphaDropout(double p) : p_(p) {
  detail::require_probability("AlphaDropout", "p", p);
  set_summary(str(p));
  set_uses_mode();
}

Tensor AlphaDropout::forward(const Tensor& x) const {
  require_defined("AlphaDropout", x);
  return training() ? alpha_dropout(x, x.shape(), p_) : x;
}

FeatureAlphaDropout::FeatureAlphaDropout(double p) : p_(p) {
  detail::require_probability("FeatureAlphaDropout", "p", p);
  set_summary(str(p));
  set_uses_mode();
}

Tensor FeatureAlphaDropout::forward(const Tensor& x) const {
  require_defined("FeatureAlphaDropout", x);
  if (x.dim() < 2)
    fail<ShapeError>(
        "FeatureAlphaDropout",
        {.what = "the input has no channels", .got = str(x), .expected = "[N, C, ...]"});
  return training() ? alpha_dropout(x, channels_of(x, 1), p_) : x;
}

}  // namespace mezzo::nn
