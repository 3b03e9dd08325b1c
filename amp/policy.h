// The definition of the levels O0-O5, and of what automatic casts do to an op. Nothing else in the
// library defines either.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "../tensor/core/op.h"

namespace mezzo::amp {

/** The loss_scale of dynamic loss scaling: the scale adapts during training. */
inline constexpr double kDynamic = 0;
/** A property that the level does not set. */
inline constexpr std::nullopt_t unset = std::nullopt;

/** An optimization level: its name, its default of each property, and a description. */
struct Level {
  std::string_view name;                    // "O0" to "O5", the value of opt_level
  std::optional<DType> cast_model_type;     // parameters, buffers and model inputs are cast to it
  bool patch_functions;                     // ops cast their inputs according to their tags
  std::optional<bool> keep_batchnorm_fp32;  // batch norms are not converted
  std::optional<bool> master_weights;       // 16-bit parameters get f32 masters for the optimizer
  double loss_scale;                        // a static scale, or kDynamic
  std::optional<DType> low;                 // the 16-bit type of op casts
  std::string_view text;                    // one-line description
};

/** All levels, in the order of their names. */
inline constexpr auto kLevels = std::to_array<Level>({
    // name  model  op casts  batch norm  masters  loss scale  low
    {"O0", f32, false, unset, false, 1.0, unset, "Pure FP32 training."},
    {"O1", unset, true, unset, unset, kDynamic, f16, "Insert automatic casts around operations."},
    {"O2", f16, false, true, true, kDynamic, unset,
     "FP16 training with FP32 batchnorm and FP32 master weights."},
    {"O3", f16, false, false, false, 1.0, unset, "Pure FP16 training."},
    {"O4", unset, true, unset, unset, 1.0, bf16, "As O1 with BF16 and no loss scaling."},
    {"O5", bf16, false, true, true, 1.0, unset, "As O2 with BF16 and no loss scaling."},
});

/** What automatic casts do to the inputs of an op. They cast eligible inputs only. */
enum class Action : std::uint8_t {
  keep,     // nothing: the op runs in the dtypes of its inputs
  to_low,   // cast to the 16-bit type
  to_f32,   // cast to f32
  promote,  // cast to the widest input's dtype
  refuse,   // error
};

/** Returns the action for an op with this tag; without active casts only `promote` remains. */
constexpr Action action(Precision tag, bool casts_active) {
  switch (tag) {
    case Precision::match: return Action::keep;
    case Precision::low: return casts_active ? Action::to_low : Action::keep;
    case Precision::f32: return casts_active ? Action::to_f32 : Action::keep;
    case Precision::promote: return Action::promote;
    case Precision::banned: break;
  }
  return casts_active ? Action::refuse : Action::keep;
}

/** Returns what happens to the inputs of an op with this tag at a level: "as is", the name of a
 *  dtype, "promote" or "error". */
MZ_API std::string action_text(Precision tag, const Level& level);

/** True for types that automatic casts may change: f16, bf16 and f32. f64, integers and bool are
 *  never cast, at any level. */
constexpr bool eligible(DType t) { return is_floating(t) && t != f64; }

/** Returns the level of that name, or null. */
constexpr const Level* find_level(std::string_view name) {
  for (const Level& level : kLevels)
    if (level.name == name) return &level;
  return nullptr;
}

}  // namespace mezzo::amp
