#include "norm.h"

#include "../tensor/core/dispatch.h"
#include "../tensor/ops/norm/layer_norm.h"
#include "../tensor/ops/ops.h"
#include "arguments.h"
#include "fusion.h"

namespace mezzo::nn {

namespace {

/** Registers the parameters and buffers of a normalisation layer per channel. */
ChannelTensors add_channel_tensors(Module& layer, std::int64_t channels, bool affine, bool tracks) {
  ChannelTensors out;
  if (affine) {
    out.weight = layer.add_parameter("weight", ones({channels}));
    out.bias = layer.add_parameter("bias", zeros({channels}));
  }
  if (tracks) {
    out.running_mean = layer.add_buffer("running_mean", zeros({channels}));
    out.running_var = layer.add_buffer("running_var", ones({channels}));
    out.num_batches_tracked =
        layer.add_buffer("num_batches_tracked", zeros({}, {.dtype = DType::i64}));
  }
  return out;
}

}  // namespace

template <class Derived, int kLeastRank, int kMostRank>
BatchNormLayer<Derived, kLeastRank, kMostRank>::BatchNormLayer(std::int64_t channels,
                                                               const BatchNormLayerOptions& options)
    : options_(options) {
  detail::require_at_least(1, this->kind(), "channels", channels);
  tensors_ = add_channel_tensors(*this, channels, options.affine, options.track_running_stats);
  this->set_keeps_f32_under_amp(options.affine);
  this->set_summary(str(channels));
}

template <class Derived, int kLeastRank, int kMostRank>
BatchNormOptions BatchNormLayer<Derived, kLeastRank, kMostRank>::options_for(
    const Tensor& x) const {
  if (x.dim() < kLeastRank || x.dim() > kMostRank)
    fail<ShapeError>(
        "batch_norm",
        {.what = str("wrong number of dimensions for ", this->kind()),
         .got = str(x),
         .expected = kLeastRank == kMostRank ? str(kLeastRank, " dimensions")
                                             : str(kLeastRank, " or ", kMostRank, " dimensions")});
  const bool tracks = tensors_.running_mean.defined(), learns = this->training() && tracks;
  double momentum = options_.momentum.value_or(0);
  // Cumulative mean: the n-th batch has the weight 1/n.
  if (learns && !options_.momentum)
    momentum = 1.0 / (tensors_.num_batches_tracked.template item<double>() + 1);
  return {.running_mean = tensors_.running_mean,
          .running_var = tensors_.running_var,
          .weight = tensors_.weight,
          .bias = tensors_.bias,
          .training = this->training() || !tracks,
          .momentum = momentum,
          .eps = options_.eps,
          .num_batches_tracked = learns ? tensors_.num_batches_tracked : Tensor{}};
}

template <class Derived, int kLeastRank, int kMostRank>
Tensor BatchNormLayer<Derived, kLeastRank, kMostRank>::forward(const Tensor& x) const {
  if (const comm::Communicator* ranks = group())
    return mezzo::detail::sync_batch_norm(x, options_for(x), *ranks);
  return batch_norm(x, options_for(x));
}

template <class Derived, int kLeastRank, int kMostRank>
const comm::Communicator* BatchNormLayer<Derived, kLeastRank, kMostRank>::group() const {
  return this->training() ? this->state().statistics_group.get() : nullptr;
}

template <class Derived, int kLeastRank, int kMostRank>
bool BatchNormLayer<Derived, kLeastRank, kMostRank>::fits_with_relu(const Tensor& x,
                                                                    const Tensor& residual) const {
  if (!x.defined() || !is_floating(x.dtype()) || x.dim() < kLeastRank || x.dim() > kMostRank)
    return false;
  const Tensor& per_channel = tensors_.weight.defined() ? tensors_.weight : tensors_.running_mean;
  if (per_channel.defined() && per_channel.size(0) != x.size(1)) return false;
  if (x.numel() == x.size(1)) return false;  // one value per channel
  return !residual.defined() || (residual.shape() == x.shape() && residual.dtype() == x.dtype() &&
                                 residual.device() == x.device());
}

template <class Derived, int kLeastRank, int kMostRank>
Tensor BatchNormLayer<Derived, kLeastRank, kMostRank>::with_relu(const Tensor& x,
                                                                 const Tensor& residual) const {
  if (!this->wraps_calls() && !group() && detail::batch_norm_relu_may_fuse() &&
      fits_with_relu(x, residual)) {
    const detail::ModuleCall call(this->state());
    return mezzo::batch_norm_relu(x, options_for(x), residual);
  }
  const Tensor y = static_cast<const Derived&>(*this)(x);
  return relu(residual.defined() ? y + residual : y);
}

#define MZ_BATCH_NORM(Layer, least, most)                                   \
  template class BatchNormLayer<Layer, least, most>;                        \
  Layer::Layer(std::int64_t channels, const BatchNormLayerOptions& options) \
      : BatchNormLayer(channels, options) {}
MZ_BATCH_NORM(BatchNorm1d, 2, 3)
MZ_BATCH_NORM(BatchNorm2d, 4, 4)
MZ_BATCH_NORM(BatchNorm3d, 5, 5)
#undef MZ_BATCH_NORM

LayerNorm::LayerNorm(std::int64_t size, const LayerNormLayerOptions& options)
    : LayerNorm(Shape{size}, options) {}

LayerNorm::LayerNorm(const Shape& shape, const LayerNormLayerOptions& options)
    : shape_(shape), eps_(options.eps) {
  if (options.affine) weight_ = add_parameter("weight", ones(shape));
  if (options.affine && options.bias) bias_ = add_parameter("bias", zeros(shape));
  set_summary(str(shape));
}

Tensor LayerNorm::forward(const Tensor& x) const {
  return layer_norm(x, shape_, {.weight = weight_, .bias = bias_, .eps = eps_});
}

namespace {

/** Returns true if the last sizes of a shape are those of `end`. */
bool ends_in(const Shape& shape, const Shape& end) {
  const int lead = shape.rank() - end.rank();
  for (int i = 0; lead >= 0 && i < end.rank(); ++i)
    if (shape[lead + i] != end[i]) return false;
  return lead >= 0;
}

}  // namespace

SumAndNorm LayerNorm::with_sum(const Tensor& x, const Tensor& branch) const {
  const auto is_f32 = [](const Tensor& t) { return !t.defined() || t.dtype() == DType::f32; };
  // The kernel of a device repeats a branch of whole rows.
  const auto repeats = [&] {
    return x.device().kind != DeviceKind::cpu && x.dtype() == branch.dtype() &&
           branch.dim() >= shape_.rank() && ends_in(x.shape(), branch.shape());
  };
  const bool alike = x.defined() && x.device() == branch.device() && is_floating(x.dtype()) &&
                     (x.shape() == branch.shape() || repeats());
  // Casts widen no operand if x, weight and bias are of f32. A 16-bit branch is widened by the sum.
  const bool is_wide = alike && is_f32(x) && is_f32(weight_) && is_f32(bias_);
  const bool fits = alike && (is_wide ? x.dtype() == branch.dtype() || is_low(branch.dtype())
                                      : x.dtype() == branch.dtype() && !thread_hooks().cast);
  if (!fits || wraps_calls() || !detail::add_layer_norm_may_fuse()) {
    const Tensor sum = x + branch;
    return {sum, (*this)(sum)};
  }
  const detail::ModuleCall call(state());
  return apply_pair<SumAndNorm, op::AddLayerNorm>({shape_, eps_}, x, branch, weight_, bias_);
}

SumAndNorm add_layer_norm(const LayerNorm& layer, const Tensor& x, const Tensor& branch) {
  if (!branch.defined()) return {x, layer(x)};
  return layer.with_sum(x, branch);
}

RMSNorm::RMSNorm(std::int64_t size, const RmsNormLayerOptions& options)
    : RMSNorm(Shape{size}, options) {}

RMSNorm::RMSNorm(const Shape& shape, const RmsNormLayerOptions& options)
    : shape_(shape), eps_(options.eps) {
  if (options.affine) weight_ = add_parameter("weight", ones(shape));
  set_summary(str(shape));
}

Tensor RMSNorm::forward(const Tensor& x) const {
  return rms_norm(x, shape_, {.weight = weight_, .eps = eps_});
}

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels,
                     const GroupNormLayerOptions& options)
    : groups_(groups), eps_(options.eps) {
  detail::require_at_least(1, "GroupNorm", "groups", groups);
  detail::require_at_least(1, "GroupNorm", "channels", channels);
  if (channels % groups != 0)
    fail<ValueError>("GroupNorm", {.what = "groups do not divide the channels",
                                   .got = str(groups, " groups for ", channels, " channels")});
  if (options.affine) {
    weight_ = add_parameter("weight", ones({channels}));
    bias_ = add_parameter("bias", zeros({channels}));
  }
  set_summary(str(groups, ", ", channels));
}

Tensor GroupNorm::forward(const Tensor& x) const {
  return group_norm(x, groups_, {.weight = weight_, .bias = bias_, .eps = eps_});
}

template <class Derived, int kDims>
InstanceNormLayer<Derived, kDims>::InstanceNormLayer(std::int64_t channels,
                                                     const InstanceNormLayerOptions& options)
    : channels_(channels), options_(options) {
  detail::require_at_least(1, this->kind(), "channels", channels);
  tensors_ = add_channel_tensors(*this, channels, options.affine, options.track_running_stats);
  this->set_summary(str(channels));
}

template <class Derived, int kDims>
Tensor InstanceNormLayer<Derived, kDims>::forward(const Tensor& x) const {
  const bool batched = x.dim() == kDims + 2;
  if ((!batched && x.dim() != kDims + 1) || x.size(batched ? 1 : 0) != channels_)
    fail<ShapeError>("instance_norm",
                     {.what = str("the input does not fit ", this->kind()),
                      .got = str(x),
                      .expected = str(channels_, " channels before ", kDims,
                                      kDims == 1 ? " spatial dimension" : " spatial dimensions")});
  const Tensor y =
      instance_norm(batched ? x : x.unsqueeze(0),
                    {.running_mean = tensors_.running_mean,
                     .running_var = tensors_.running_var,
                     .weight = tensors_.weight,
                     .bias = tensors_.bias,
                     .use_input_stats = this->training() || !options_.track_running_stats,
                     .momentum = options_.momentum,
                     .eps = options_.eps});
  return batched ? y : y.squeeze(0);
}

#define MZ_INSTANCE_NORM(dims)                                                          \
  template class InstanceNormLayer<InstanceNorm##dims##d, dims>;                        \
  InstanceNorm##dims##d::InstanceNorm##dims##d(std::int64_t channels,                   \
                                               const InstanceNormLayerOptions& options) \
      : InstanceNormLayer(channels, options) {}
MZ_INSTANCE_NORM(1)
MZ_INSTANCE_NORM(2)
MZ_INSTANCE_NORM(3)
#undef MZ_INSTANCE_NORM

LocalResponseNorm::LocalResponseNorm(std::int64_t size, const LocalResponseNormOptions& options)
    : size_(size), options_(options) {
  detail::require_at_least(1, "LocalResponseNorm", "size", size);
  set_summary(str(size));
}

Tensor LocalResponseNorm::forward(const Tensor& x) const {
  return local_response_norm(x, size_, options_);
}

}  // namespace mezzo::nn
