// What the files of GradScaler share: its checks, and an optimizer's gradients.
// Sees: grad_scaler.h.
// Read next: grad_scaler.cpp, grad_scaler_deferred.cpp, grad_scaler_state.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "grad_scaler.h"

namespace mezzo::amp {

// Errors of these: ValueError naming what is out of range.
void require_in_range(bool holds, std::string_view what, double got, std::string_view expected);
void require_scale(std::string_view what, double scale);
void check(const GradScalerOptions& options);

/** Errors: StateError. */
[[noreturn]] void refuse_second_step(std::string_view op);

/** Those that are there. */
std::vector<Tensor> gradients_of(const optim::Optimizer& optimizer);

}  // namespace mezzo::amp
