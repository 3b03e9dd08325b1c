// Environment: what a measurement depends on besides the program: machine, build, time.
#pragma once

#include <string>

#include "../tensor/device/device.h"

namespace mezzo {

/** The machine, the build of the library, the switches and the time of a measurement. */
struct MZ_API Environment {
  std::string device;                   // "cpu" or "cuda:0"
  std::string hardware;                 // description(device)
  std::string cpu_model;                // name of the processor; empty if the system does not tell
  int cores = 0;                        // CPUs that this process may use
  int threads = 0;                      // num_threads()
  std::string cpu_isa;                  // instruction set of the kernels: str(cpu_isa())
  bool multiplies_bf16 = false;         // cpu_multiplies_bf16()
  bool exact_products = false;          // exact_products()
  bool allow_tf32 = false;              // allow_tf32()
  bool allow_nondeterministic = false;  // allow_nondeterministic()
  bool search_products = false;         // search_products()
  std::string compiler;                 // name and version, of the library
  std::string flags;                    // build type, options and compiler arguments of the library
  std::string version;                  // version() of Mezzo
  std::string commit;  // of Mezzo, as `git describe` says; "unknown" outside a git repository
  std::string date;    // of the call, in UTC, as "2026-11-23T10:00:00Z"
};

/** Returns the environment of measurements on a device. Errors: as description(device). */
MZ_API Environment environment(Device device = cpu);

/** Returns whether a level of mixed precision computes its products in f32 after conversion on this
 *  device, so that it cannot be faster than O0 there: see emulates_products(). Returns false for
 * O0, on a GPU, and for unknown names. */
MZ_API bool emulates_level(const std::string& level, Device device = cpu);

}  // namespace mezzo
