// All levels of mixed precision, for tests that iterate over them.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "../../amp/policy.h"

namespace levels {

/** Returns "O0", "O1", ... in order. */
inline std::vector<const char*> names() {
  std::vector<const char*> out;
  for (const mezzo::amp::Level& level : mezzo::amp::kLevels) out.push_back(level.name.data());
  return out;
}

/** Returns the 16-bit type of a level's op casts; empty if it casts no ops. */
inline std::optional<mezzo::DType> op_casts(std::string_view name) {
  return mezzo::amp::find_level(name)->low;
}

}  // namespace levels
