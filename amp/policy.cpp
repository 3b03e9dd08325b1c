#include "policy.h"

namespace mezzo::amp {

std::string action_text(Precision tag, const Level& level) {
  switch (action(tag, level.patch_functions)) {
    case Action::keep: return "as is";
    case Action::to_low: return std::string(name(level.low.value()));
    case Action::to_f32: return "f32";
    case Action::promote: return "promote";
    case Action::refuse: break;
  }
  return "error";
}

}  // namespace mezzo::amp
