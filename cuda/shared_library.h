// SharedLibrary: cuBLASLt or cuDNN, loaded by the first op that wants it.
// Sees: the standard library.
// Read next: blas.cpp, dnn_library.h (what is loaded).
#pragma once

#include <string>

namespace mezzo::gpu {

/** Linked, these libraries would cost every process 0.1 s and 200 MB, and could not be missing. Once loaded they stay. */
class SharedLibrary {
 public:
  /** Looks where the loader looks: LD_LIBRARY_PATH, the program's run path, the system's folders. Never fails: `missing` says what is wrong. */
  explicit SharedLibrary(std::string file);

  bool usable() const { return missing_.empty(); }
  const std::string& missing() const { return missing_; }

  template <class Function> void load(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(symbol(name));
  }
  /** Declares it unusable for a reason of the caller's, unless there is one already; the log says so, once. */
  void refuse(std::string reason);

 private:
  void* symbol(const char* name);

  std::string file_, missing_;
  void* handle_;
};

}  // namespace mezzo::gpu
