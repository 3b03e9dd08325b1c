// Normalisation layers: batch, layer, RMS, group, instance and local response norm.
// See also: tensor/ops/norm (the functions).
#pragma once

#include <optional>

#include "../tensor/ops/norm/batch_norm.h"
#include "../tensor/ops/norm/group_norm.h"
#include "../tensor/ops/norm/layer_norm.h"
#include "../tensor/ops/norm/local_response_norm.h"
#include "model.h"

namespace mezzo::nn {

/** Options of the batch norm layers. */
struct BatchNormLayerOptions {
  double eps = 1e-5;                     // added to the variance
  std::optional<double> momentum = 0.1;  // weight of a batch in the running statistics; none: mean
  bool affine = true;                    // trains a weight and a bias for each channel
  bool track_running_stats = true;       // off: uses batch statistics in evaluation mode too
};

/** The tensors of a normalisation layer per channel. Weight and bias are undefined without affine,
 *  the others without running statistics. */
struct ChannelTensors {
  /** Scale [C]. */
  Tensor weight,
      bias,                 // shift [C]
      running_mean,         // [C]; 0 at first
      running_var,          // [C]; 1 at first
      num_batches_tracked;  // i64 scalar; 0 at first
};

template <class Derived, int kLeastRank, int kMostRank> class BatchNormLayer;

/** Returns relu(layer(x) + residual), or relu(layer(x)) without a residual, in one call of
 *  mezzo::batch_norm_relu:
 *    const Tensor y = nn::batch_norm_relu(bn2, conv2(h), x);
 *  The parts are called separately while a trace is active, if the user has overridden the
 *  precision tag of one of the ops, if mixed precision is attached to the layer, if several
 *  processes share the statistics, and if the residual differs from x in shape, dtype or device.
 *  Precision, errors: as the layer, add and relu. */
template <class Layer, int kLeastRank, int kMostRank>
Tensor batch_norm_relu(const BatchNormLayer<Layer, kLeastRank, kMostRank>& layer, const Tensor& x,
                       const Tensor& residual = {}) {
  return layer.with_relu(x, residual);
}

/** Common base of the batch norm layers. */
template <class Derived, int kLeastRank, int kMostRank>
class MZ_API BatchNormLayer : public Model<Derived> {
 public:
  /** Constructs a layer for inputs with `channels` channels. */
  BatchNormLayer(std::int64_t channels, const BatchNormLayerOptions& options);

  /** Returns batch_norm(x) with the layer's tensors. Updates the running statistics in training
   *  mode. After convert_sync_batch_norm(), training mode uses the statistics of the batches of all
   *  ranks, which call it together. */
  Tensor forward(const Tensor& x) const;

  /** Returns the weight [C]; undefined without affine. */
  const Tensor& weight() const { return tensors_.weight; }
  /** Returns the bias [C]; undefined without affine. */
  const Tensor& bias() const { return tensors_.bias; }
  /** Returns the running mean [C]; undefined without track_running_stats. */
  const Tensor& running_mean() const { return tensors_.running_mean; }
  /** Returns the running variance [C]; undefined without track_running_stats. */
  const Tensor& running_var() const { return tensors_.running_var; }
  /** Returns the number of training batches, an i64 scalar; undefined without
   *  track_running_stats. */
  const Tensor& num_batches_tracked() const { return tensors_.num_batches_tracked; }

 private:
  template <class Layer, int kLeast, int kMost>
  friend Tensor batch_norm_relu(const BatchNormLayer<Layer, kLeast, kMost>& layer, const Tensor& x,
                                const Tensor& residual);

  Tensor with_relu(const Tensor& x, const Tensor& residual) const;
  /** Returns the ranks that share the statistics of this call; null: this process alone. */
  const comm::Communicator* group() const;
  /** Returns the options for mezzo::batch_norm. Errors: ShapeError for a wrong rank. */
  BatchNormOptions options_for(const Tensor& x) const;
  /** Returns true if the fused op accepts the operands. Otherwise the layer is called, which throws
   *  the more specific error. */
  bool fits_with_relu(const Tensor& x, const Tensor& residual) const;

  BatchNormLayerOptions options_;
  ChannelTensors tensors_;
};

/** Normalises each channel over batch and spatial dimensions:
 *  (x - mean) / sqrt(var + eps) * weight + bias. In training mode, uses the statistics of the batch
 *  and updates the running statistics (with the unbiased variance). In evaluation mode, uses the
 *  running statistics.
 *  Shape: 1d [N,C] or [N,C,L]; 2d [N,C,H,W]; 3d [N,C,D,H,W].
 *  Parameters: weight [C] ones, bias [C] zeros. Buffers: running_mean [C] zeros, running_var [C]
 *  ones, num_batches_tracked [] 0.
 *  Precision: follows the input, f32 inside. Levels of mixed precision that keep batch norm in f32
 *  apply to layers with affine parameters.
 *  Errors: ValueError for channels below 1; calls throw ShapeError, also for one value per channel
 *  while training. */
struct MZ_API BatchNorm1d : BatchNormLayer<BatchNorm1d, 2, 3> {
  /** Constructs a layer for [N,C] or [N,C,L]. */
  explicit BatchNorm1d(std::int64_t channels, const BatchNormLayerOptions& options = {});
};
/** BatchNorm1d for [N,C,H,W]. */
struct MZ_API BatchNorm2d : BatchNormLayer<BatchNorm2d, 4, 4> {
  /** Constructs a layer for [N,C,H,W]. */
  explicit BatchNorm2d(std::int64_t channels, const BatchNormLayerOptions& options = {});
};
/** BatchNorm1d for [N,C,D,H,W]. */
struct MZ_API BatchNorm3d : BatchNormLayer<BatchNorm3d, 5, 5> {
  /** Constructs a layer for [N,C,D,H,W]. */
  explicit BatchNorm3d(std::int64_t channels, const BatchNormLayerOptions& options = {});
};

extern template class BatchNormLayer<BatchNorm1d, 2, 3>;
extern template class BatchNormLayer<BatchNorm2d, 4, 4>;
extern template class BatchNormLayer<BatchNorm3d, 5, 5>;

/** Result of add_layer_norm. */
struct SumAndNorm {
  Tensor sum;   // x + branch
  Tensor norm;  // the layer norm of the sum
};

class LayerNorm;

/** Returns x + branch and layer(x + branch), in one launch each forward and backward on a GPU, with
 *  the same bits:
 *    const auto [y, normal] = nn::add_layer_norm(norm2, x, attention(norm1(x)));
 *  Without a branch, the sum is x. On a GPU the branch may have the last dimensions of x only, and
 *  repeats; rows of Embedding::late() are looked up in the same launch. The parts are called
 *  separately while a trace is active, if mixed precision is attached to the layer, if the branch
 *  differs from x in another way in shape, in device, or in dtype, except a 16-bit branch of x,
 *  weight and bias in f32; and while ops are cast, unless x, weight and bias are in f32 and no tag
 *  of add and layer_norm is overridden.
 *  Precision, errors: as add and the layer. */
MZ_API SumAndNorm add_layer_norm(const LayerNorm& layer, const Tensor& x,
                                 const Tensor& branch = {});

/** Options of nn::LayerNorm. */
struct LayerNormLayerOptions {
  double eps = 1e-5;   // added to the variance
  bool affine = true;  // trains a weight and a bias of the normalised shape
  bool bias = true;    // off: trains the weight only
};

/** Computes (x - mean) / sqrt(var + eps) * weight + bias over the last dimensions. The constructor
 *  takes their sizes: `nn::LayerNorm{64}`.
 *  Parameters: weight (ones) and bias (zeros) of that shape.
 *  Precision: f32.
 *  Errors: calls throw as layer_norm() does. */
class MZ_API LayerNorm : public Model<LayerNorm> {
 public:
  /** Constructs a layer over the last dimensions, which must have the sizes `shape`. */
  explicit LayerNorm(const Shape& shape, const LayerNormLayerOptions& options = {});
  /** Constructs a layer over the last dimension. */
  explicit LayerNorm(std::int64_t size, const LayerNormLayerOptions& options = {});

  /** Returns layer_norm(x) with the layer's weight, bias and eps. */
  Tensor forward(const Tensor& x) const;

  /** Returns the weight; undefined without affine. */
  const Tensor& weight() const { return weight_; }
  /** Returns the bias; undefined without affine or bias. */
  const Tensor& bias() const { return bias_; }

 private:
  friend SumAndNorm add_layer_norm(const LayerNorm& layer, const Tensor& x, const Tensor& branch);

  SumAndNorm with_sum(const Tensor& x, const Tensor& branch) const;

  Shape shape_;
  double eps_;
  Tensor weight_, bias_;
};

/** Options of nn::RMSNorm. */
struct RmsNormLayerOptions {
  std::optional<double> eps = {};  // none: the machine epsilon of the arithmetic
  bool affine = true;              // trains a weight of the normalised shape
};

/** Computes x / sqrt(mean(x^2) + eps) * weight over the last dimensions.
 *  Parameters: weight of that shape, ones.
 *  Precision: f32. */
class MZ_API RMSNorm : public Model<RMSNorm> {
 public:
  /** Constructs a layer over the last dimensions, which must have the sizes `shape`. */
  explicit RMSNorm(const Shape& shape, const RmsNormLayerOptions& options = {});
  /** Constructs a layer over the last dimension. */
  explicit RMSNorm(std::int64_t size, const RmsNormLayerOptions& options = {});

  /** Returns rms_norm(x) with the layer's weight and eps. */
  Tensor forward(const Tensor& x) const;

  /** Returns the weight; undefined without affine. */
  const Tensor& weight() const { return weight_; }

 private:
  Shape shape_;
  std::optional<double> eps_;
  Tensor weight_;
};

/** Options of nn::GroupNorm. */
struct GroupNormLayerOptions {
  double eps = 1e-5;   // added to the variance
  bool affine = true;  // trains a weight and a bias for each channel
};

/** Normalises groups of adjacent channels of each sample.
 *  Shape: [N,C,...].
 *  Parameters: weight [C] ones, bias [C] zeros.
 *  Precision: f32.
 *  Errors: ValueError unless groups divide channels. */
class MZ_API GroupNorm : public Model<GroupNorm> {
 public:
  /** Constructs a layer for `channels` channels in `groups` groups of equal size. */
  GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormLayerOptions& options = {});

  /** Returns group_norm(x) with the layer's weight, bias and eps. */
  Tensor forward(const Tensor& x) const;

  /** Returns the weight [C]; undefined without affine. */
  const Tensor& weight() const { return weight_; }
  /** Returns the bias [C]; undefined without affine. */
  const Tensor& bias() const { return bias_; }

 private:
  std::int64_t groups_;
  double eps_;
  Tensor weight_, bias_;
};

/** Options of the instance norm layers. */
struct InstanceNormLayerOptions {
  double eps = 1e-5;                 // added to the variance
  double momentum = 0.1;             // weight of a batch in the running statistics
  bool affine = false;               // trains a weight and a bias for each channel
  bool track_running_stats = false;  // off: uses the sample's statistics in evaluation mode too
};

/** Normalises each channel of each sample separately:
 *  (x - mean) / sqrt(var + eps) * weight + bias.
 *  Shape: 1d [N,C,L], 2d [N,C,H,W], 3d [N,C,D,H,W], or without N; the result has the same shape.
 *  Parameters with affine: weight [C] ones, bias [C] zeros. Buffers with track_running_stats:
 *  running_mean [C] zeros, running_var [C] ones, num_batches_tracked [], which stays 0.
 *  Precision: follows the input, f32 inside.
 *  Errors: ValueError for channels below 1; calls throw ShapeError. */
template <class Derived, int kDims> class MZ_API InstanceNormLayer : public Model<Derived> {
 public:
  /** Constructs a layer for inputs with `channels` channels. */
  InstanceNormLayer(std::int64_t channels, const InstanceNormLayerOptions& options);

  /** Returns instance_norm(x) with the layer's tensors. Accepts input without a batch dimension. */
  Tensor forward(const Tensor& x) const;

  /** Returns the weight [C]; undefined without affine. */
  const Tensor& weight() const { return tensors_.weight; }
  /** Returns the bias [C]; undefined without affine. */
  const Tensor& bias() const { return tensors_.bias; }

 private:
  std::int64_t channels_;
  InstanceNormLayerOptions options_;
  ChannelTensors tensors_;
};

/** InstanceNormLayer for [N,C,L] or [C,L]. */
struct MZ_API InstanceNorm1d : InstanceNormLayer<InstanceNorm1d, 1> {
  /** Constructs a layer for [N,C,L] or [C,L]; by default without parameters. */
  explicit InstanceNorm1d(std::int64_t channels, const InstanceNormLayerOptions& options = {});
};
/** InstanceNormLayer for [N,C,H,W] or [C,H,W]. */
struct MZ_API InstanceNorm2d : InstanceNormLayer<InstanceNorm2d, 2> {
  /** Constructs a layer for [N,C,H,W] or [C,H,W]; by default without parameters. */
  explicit InstanceNorm2d(std::int64_t channels, const InstanceNormLayerOptions& options = {});
};
/** InstanceNormLayer for [N,C,D,H,W] or [C,D,H,W]. */
struct MZ_API InstanceNorm3d : InstanceNormLayer<InstanceNorm3d, 3> {
  /** Constructs a layer for [N,C,D,H,W] or [C,D,H,W]; by default without parameters. */
  explicit InstanceNorm3d(std::int64_t channels, const InstanceNormLayerOptions& options = {});
};

extern template class InstanceNormLayer<InstanceNorm1d, 1>;
extern template class InstanceNormLayer<InstanceNorm2d, 2>;
extern template class InstanceNormLayer<InstanceNorm3d, 3>;

/** Divides each element by a norm over neighbouring channels: `nn::LocalResponseNorm{5}` calls
 *  local_response_norm(x, 5).
 *  Precision: f32.
 *  Errors: ValueError for size < 1; calls throw as local_response_norm() does. */
class MZ_API LocalResponseNorm : public Model<LocalResponseNorm> {
 public:
  /** Constructs a layer whose norm covers `size` neighbouring channels. */
  explicit LocalResponseNorm(std::int64_t size, const LocalResponseNormOptions& options = {});

  /** Returns local_response_norm(x, size) with the layer's options. */
  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t size_;
  LocalResponseNormOptions options_;
};

}  // namespace mezzo::nn
