// The names of all levels of mixed precision.
#pragma once

#include <vector>

#include "../../amp/policy.h"

namespace levels {

/** Returns "O0", "O1", ... in order. */
inline std::vector<const char*> names() {
  std::vector<const char*> out;
  for (const mezzo::amp::Level& level : mezzo::amp::kLevels) out.push_back(level.name.data());
  return out;
}

}  // namespace levels
