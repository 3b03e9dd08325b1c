// Softmax, softmin and log_softmax.
// Sees: tensor.
// Read next: ../../tensor/ops/softmax.h.
#pragma once

#include <optional>

#include "../../tensor/tensor.h"

namespace mezzo {

struct SoftmaxOptions {
  std::optional<DType> dtype = {};  // the input is converted to it first
};

/** Logarithm of softmax along `dim`: x - max - log(sum(exp(x - max))). Shape: kept.
 *  Precision: full. Gradient: g - exp(y) * sum(g). Errors: IndexError; DtypeError for integers.
 *  Source: Goodfellow, Bengio, Courville, Deep Learning, 4.1. */
MZ_API Tensor log_softmax(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options = {});
/** exp(x) scaled to sum to 1 along `dim`. A line that is all -inf, or holds +inf, gives nan. Shape: kept.
 *  Precision: full. Gradient: y * (g - sum(g * y)). Errors: IndexError; DtypeError for integers. */
MZ_API Tensor softmax(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options = {});
/** softmax(-x, dim). */
MZ_API Tensor softmin(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options = {});

}  // namespace mezzo
