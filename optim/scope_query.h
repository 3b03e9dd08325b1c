// Asks mixed precision, which depends on this folder, whether gradients are still scaled.
#pragma once

#include <string_view>

#include "../tensor/core/tensor.h"

namespace mezzo::optim {

/** Returns true if an open scope will unscale the gradient of a leaf, or of a master, at its end.
 */
using ScopeQuery = bool (*)(const Tensor& leaf);

/** Sets the function that clipping asks. Called by mixed precision before its first scope. */
MZ_API void set_scope_query(ScopeQuery query) noexcept;

/** Called for a gradient that is clipped and was not unscaled. Logs once for each GradScaler of
 * this thread from whose loss a backward pass ran since its last update(). */
using ScaledGradientSink = void (*)(std::string_view op, const Tensor& leaf);

/** Sets the function that clipping calls. Called by the first GradScaler. */
MZ_API void set_scaled_gradient_sink(ScaledGradientSink sink) noexcept;

}  // namespace mezzo::optim
