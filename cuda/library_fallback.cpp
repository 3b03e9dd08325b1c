#include "library_fallback.h"

#include "../tensor/device/capture.h"
#include "../tensor/text/log.h"
#include "../tensor/text/text.h"
#include "runtime/runtime.h"

namespace mezzo::gpu {

void report_failure(const char* library, const std::string& problem, const CudaError& error,
                    bool& logged) {
  runtime::recover(library);
  if (!logged)
    log_text(Severity::warning, str(library, ": ", problem, " failed (", error.what(),
                                    "); another algorithm or Mezzo's own kernel takes over"));
  logged = true;
  Capture::require_prepared(library, false, "a call failed");
}

void report_refusal(const char* library, const std::string& problem, bool& logged) {
  if (!logged)
    log_text(Severity::info,
             str(library, " does not support ", problem, "; Mezzo's own kernel takes over"));
  logged = true;
}

}  // namespace mezzo::gpu
