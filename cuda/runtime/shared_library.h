// SharedLibrary: a library loaded at run time (cuBLASLt or cuDNN).
#pragma once

#include <string>

namespace mezzo::gpu {

/** A library loaded with dlopen and never unloaded. Linking cuBLASLt and cuDNN instead would cost
 *  every process 0.1 s and 200 MB and make them mandatory. */
class SharedLibrary {
 public:
  /** Searches where the loader does: LD_LIBRARY_PATH, the program's run path and the system
   *  folders. Never fails: `missing` gives the reason where the library cannot be used. */
  explicit SharedLibrary(std::string file);

  bool usable() const { return missing_.empty(); }
  const std::string& missing() const { return missing_; }

  template <class Function> void load(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(symbol(name));
  }
  /** Marks the library as unusable and logs the reason. Does nothing if it already is unusable. */
  void refuse(std::string reason);

 private:
  void* symbol(const char* name);

  std::string file_, missing_;
  void* handle_;
};

}  // namespace mezzo::gpu
