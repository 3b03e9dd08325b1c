// Device: where a tensor's memory is: on the CPU or on one NVIDIA GPU.
#pragma once

#include <cstdint>
#include <string>

#include "../core/macros.h"

namespace mezzo {

/** What a device is: the CPU, or a GPU of NVIDIA. */
enum class DeviceKind : std::uint8_t { cpu, cuda };
/** The number of enumerators of DeviceKind. */
inline constexpr int kNumDeviceKinds = 2;

/** The CPU, or one GPU by index. */
struct Device {
  DeviceKind kind = DeviceKind::cpu;  // the CPU unless set
  int index = 0;                      // the N of "cuda:N"; 0 for the CPU

  /** Returns the fastest device of this machine that this build supports; the CPU if there is no
   *  other. Never throws. */
  MZ_API static Device best();
  /** Returns the device named "cpu", "cuda" or "cuda:N". Errors: ValueError naming the accepted
   *  forms; DeviceError if this build or machine has no such device. */
  MZ_API static Device parse(const std::string& text);

  /** Returns true for the same kind and index. */
  friend bool operator==(const Device&, const Device&) = default;
};

/** The CPU as a device, for x.to(cpu). */
inline constexpr Device cpu{DeviceKind::cpu, 0};

/** Options of a copy between devices. */
struct CopyOptions {
  /** Returns before the copy is done, if the host side is in pinned memory (Tensor::pin_memory).
   *  That memory must not be written or read until the device's stream has passed the copy
   *  (gpu::synchronize, gpu::Event). With other memory the call returns when that memory may be
   *  reused. */
  bool non_blocking = false;
};

/** Returns "cpu" or "cuda:0". */
MZ_API std::string str(Device device);

/** Returns a description of a device for reports: the CPU's instruction set in use (cpu_isa) and
 *  number of threads; a GPU's name, memory and architecture, and the versions of the driver and of
 *  the libraries that its ops use (loaded for this). Errors: DeviceError if this build or machine
 *  has no such device; for the CPU as cpu_isa(). */
MZ_API std::string description(Device device);

}  // namespace mezzo
