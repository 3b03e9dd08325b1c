// The definition of the levels O0-O5, and of what automatic casts do to an op. There is no other place.
// Sees: tensor/op.h (the ops' precision tags).
// Read next: properties.h (levels with the user's overrides), autocast.cpp (where actions are carried out).
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "../tensor/op.h"

namespace mezzo::amp {

inline constexpr double kDynamic = 0;  // in place of a loss scale: found and adapted during training
inline constexpr std::nullopt_t unset = std::nullopt;

/** What a level decides. */
struct Level {
  std::string_view name;
  std::optional<DType>
      cast_model_type;   // parameters and buffers are converted to it, inputs cast at the model's door
  bool patch_functions;  // ops cast their inputs by their tags
  std::optional<bool> keep_batchnorm_fp32;  // batch norms are left out of the conversion
  std::optional<bool> master_weights;       // the optimizer updates f32 twins of 16-bit parameters
  double loss_scale;
  std::optional<DType> low;  // the 16-bit type of op casts
  std::string_view text;
};

inline constexpr std::array<Level, 6> kLevels{{
    // name  model  op casts  batch norm  masters  loss scale  low
    {"O0", f32, false, unset, false, 1.0, unset, "Pure FP32 training."},
    {"O1", unset, true, unset, unset, kDynamic, f16, "Insert automatic casts around operations."},
    {"O2", f16, false, true, true, kDynamic, unset,
     "FP16 training with FP32 batchnorm and FP32 master weights."},
    {"O3", f16, false, false, false, 1.0, unset, "Pure FP16 training."},
    {"O4", unset, true, unset, unset, 1.0, bf16, "As O1 with BF16 and no loss scaling."},
    {"O5", bf16, false, true, true, 1.0, unset, "As O2 with BF16 and no loss scaling."},
}};

/** What happens to the inputs of an op. Only eligible ones are ever cast. */
enum class Action : std::uint8_t {
  keep,     // nothing: the op runs in the dtype given
  to_low,   // cast to the 16-bit type
  to_f32,   // cast to f32
  promote,  // the op itself takes the widest input's dtype
  refuse,   // error
};

constexpr Action action(Precision tag, bool casts_active) {
  switch (tag) {
    case Precision::match: return Action::keep;
    case Precision::low: return casts_active ? Action::to_low : Action::keep;
    case Precision::full: return casts_active ? Action::to_f32 : Action::keep;
    case Precision::widest: return Action::promote;
    case Precision::banned: break;
  }
  return casts_active ? Action::refuse : Action::keep;
}

/** f64, integers and bool are never cast, at any level. */
constexpr bool eligible(DType t) { return is_floating(t) && t != f64; }

constexpr const Level* find_level(std::string_view name) {
  for (const Level& level : kLevels)
    if (level.name == name) return &level;
  return nullptr;
}

}  // namespace mezzo::amp
