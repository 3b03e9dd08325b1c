// Softmax, softmin and log_softmax. ops.h explains the notation and the precision tags.
#pragma once

#include <optional>

#include "../../tensor/core/tensor.h"

namespace mezzo {

/** Options of log_softmax, softmax and softmin. */
struct SoftmaxOptions {
  std::optional<DType> dtype = {};  // convert the input to it first
};

/** Returns the logarithm of softmax along `dim`: x - max - log(sum(exp(x - max))).
 *  Shape: x's.
 *  Precision: f32.
 *  Gradient: g - exp(y) * sum(g).
 *  Errors: IndexError; DtypeError for integers.
 *  Source: Goodfellow, Bengio, Courville, Deep Learning, 4.1. */
MZ_API Tensor log_softmax(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options = {});
/** Returns exp(x) scaled to sum to 1 along `dim`. A slice that is all -inf, or contains +inf, gives
 *  nan.
 *  Shape: x's.
 *  Precision: f32.
 *  Gradient: y * (g - sum(g * y)).
 *  Errors: IndexError; DtypeError for integers. */
MZ_API Tensor softmax(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options = {});
/** Returns softmax(-x, dim). */
MZ_API Tensor softmin(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options = {});

}  // namespace mezzo
