#include "chapters.h"

namespace samples::tour {

std::vector<Chapter> chapters() {
  return {tell_number,  tell_rounding, tell_overflow, tell_underflow,
          tell_masters, tell_casts,    tell_bfloat,   tell_report};
}

}  // namespace samples::tour
