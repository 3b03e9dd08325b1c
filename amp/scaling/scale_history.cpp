#include "scale_history.h"

#include <utility>

#include "../../tensor/text/text.h"

namespace mezzo::amp {

std::string_view name(ScaleReason reason) {
  switch (reason) {
    case ScaleReason::overflow: return "overflow";
    case ScaleReason::growth: return "growth";
    case ScaleReason::set: return "set";
    case ScaleReason::restored: break;
  }
  return "restored";
}

std::string ScaleEvent::text() const {
  return str("step ", step, ": ", old_scale, " -> ", new_scale, " (", name(reason),
             first_nonfinite.empty() ? "" : ", ", first_nonfinite, ")");
}

void ScaleHistory::note(double old_scale, double new_scale, ScaleReason reason,
                        std::string first_nonfinite) {
  if (events_.size() == kKept) events_.erase(events_.begin());
  events_.push_back({step_, old_scale, new_scale, reason, std::move(first_nonfinite)});
}

}  // namespace mezzo::amp
