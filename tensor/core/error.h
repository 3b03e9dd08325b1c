// The exception types and the format of their texts:
//   op(module.path): what is wrong; got X, expected Y; hint
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "macros.h"

namespace mezzo {

/** Base of all exceptions of the library. A call that throws leaves its arguments unchanged. */
struct MZ_API Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// clang-format off
/** A shape does not fit the operation. */
struct MZ_API ShapeError : Error { using Error::Error; };
/** A dtype is not accepted by the operation. */
struct MZ_API DtypeError : Error { using Error::Error; };
/** A device is absent, or operands are on the wrong device. */
struct MZ_API DeviceError : Error { using Error::Error; };
/** An index or a dimension is out of range. */
struct MZ_API IndexError : Error { using Error::Error; };
/** An argument has a value that is not accepted. */
struct MZ_API ValueError : Error { using Error::Error; };
/** A call in the wrong order: step before backward, a second backward through a freed graph, ... */
struct MZ_API StateError : Error { using Error::Error; };
/** The size of a tensor or buffer overflows. */
struct MZ_API SizeError : Error { using Error::Error; };
/** Memory of the host or of a device is exhausted. */
struct MZ_API OutOfMemory : Error { using Error::Error; };
/** A feature that this build does not include; the text names the build option. */
struct MZ_API Unsupported : Error { using Error::Error; };
/** The operating system reports an error on a file. */
struct MZ_API IoError : Error { using Error::Error; };
/** A malformed file; the text gives offset and reason. */
struct MZ_API FormatError : Error { using Error::Error; };
/** CUDA or one of its libraries reports an error. */
struct MZ_API CudaError : Error { using Error::Error; };
/** Mixed precision is used incorrectly, or an op is banned under it. */
struct MZ_API AmpError : Error { using Error::Error; };
// clang-format on

/** The parts of an error text after the op's name; empty parts are left out. */
struct Complaint {
  std::string what;           // what is wrong; the only part that is always printed
  std::string got = {};       // the value or tensors received, printed after "got"
  std::string expected = {};  // what is accepted, printed after "expected"
  std::string hint = {};      // how to correct the call, printed last
};

/** Returns "op(module.path): what; got X, expected Y; hint". The path is that of the module
 *  executing on this thread. */
MZ_API std::string error_text(std::string_view op, const Complaint& complaint);

/** Throws an E whose text is error_text(op, complaint). */
template <class E> [[noreturn]] void fail(std::string_view op, const Complaint& complaint) {
  throw E(error_text(op, complaint));
}

/** Returns the dotted path of the module executing on this thread; empty if there is none. */
MZ_API std::string current_module_path();
/** Writes the same path to `path`, whose memory is reused. */
MZ_API void current_module_path(std::string& path);

/** A scope in which a module executes on this thread. Scopes nest; their names are joined with
 *  dots. */
class MZ_API ModulePathScope {
 public:
  /** `name` must outlive the scope; an empty name (a root model) adds nothing to the path. */
  explicit ModulePathScope(std::string_view name);
  ~ModulePathScope();
  ModulePathScope(const ModulePathScope&) = delete;             // Not copyable.
  ModulePathScope& operator=(const ModulePathScope&) = delete;  // Not copyable.

 private:
  friend MZ_API void current_module_path(std::string& path);
  std::string_view name_;
  const ModulePathScope* outer_;
};

/** A scope in which errors of this thread report `name`. The outermost scope with a name wins. */
class MZ_API ApiScope {
 public:
  /** Opens the scope. `name` must outlive it; an empty name has no effect. */
  explicit ApiScope(std::string_view name);
  ~ApiScope();
  ApiScope(const ApiScope&) = delete;
  ApiScope& operator=(const ApiScope&) = delete;

  /** Returns the name of the outermost scope, or `inner` outside of every scope. */
  static std::string_view outermost(std::string_view inner);

 private:
  bool is_outermost_;
};

/** Processes that work together disagree, one of them failed or does not answer, or the library
 *  that connects them reports an error. It is final: all later calls that communicate throw it
 *  again. */
struct MZ_API CommError : Error {
  using Error::Error;
};

/** Returns f(). Errors: those of f; OutOfMemory naming `op` in place of std::bad_alloc and
 *  std::length_error. */
template <class F> decltype(auto) or_out_of_memory(std::string_view op, F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    fail<OutOfMemory>(op, {.what = "not enough host memory"});
  } catch (const std::length_error&) {
    fail<OutOfMemory>(op, {.what = "not enough host memory"});
  }
}

}  // namespace mezzo
