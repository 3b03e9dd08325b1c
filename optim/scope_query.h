// Asks mixed precision, which depends on this folder, whether a scale_loss scope is open.
#pragma once

#include "../tensor/core/tensor.h"

namespace mezzo::optim {

/** Returns true if an open scope will unscale the gradient of a leaf, or of a master, at its end.
 */
using ScopeQuery = bool (*)(const Tensor& leaf);

/** Sets the function that clipping asks. Called by mixed precision before its first scope. */
MZ_API void set_scope_query(ScopeQuery query) noexcept;

}  // namespace mezzo::optim
