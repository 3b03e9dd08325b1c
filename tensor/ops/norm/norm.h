// Normalisation: batch_norm, group_norm, instance_norm, layer_norm, rms_norm. ops.h explains the
// notation and the precision tags.
#pragma once

#include <optional>

#include "../../core/tensor.h"

namespace mezzo {

namespace comm {
class Communicator;
}

/** Options of batch_norm and batch_norm_relu. */
struct BatchNormOptions {
  Tensor running_mean = {},         // [C]: running mean; updated in training, required outside it
      running_var = {};             // [C]: running unbiased variance; likewise
  Tensor weight = {},               // [C]: factor of each channel; undefined: 1
      bias = {};                    // [C]: added to each channel; undefined: 0
  bool training = false;            // normalise with the statistics of this batch
  double momentum = 0.1;            // weight of the batch in the new running statistics
  double eps = 1e-5;                // added to the variance
  Tensor num_batches_tracked = {};  // [] i64; incremented in training
};

/** Normalises each channel over batch and space: (x - mean) * rstd * weight + bias, with rstd = 1 /
 *  sqrt(var + eps). In training it uses the mean and the biased variance of this batch, and updates
 *  running = (1 - momentum) * running + momentum * statistic, with the unbiased variance. Outside
 *  training it uses the running statistics.
 *  Shape: x [N,C] or [N,C,...], kept.
 *  Precision: match; computed in f32 (f64 for f64). Weights and statistics may have any
 *  floating-point dtype. Unlike PyTorch, all norms scale numbers whose squares overflow.
 *  Gradient: in training rstd * (gw - mean(gw) - xh * mean(gw * xh)) with gw = g * weight, and xh
 *  the normalised x; otherwise g * weight * rstd.
 *  Errors: ShapeError (also for one value per channel in training), DtypeError, ValueError. The
 *  running statistics are then unchanged.
 *  Source: Ioffe, Szegedy, Batch Normalization (2015). */
MZ_API Tensor batch_norm(const Tensor& x, const BatchNormOptions& options = {});

/** Returns relu(batch_norm(x) + residual), or relu(batch_norm(x)) without a residual, as one op.
 *  The result has the same bits as the separate ops, with fewer passes over memory and fewer
 *  launches on a GPU.
 *  Shape: x [N,C] or [N,C,...], kept; the residual has the same shape.
 *  Precision: match, as batch_norm; the residual has x's dtype.
 *  Gradient: as of the separate ops.
 *  Errors: as batch_norm; ShapeError, DtypeError and DeviceError for a residual that differs from
 *  x.
 *  Source: He, Zhang, Ren, Sun, Deep residual learning for image recognition (2015). */
MZ_API Tensor batch_norm_relu(const Tensor& x, const BatchNormOptions& options = {},
                              const Tensor& residual = {});

namespace detail {
/** Returns batch_norm(x, options) in training, for a batch whose parts are on the ranks of a group:
 *  mean and variance are those of the whole batch, and the gradient of x is that of the sum of all
 *  ranks' results. All ranks call it and its backward, in the same order; parts may differ in N and
 *  may be empty. The gradients of weight and bias are those of this rank's results.
 *  Shape: x [N,C] or [N,C,...], kept.
 *  Precision: match, as batch_norm; the moments of the parts are computed in f32 (f64 for f64) and
 *  combined in f64, in the order of the ranks, so all ranks have the same bits.
 *  Gradient: first only; Unsupported with create_graph.
 *  Errors: as batch_norm; ShapeError on all ranks for one value per channel in the whole batch;
 *  CommError. The running statistics are then unchanged.
 *  Source: Chan, Golub, LeVeque, Updating formulae and a pairwise algorithm for computing sample
 *  variances (1979). */
MZ_API Tensor sync_batch_norm(const Tensor& x, const BatchNormOptions& options,
                              const comm::Communicator& group);
}  // namespace detail

/** Options of group_norm. */
struct GroupNormOptions {
  Tensor weight = {},  // [C]: factor of each channel; undefined: 1
      bias = {};       // [C]: added to each channel; undefined: 0
  double eps = 1e-5;   // added to the variance
};

/** Normalises each of `groups` groups of adjacent channels of each sample over its channels and
 *  space, then scales and shifts per channel.
 *  Shape: x [N,C] or [N,C,...], kept.
 *  Precision: f32; with casts off it computes in f32 and returns x's dtype.
 *  Gradient: as layer_norm, per group.
 *  Errors: ShapeError (also where `groups` does not divide the channels), DtypeError, ValueError.
 *  Source: Wu, He, Group Normalization (2018). */
MZ_API Tensor group_norm(const Tensor& x, std::int64_t groups,
                         const GroupNormOptions& options = {});

/** Options of instance_norm. */
struct InstanceNormOptions {
  Tensor running_mean = {},     // [C]: running mean; updated with use_input_stats, else required
      running_var = {};         // [C]: running unbiased variance; likewise
  Tensor weight = {},           // [C]: factor of each channel; undefined: 1
      bias = {};                // [C]: added to each channel; undefined: 0
  bool use_input_stats = true;  // normalise with the statistics of x
  double momentum = 0.1;        // weight of x in the new running statistics
  double eps = 1e-5;            // added to the variance
};

/** Normalises each channel of each sample over space, as batch_norm does for the whole batch.
 *  Shape: x [N,C,...] with more than one element of space, kept.
 *  Precision: match; computed in f32.
 *  Gradient: as batch_norm.
 *  Errors: ShapeError, DtypeError, ValueError.
 *  Source: Ulyanov, Vedaldi, Lempitsky, Instance Normalization (2016). */
MZ_API Tensor instance_norm(const Tensor& x, const InstanceNormOptions& options = {});

/** Options of layer_norm. */
struct LayerNormOptions {
  Tensor weight = {},  // factor, of the normalised shape; undefined: 1
      bias = {};       // added, of the normalised shape; undefined: 0
  double eps = 1e-5;   // added to the variance
};

/** Returns (x - mean) * rstd * weight + bias over the last dimensions, whose sizes are
 *  `normalized_shape`; rstd = 1 / sqrt(biased variance + eps).
 *  Precision: f32; with casts off it computes in f32 and returns x's dtype. Weight and bias may
 *  have any floating-point dtype.
 *  Gradient: rstd * (gw - mean(gw) - xh * mean(gw * xh)) with gw = g * weight, and xh the
 *  normalised x.
 *  Errors: ShapeError, DtypeError.
 *  Source: Ba, Kiros, Hinton, Layer Normalization (2016). */
MZ_API Tensor layer_norm(const Tensor& x, const Shape& normalized_shape,
                         const LayerNormOptions& options = {});

/** Options of rms_norm. */
struct RmsNormOptions {
  Tensor weight = {};  // of the normalised shape; undefined: 1
  /** Added to the mean of squares; not given: the machine epsilon of the arithmetic, 2^-23 (2^-52
   *  for f64). */
  std::optional<double> eps = {};
};

/** Returns x * rstd * weight over the last dimensions, whose sizes are `normalized_shape`; rstd = 1
 *  / sqrt(mean(x^2) + eps).
 *  Precision: f32, as layer_norm.
 *  Gradient: rstd * (gw - xh * mean(gw * xh)).
 *  Errors: ShapeError, DtypeError.
 *  Source: Zhang, Sennrich, Root Mean Square Layer Normalization (2019). */
MZ_API Tensor rms_norm(const Tensor& x, const Shape& normalized_shape,
                       const RmsNormOptions& options = {});

}  // namespace mezzo
