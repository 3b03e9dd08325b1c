// Backend: what a room for another device offers the rest: which devices there are, and how bytes travel to and from them.
// Sees: device.h.
// Read next: ../cuda/register.h (who offers one), ops/copy.cpp (who copies).
#pragma once

#include <cstddef>
#include <string>

#include "device.h"

namespace mezzo {

/** A kind of device beside the CPU. One for the process; it lives as long. */
class MZ_API Backend {
 public:
  /** Number of devices that can be used. Never fails. */
  virtual int device_count() const = 0;
  /** Why there is none, in a few words; empty where there are some. */
  virtual std::string absence() const = 0;
  /** What a device is and what its ops use, in one line. */
  virtual std::string description(int index) const = 0;
  /** Copies bytes between two devices, of which one at least is of this kind. They have arrived in the CPU's memory, and may be overwritten where
   *  they came from, when it returns. Errors: CudaError. */
  virtual void copy(const void* from, Device from_device, void* to, Device to_device,
                    std::size_t bytes) const = 0;

 protected:
  ~Backend() = default;
};

/** The backend of a kind of device; null for the CPU, and where this build has none. */
MZ_API const Backend* find_backend(DeviceKind kind);

/** Makes `backend` that of `kind`; for a backend's start-up. */
MZ_API void set_backend(DeviceKind kind, const Backend* backend);

}  // namespace mezzo
