#include "chapters.h"

#include "bfloat.h"
#include "casts.h"
#include "masters.h"
#include "number.h"
#include "overflow.h"
#include "report.h"
#include "rounding.h"
#include "underflow.h"

namespace samples::tour {

std::vector<Chapter> chapters() {
  return {tell_number,  tell_rounding, tell_overflow, tell_underflow,
          tell_masters, tell_casts,    tell_bfloat,   tell_report};
}

}  // namespace samples::tour
