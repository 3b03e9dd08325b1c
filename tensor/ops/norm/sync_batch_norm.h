// Normalisation per channel over a batch whose parts are on several ranks: the sums over one part,
// and batch norm with the statistics of all parts.
#pragma once

#include "../../comm/communicator.h"
#include "../../core/op.h"
#include "batch_norm.h"

namespace mezzo {

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

}  // namespace mezzo

namespace mezzo::op {

/** The moments of each channel of this rank's part of the batch. Operands: those of batch_norm,
 *  which are checked. Result: f64 [2C+1], the message to the other ranks: the means, the sums of
 *  squared deviations, computed in f32 (f64 for f64), and the number of values per channel. An
 *  empty part gives zeros. */
struct ChannelMoments {
  static constexpr OpTraits traits{.name = "channel_moments",
                                   .precision = Precision::match,
                                   .inputs = 6,
                                   .differentiable = false,
                                   .internal = true};
  static OutSpecs infer(Inputs in, const NoAttrs& attrs);
  static void cpu(Inputs in, Outputs out, const NoAttrs& attrs);
};

/** batch_norm in training with the mean and the biased variance of the whole batch. Operands: x,
 *  weight, bias, mean, var; weight and bias are optional. Results: y, mean, rstd, var; the last
 *  three are f32 (f64). The gradient of x is that of the sum of the results of all ranks, which
 *  therefore take part; the gradients of weight and bias are those of this rank's results. */
struct SyncBatchNorm {
  static constexpr Needs kAll = input(0) | input(1) | output(1) | output(2);
  static constexpr OpTraits traits{.name = "sync_batch_norm",
                                   .precision = Precision::match,
                                   .inputs = 5,
                                   .outputs = 4,
                                   .needs = {kAll, kAll, kAll},
                                   .twice_differentiable = false,
                                   .internal = true,
                                   .channels_last = ChannelsLast::like_first};
  struct Attrs {
    double eps = 1e-5;              // added to the variance
    double count = 1;               // values per channel on all ranks
    comm::Communicator group = {};  // the ranks
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** The sums of this rank's part from which the gradients follow. Operands: g, x, mean, rstd.
 *  Results in f32 (f64): [C,2], the sums of g and of g * (x - mean); the gradients of weight and
 *  bias, [C]. */
struct ChannelGradientSums {
  static constexpr OpTraits traits{.name = "channel_gradient_sums",
                                   .precision = Precision::match,
                                   .inputs = 4,
                                   .outputs = 3,
                                   .differentiable = false,
                                   .internal = true};
  static OutSpecs infer(Inputs in, const NoAttrs& attrs);
  static void cpu(Inputs in, Outputs out, const NoAttrs& attrs);
};

/** The gradient of x in its memory format. Operands: g, x, weight, mean, rstd, and the first result
 *  of ChannelGradientSums summed over all ranks. */
struct SyncBatchNormBackward {
  static constexpr OpTraits traits{.name = "sync_batch_norm_backward",
                                   .precision = Precision::match,
                                   .inputs = 6,
                                   .differentiable = false,
                                   .internal = true};
  struct Attrs {
    double count = 1;  // values per channel on all ranks
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

using SyncBatchNormOps =
    type_list<ChannelGradientSums, ChannelMoments, SyncBatchNorm, SyncBatchNormBackward>;

}  // namespace mezzo::op
