// Where a tensor's memory lives: the CPU or one NVIDIA GPU.
// Sees: the standard library only.
// Read next: storage.h.
#pragma once

#include <cstdint>
#include <string>

#include "macros.h"

namespace mezzo {

enum class DeviceKind : std::uint8_t { cpu, cuda };
inline constexpr int kNumDeviceKinds = 2;

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  /** The fastest device of this machine that this build has kernels for; the CPU when there is none. Never fails. */
  MZ_API static Device best();
  /** Parses "cpu", "cuda" or "cuda:N". Errors: ValueError naming the accepted forms; DeviceError where this build or machine has no such
   *  device. */
  MZ_API static Device parse(const std::string& text);

  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device cpu{DeviceKind::cpu, 0};

/** How bytes travel between devices. */
struct CopyOptions {
  /** The host goes on before they have arrived. That needs its end of the way in pinned memory (Tensor::pin_memory), which may then be written, or
   *  read, only once the device's stream has come past the copy (gpu::synchronize, gpu::Event); from other memory the call returns when
   *  that is free again. */
  bool non_blocking = false;
};

/** "cpu" or "cuda:0". */
MZ_API std::string str(Device device);

/** What a device is, for reports: a GPU's name, memory and architecture, and the versions of the driver and of the libraries that its ops use
 *  (which are loaded for it). Errors: DeviceError where this build or machine has no such device. */
MZ_API std::string description(Device device);

}  // namespace mezzo
