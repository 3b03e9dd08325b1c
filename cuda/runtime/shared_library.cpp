#include "shared_library.h"

#include <dlfcn.h>

#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"

namespace mezzo::gpu {

SharedLibrary::SharedLibrary(std::string file)
    : file_(std::move(file)), handle_(dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_) return;
  const char* why = dlerror();
  refuse(str(file_, " cannot be loaded (", why ? why : "no reason given",
             "); put its folder into LD_LIBRARY_PATH"));
}

void SharedLibrary::refuse(std::string reason) {
  if (!missing_.empty()) return;
  missing_ = std::move(reason);
  log_text(Severity::warning, str(missing_, "; slower kernels are used instead"));
}

void* SharedLibrary::symbol(const char* name) {
  void* found = handle_ ? dlsym(handle_, name) : nullptr;
  if (!found) refuse(str(file_, " has no ", name));
  return found;
}

}  // namespace mezzo::gpu
