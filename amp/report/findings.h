// The rules of the verdict: each adds its findings to those of the rules before it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evidence.h"
#include "lines.h"

namespace mezzo::amp::report {

/** Adds results and casts of the forward pass that became infinite in 16 bits. */
void find_forward_overflows(const Evidence& evidence, std::vector<Finding>& findings);
/** Adds a loss that is NaN or infinite although nothing became infinite in 16 bits. */
void find_bad_losses(const Evidence& evidence, std::vector<Finding>& findings);
/** Adds gradients that became infinite. */
void find_gradient_overflows(const Evidence& evidence, std::vector<Finding>& findings);
/** Adds gradients that f16 rounds too coarsely, or to 0. */
void find_underflows(const Evidence& evidence, std::vector<Finding>& findings);
/** Adds 16-bit weights that kept their value although they have a gradient. */
void find_lost_updates(const Evidence& evidence, std::vector<Finding>& findings);
/** Adds, for a run in f32, whether f16 would do. */
void find_needed_dtype(const Evidence& evidence, std::vector<Finding>& findings);

/** Adds to a finding the loss scale, or the level, that the gradients suggest. */
void suggest_scale(Finding& finding, const ScaleWindow& window);
/** Returns 0.123 as "12.3 %". */
std::string percent(double share);

}  // namespace mezzo::amp::report
