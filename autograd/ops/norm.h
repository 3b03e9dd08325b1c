// Normalisation: batch_norm, layer_norm and their kin.
// Sees: tensor.
// Read next: ../../tensor/ops/batch_norm.h, ../../tensor/ops/layer_norm.h.
#pragma once

#include <optional>

#include "../../tensor/tensor.h"

namespace mezzo {

struct BatchNormOptions {
  Tensor running_mean = {}, running_var = {};  // [C]; updated in place in training; needed outside it
  Tensor weight = {}, bias = {};               // [C]; absent: 1 and 0
  bool training = false;
  double momentum = 0.1;  // share of the batch in the new running statistics
  double eps = 1e-5;
  Tensor num_batches_tracked = {};  // [] i64; one is added to it in training
};

/** Normalises each channel over batch and space: (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(var + eps).
 *  Training: mean and biased variance of this batch, and running = (1 - momentum) * running + momentum * statistic, with the unbiased
 *  variance; else the running statistics. Shape: x [N,C] or [N,C,...], kept.
 *  Precision: follows x; f32 inside (f64 for f64), weights and statistics of any floating dtype.
 *  Gradient: rstd * (gw - mean(gw) - xh * mean(gw * xh)) with gw = g * weight, xh the normalised x; g * weight * rstd outside training.
 *  Errors: ShapeError (also for one value per channel in training), DtypeError, ValueError; the running statistics are then unchanged.
 *  Source: Ioffe, Szegedy, Batch Normalization (2015). */
MZ_API Tensor batch_norm(const Tensor& x, const BatchNormOptions& options = {});

/** relu(batch_norm(x) + residual), or without a residual relu(batch_norm(x)), as one op: the bits of its parts in fewer passes over memory and fewer
 *  launches on a GPU. Shape: x [N,C] or [N,C,...], kept; the residual has the same.
 *  Precision: follows x, as batch_norm; the residual has x's dtype.   Gradient: as of its parts.
 *  Errors: as batch_norm; ShapeError, DtypeError and DeviceError for a residual that differs from x.
 *  Source: He, Zhang, Ren, Sun, Deep residual learning for image recognition (2015). */
MZ_API Tensor batch_norm_relu(const Tensor& x, const BatchNormOptions& options = {},
                              const Tensor& residual = {});

struct GroupNormOptions {
  Tensor weight = {}, bias = {};  // [C]; absent: 1 and 0
  double eps = 1e-5;
};

/** Normalises each of `groups` groups of neighbouring channels of each sample over its channels and space, then scales and shifts per channel.
 *  Shape: x [N,C] or [N,C,...], kept. Precision: full; casts off: f32 inside, the result in x's dtype.
 *  Gradient: as layer_norm per group. Errors: ShapeError (also where groups do not divide the channels), DtypeError, ValueError.
 *  Source: Wu, He, Group Normalization (2018). */
MZ_API Tensor group_norm(const Tensor& x, std::int64_t groups, const GroupNormOptions& options = {});

struct InstanceNormOptions {
  Tensor running_mean = {},
         running_var = {};        // [C]; updated in place where statistics come from the input, else needed
  Tensor weight = {}, bias = {};  // [C]; absent: 1 and 0
  bool use_input_stats = true;
  double momentum = 0.1;
  double eps = 1e-5;
};

/** batch_norm of each channel of each sample by itself. Shape: x [N,C,...] with more than one element of space, kept.
 *  Precision: follows x; f32 inside. Gradient: as batch_norm. Errors: ShapeError, DtypeError, ValueError.
 *  Source: Ulyanov, Vedaldi, Lempitsky, Instance Normalization (2016). */
MZ_API Tensor instance_norm(const Tensor& x, const InstanceNormOptions& options = {});

struct LayerNormOptions {
  Tensor weight = {}, bias = {};  // of the normalised shape; absent: 1 and 0
  double eps = 1e-5;
};

/** (x - mean) * rstd * weight + bias over the last dimensions, whose sizes are `normalized_shape`; rstd = 1 / sqrt(biased variance + eps).
 *  Precision: full; casts off: f32 inside, the result in x's dtype, weight and bias of any floating dtype.
 *  Gradient: rstd * (gw - mean(gw) - xh * mean(gw * xh)) with gw = g * weight, xh the normalised x. Errors: ShapeError, DtypeError.
 *  Source: Ba, Kiros, Hinton, Layer Normalization (2016). */
MZ_API Tensor layer_norm(const Tensor& x, const Shape& normalized_shape,
                         const LayerNormOptions& options = {});

struct RmsNormOptions {
  Tensor weight = {};              // of the normalised shape; absent: 1
  std::optional<double> eps = {};  // left out: the machine epsilon of the arithmetic, 2^-23 (2^-52 for f64)
};

/** x * rstd * weight over the last dimensions, whose sizes are `normalized_shape`; rstd = 1 / sqrt(mean(x^2) + eps).
 *  Precision: full, as layer_norm. Gradient: rstd * (gw - xh * mean(gw * xh)). Errors: ShapeError, DtypeError.
 *  Source: Zhang, Sennrich, Root Mean Square Layer Normalization (2019). */
MZ_API Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const RmsNormOptions& options = {});

}  // namespace mezzo
