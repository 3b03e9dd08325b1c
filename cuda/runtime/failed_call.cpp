#include "failed_call.h"

#include <mutex>

#include "../../tensor/core/error.h"
#include "../../tensor/text/text.h"

namespace mezzo::gpu {

namespace {

std::mutex failure_mutex;
/** Returns the text of the first lasting failure, empty if there is none. Guarded by the mutex. */
std::string& broken_by() {
  static auto& text = *new std::string;
  return text;
}

}  // namespace

void fail_call(const char* call, const std::string& what, bool lasting, CallPlace place) {
  std::string hint = str("called at ", place.file, ":", place.line);
  {
    const std::lock_guard lock(failure_mutex);
    if (!broken_by().empty())
      hint += "; device unusable since: " + broken_by();
    else if (lasting)
      broken_by() = str(call, ": ", what);
  }
  fail<CudaError>(call, {.what = what, .hint = hint});
}

void forget_broken_device() {
  const std::lock_guard lock(failure_mutex);
  broken_by().clear();
}

}  // namespace mezzo::gpu
