// Normalisation per channel over the batch: batch_norm, batch_norm fused with relu, their fused
// gradients, and the update of running statistics.
#pragma once

#include "../../core/op.h"
#include "../../math/safe_sum.h"

namespace mezzo {

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

}  // namespace mezzo

namespace mezzo::op {

/** (x - mean) * rstd * weight + bias per channel (dimension 1), with rstd = 1 / sqrt(var + eps).
 *  Operands: x, weight, bias, mean, var and the number of batches; all but x are optional. In
 *  training, mean and var are the mean and the biased variance of the batch; otherwise they are the
 *  operands. Results: y, mean, rstd, var; the last three are f32 (f64). */
struct BatchNorm {
  static constexpr OpTraits traits{
      .name = "batch_norm",
      .precision = Precision::match,
      .summary = "normalises each channel over the batch",
      .inputs = 6,
      .outputs = 4,
      .needs = {input(0) | input(1) | output(1) | output(2), input(0) | output(1) | output(2)},
      .channels_last = ChannelsLast::like_first};
  struct Attrs {
    bool training = false;  // normalise with the statistics of the batch
    double eps = 1e-5;      // added to the variance
    // Training updates the running mean and var (row-major) in place and increments the batch
    // count.
    bool tracks = false;
    double momentum = 0.1;  // weight of the batch in the running statistics
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** relu(y + residual), where y is the result of batch_norm rounded to x's dtype. Operands: those of
 *  batch_norm, then the optional residual. */
struct BatchNormRelu {
  static constexpr Needs kAll = input(0) | input(1) | input(2) | output(0) | output(1) | output(2);
  static constexpr OpTraits traits{.name = "batch_norm_relu",
                                   .precision = Precision::match,
                                   .summary = "relu(batch_norm(x) + residual)",
                                   .inputs = 7,
                                   .outputs = 4,
                                   .needs = {kAll, kAll, kAll, {}, {}, {}, output(0)},
                                   .channels_last = ChannelsLast::like_first};
  using Attrs = BatchNorm::Attrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Operands: g, x, weight, mean, rstd. Results: the gradients of x (in x's memory format), weight
 *  and bias. */
struct BatchNormBackward {
  static constexpr OpTraits traits{.name = "batch_norm_backward",
                                   .precision = Precision::match,
                                   .inputs = 5,
                                   .outputs = 3,
                                   .differentiable = false,
                                   .internal = true};
  using Attrs = BatchNorm::Attrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Operands: g, x, weight, mean, rstd, bias and, if there was a residual, the result y of relu and
 *  optionally a second term of the incoming gradient: then that is their sum, rounded to x's dtype.
 *  Without a residual the relu mask is recomputed from x, which is read anyway. Results: the
 *  gradients of x, weight, bias and residual; the last one is empty without a residual. Results of
 *  x's shape have x's memory format. */
struct BatchNormReluBackward {
  static constexpr OpTraits traits{.name = "batch_norm_relu_backward",
                                   .precision = Precision::match,
                                   .inputs = 8,
                                   .outputs = 4,
                                   .differentiable = false,
                                   .internal = true};
  using Attrs = BatchNorm::Attrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** running = (1 - momentum) * running + momentum * scale * batch, in place. */
struct UpdateRunning {
  static constexpr OpTraits traits{.name = "update_running",
                                   .precision = Precision::match,
                                   .inputs = 2,
                                   .differentiable = false,
                                   .in_place = true,
                                   .internal = true};
  struct Attrs {
    double momentum = 0.1;
    double scale = 1;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Returns one normalised element in the compute type, with scale = rstd * weight. */
template <class C> MZ_HD C normalised(C x, C mean, C scale, C shift) {
  return (x - mean) * scale + shift;
}

/** Returns whether the square of rstd may leave the range of f32. The factors of a gradient are
 * then multiplied in another order. */
template <class C> MZ_HD bool is_extreme(C rstd) { return rstd < C(0x1p-60) || rstd > C(0x1p60); }

/** Returns what x - mean is multiplied by in a gradient: a power of two near rstd if that is
 *  extreme, else 1. */
template <class C> MZ_HD C unit_of(C rstd) {
  return is_extreme(rstd) ? math::scale_of(C(1) / rstd) : C(1);
}
/** Returns scale * rstd^2 * along / unit, the factor of (x - mean) * unit in a gradient. */
template <class C> MZ_HD C slope_of(C scale, C rstd, C along, C unit) {
  return is_extreme(rstd) ? scale * (rstd / unit * (rstd * along)) : scale * rstd * rstd * along;
}

/** Returns the largest value that rounds to 0 in a dtype: half its smallest subnormal, a tie that
 *  rounds to even. Returns 0 for other dtypes. */
MZ_HD constexpr double largest_rounded_to_zero(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x1p-25;
    case DType::bf16: return 0x1p-134;
    case DType::f32:
    case DType::f64:
    case DType::boolean:
    case DType::u8:
    case DType::i32:
    case DType::i64: break;
  }
  return 0;
}

/** Returns one updated element of the running statistics, in the compute type. */
template <class C> MZ_HD C updated_running(const UpdateRunning::Attrs& attrs, C running, C batch) {
  const C keep = static_cast<C>(1 - attrs.momentum), take = static_cast<C>(attrs.momentum);
  return keep * running + take * (static_cast<C>(attrs.scale) * batch);
}

/** Returns the factor that turns the biased variance of `count` values into the unbiased one. */
MZ_HD constexpr double unbiased_scale(std::int64_t count) {
  return static_cast<double>(count) / static_cast<double>(count - 1);
}

using BatchNormOps =
    type_list<BatchNorm, BatchNormBackward, BatchNormRelu, BatchNormReluBackward, UpdateRunning>;

/** Checks the options of batch norm before anything is computed. Errors: ValueError naming `op`. */
void check_batch_norm_options(const BatchNormOptions& options, const char* op);

/** Updates the running statistics with the biased variance of `count` values. The arguments were
 *  checked before, so it does not throw for invalid ones. */
void update_running(const Tensor& running_mean, const Tensor& running_var, double momentum,
                    const Tensor& mean, const Tensor& var, std::int64_t count);

}  // namespace mezzo::op
