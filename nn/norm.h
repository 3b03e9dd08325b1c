// Normalisation layers: batch norm, layer norm and their kin.
// Sees: model.h.
// Read next: norm.cpp, ../autograd/ops/norm.h.
#pragma once

#include <optional>

#include "../autograd/ops/local_response_norm.h"
#include "../autograd/ops/norm.h"
#include "model.h"

namespace mezzo::nn {

struct BatchNormLayerOptions {
  double eps = 1e-5;
  std::optional<double> momentum =
      0.1;             // share of a batch in the running statistics; none: all batches count the same
  bool affine = true;  // trains a weight and a bias for each channel
  bool track_running_stats = true;  // off: the batch's statistics serve outside training too
};

/** The tensors of a normalisation per channel; undefined where it does not train or track. */
struct ChannelTensors {
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;
};

template <class Derived, int kLeastRank, int kMostRank> class BatchNormLayer;

/** relu(layer(x) + residual), or without a residual relu(layer(x)), in one call of mezzo::batch_norm_relu:
 *    const Tensor y = nn::batch_norm_relu(bn2, conv2(h), x);
 *  Its parts are called one by one where that would show: under a trace, where one of their ops has been given another precision tag, where
 *  something is attached to the layer, where the residual's shape or dtype is another.   Precision and errors: as the layer, add and relu. */
template <class Layer, int kLeastRank, int kMostRank>
Tensor batch_norm_relu(const BatchNormLayer<Layer, kLeastRank, kMostRank>& layer, const Tensor& x,
                       const Tensor& residual = {}) {
  return layer.with_relu(x, residual);
}

/** What the batch norms of any number of dimensions have in common. */
template <class Derived, int kLeastRank, int kMostRank> class MZ_API BatchNormLayer : public Model<Derived> {
 public:
  BatchNormLayer(std::int64_t channels, const BatchNormLayerOptions& options);

  Tensor forward(const Tensor& x) const;

  /** Undefined without affine. */
  const Tensor& weight() const { return tensors_.weight; }
  const Tensor& bias() const { return tensors_.bias; }
  /** Undefined without track_running_stats. */
  const Tensor& running_mean() const { return tensors_.running_mean; }
  const Tensor& running_var() const { return tensors_.running_var; }
  const Tensor& num_batches_tracked() const { return tensors_.num_batches_tracked; }

 private:
  template <class Layer, int kLeast, int kMost>
  friend Tensor batch_norm_relu(const BatchNormLayer<Layer, kLeast, kMost>& layer, const Tensor& x,
                                const Tensor& residual);

  Tensor with_relu(const Tensor& x, const Tensor& residual) const;
  /** What the function is called with. Errors: ShapeError for an input of another rank. */
  BatchNormOptions options_for(const Tensor& x) const;
  /** Whether the op for both takes these; errors are better told by the layer itself. */
  bool fits_with_relu(const Tensor& x, const Tensor& residual) const;

  BatchNormLayerOptions options_;
  ChannelTensors tensors_;
};

/** Normalises each channel over batch and space: (x - mean) / sqrt(var + eps) * weight + bias; while training by the batch's statistics, which
 *  update the running ones (with the unbiased variance), else by the running ones. Shape: [N,C] or [N,C,L]; 2d [N,C,H,W]; 3d [N,C,D,H,W].
 *  Parameters: weight [C] ones, bias [C] zeros. Buffers: running_mean [C] zeros, running_var [C] ones, num_batches_tracked [] 0.
 *  Precision: follows the input, f32 inside; where it is affine, levels that keep batch norm in f32 mean it.
 *  Errors: ValueError for channels below 1; when called: ShapeError, also for one value per channel while training. */
struct MZ_API BatchNorm1d : BatchNormLayer<BatchNorm1d, 2, 3> {
  explicit BatchNorm1d(std::int64_t channels, const BatchNormLayerOptions& options = {});
};
struct MZ_API BatchNorm2d : BatchNormLayer<BatchNorm2d, 4, 4> {
  explicit BatchNorm2d(std::int64_t channels, const BatchNormLayerOptions& options = {});
};
struct MZ_API BatchNorm3d : BatchNormLayer<BatchNorm3d, 5, 5> {
  explicit BatchNorm3d(std::int64_t channels, const BatchNormLayerOptions& options = {});
};

extern template class BatchNormLayer<BatchNorm1d, 2, 3>;
extern template class BatchNormLayer<BatchNorm2d, 4, 4>;
extern template class BatchNormLayer<BatchNorm3d, 5, 5>;

struct LayerNormLayerOptions {
  double eps = 1e-5;
  bool affine = true;  // trains a weight and a bias of the normalised shape
  bool bias = true;    // off: the weight alone
};

/** (x - mean) / sqrt(var + eps) * weight + bias over the last dimensions, whose sizes it is made with: `nn::LayerNorm{64}`.
 *  Parameters: weight and bias of that shape, ones and zeros.   Precision: full.   Errors: when called, as layer_norm(). */
class MZ_API LayerNorm : public Model<LayerNorm> {
 public:
  explicit LayerNorm(const Shape& shape, const LayerNormLayerOptions& options = {});
  explicit LayerNorm(std::int64_t size, const LayerNormLayerOptions& options = {});

  Tensor forward(const Tensor& x) const;

  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }

 private:
  Shape shape_;
  double eps_;
  Tensor weight_, bias_;
};

struct RmsNormLayerOptions {
  std::optional<double> eps = {};  // left out: the machine epsilon of the arithmetic
  bool affine = true;
};

/** x / sqrt(mean(x^2) + eps) * weight over the last dimensions. Parameters: weight of that shape, ones.   Precision: full. */
class MZ_API RMSNorm : public Model<RMSNorm> {
 public:
  explicit RMSNorm(const Shape& shape, const RmsNormLayerOptions& options = {});
  explicit RMSNorm(std::int64_t size, const RmsNormLayerOptions& options = {});

  Tensor forward(const Tensor& x) const;

  const Tensor& weight() const { return weight_; }

 private:
  Shape shape_;
  std::optional<double> eps_;
  Tensor weight_;
};

struct GroupNormLayerOptions {
  double eps = 1e-5;
  bool affine = true;
};

/** Normalises groups of neighbouring channels of each sample. Shape: [N,C,...]. Parameters: weight [C] ones, bias [C] zeros.   Precision: full.
 *  Errors: ValueError unless groups divide channels. */
class MZ_API GroupNorm : public Model<GroupNorm> {
 public:
  GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormLayerOptions& options = {});

  Tensor forward(const Tensor& x) const;

  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }

 private:
  std::int64_t groups_;
  double eps_;
  Tensor weight_, bias_;
};

struct InstanceNormLayerOptions {
  double eps = 1e-5;
  double momentum = 0.1;             // share of a batch in the running statistics
  bool affine = false;               // trains a weight and a bias for each channel
  bool track_running_stats = false;  // off: each sample's own statistics serve outside training too
};

/** Normalises each channel of each sample by itself: (x - mean) / sqrt(var + eps) * weight + bias.
 *  Shape: 1d [N,C,L], 2d [N,C,H,W], 3d [N,C,D,H,W], or without N; kept.
 *  Parameters: weight [C] ones and bias [C] zeros where affine. Buffers where tracking: running_mean [C] zeros, running_var [C] ones,
 *  num_batches_tracked [], which stays 0.
 *  Precision: follows the input, f32 inside.   Errors: ValueError for channels below 1; when called: ShapeError. */
template <class Derived, int kDims> class MZ_API InstanceNormLayer : public Model<Derived> {
 public:
  InstanceNormLayer(std::int64_t channels, const InstanceNormLayerOptions& options);

  Tensor forward(const Tensor& x) const;

  /** Undefined without affine. */
  const Tensor& weight() const { return tensors_.weight; }
  const Tensor& bias() const { return tensors_.bias; }

 private:
  std::int64_t channels_;
  InstanceNormLayerOptions options_;
  ChannelTensors tensors_;
};

struct MZ_API InstanceNorm1d : InstanceNormLayer<InstanceNorm1d, 1> {
  explicit InstanceNorm1d(std::int64_t channels, const InstanceNormLayerOptions& options = {});
};
struct MZ_API InstanceNorm2d : InstanceNormLayer<InstanceNorm2d, 2> {
  explicit InstanceNorm2d(std::int64_t channels, const InstanceNormLayerOptions& options = {});
};
struct MZ_API InstanceNorm3d : InstanceNormLayer<InstanceNorm3d, 3> {
  explicit InstanceNorm3d(std::int64_t channels, const InstanceNormLayerOptions& options = {});
};

extern template class InstanceNormLayer<InstanceNorm1d, 1>;
extern template class InstanceNormLayer<InstanceNorm2d, 2>;
extern template class InstanceNormLayer<InstanceNorm3d, 3>;

/** Divides by what neighbouring channels hold: `nn::LocalResponseNorm{5}` calls local_response_norm(x, 5).   Precision: full.
 *  Errors: ValueError for size < 1; when called: as local_response_norm(). */
class MZ_API LocalResponseNorm : public Model<LocalResponseNorm> {
 public:
  explicit LocalResponseNorm(std::int64_t size, const LocalResponseNormOptions& options = {});

  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t size_;
  LocalResponseNormOptions options_;
};

}  // namespace mezzo::nn
