// The exception types and the one grammar of their texts:  op(module.path): what was wrong; got X, expected Y; hint
// Sees: the standard library only.
// Read next: text.h (building the parts), scope.h (where module.path comes from).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "macros.h"

namespace mezzo {

/** Base of everything Mezzo throws. A throwing call leaves its arguments as they were. */
struct MZ_API Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// clang-format off
struct MZ_API ShapeError : Error { using Error::Error; };
struct MZ_API DtypeError : Error { using Error::Error; };
struct MZ_API DeviceError : Error { using Error::Error; };
struct MZ_API IndexError : Error { using Error::Error; };
struct MZ_API ValueError : Error { using Error::Error; };
/** Calls in an order that makes no sense: step before backward, a second backward through a freed graph, ... */
struct MZ_API StateError : Error { using Error::Error; };
/** The size of a tensor or buffer does not fit the arithmetic. */
struct MZ_API SizeError : Error { using Error::Error; };
struct MZ_API OutOfMemory : Error { using Error::Error; };
/** This build lacks a part; the text names the build option. */
struct MZ_API Unsupported : Error { using Error::Error; };
struct MZ_API IoError : Error { using Error::Error; };
/** A file that is not what it should be; the text gives offset and reason. */
struct MZ_API FormatError : Error { using Error::Error; };
struct MZ_API CudaError : Error { using Error::Error; };
struct MZ_API AmpError : Error { using Error::Error; };
// clang-format on

/** The parts of an error text after the op's name; empty parts are left out. */
struct Complaint {
  std::string what;
  std::string got = {};
  std::string expected = {};
  std::string hint = {};
};

/** "op(module.path): what; got X, expected Y; hint". The path is that of the module executing on this thread. */
MZ_API std::string error_text(std::string_view op, const Complaint& complaint);

/** Throws E with the text of the grammar. */
template <class E> [[noreturn]] void fail(std::string_view op, const Complaint& complaint) {
  throw E(error_text(op, complaint));
}

/** Dotted path of the module executing on this thread; empty when there is none. */
MZ_API std::string current_module_path();

/** Names a module as executing until the end of the scope; scopes nest and their names join with dots. */
class MZ_API ModulePathScope {
 public:
  /** `name` must outlive the scope; an empty name (a root model) adds nothing to the path. */
  explicit ModulePathScope(std::string_view name);
  ~ModulePathScope();
  ModulePathScope(const ModulePathScope&) = delete;
  ModulePathScope& operator=(const ModulePathScope&) = delete;

 private:
  friend MZ_API std::string current_module_path();
  std::string_view name_;
  const ModulePathScope* outer_;
};

}  // namespace mezzo
