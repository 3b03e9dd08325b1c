// The verdict of a report, and its rules: each adds its findings to those of the rules before it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "../../amp/policy.h"
#include "evidence.h"
#include "lines.h"
#include "run_data.h"

namespace mezzo::amp::report {

/** Returns the name of the first level of which `f` returns true. */
template <class F> consteval std::string_view first_level(const F& f) {
  return std::find_if(kLevels.begin(), kLevels.end(), f)->name;
}

// The levels that findings suggest.
/** The first level that casts ops to f16. */
inline constexpr std::string_view kCastsToF16 =
    first_level([](const Level& level) { return level.patch_functions && level.low == f16; });
/** The first level that casts ops to bf16. */
inline constexpr std::string_view kCastsToBf16 =
    first_level([](const Level& level) { return level.patch_functions && level.low == bf16; });
/** The first level with a model in f16 and f32 master weights. */
inline constexpr std::string_view kMastersOfF16 = first_level([](const Level& level) {
  return level.master_weights == true && level.cast_model_type == f16;
});

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

/** Returns what the figures of a run say; README.md states the rules and the kinds. Without a
 *  problem or a hint the only finding is "healthy". */
MZ_API std::vector<Finding> verdict(const RunData& run);

}  // namespace mezzo::amp::report
