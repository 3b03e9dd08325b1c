// Bytes of plain structs between the host and a tensor's memory, wherever that is: how small records live on a device.
// Sees: backend.h, tensor.h.
// Read next: ../optim/step_clock.h (a record), backend.h.
#pragma once

#include <memory>

#include "backend.h"
#include "capture.h"
#include "tensor.h"

namespace mezzo {

/** Overwrites a contiguous tensor's first bytes, in the order of its device's work; `from` is free again on return, but as options say.
 *  Errors: CudaError. */
MZ_API void upload(const Tensor& to, const void* from, std::size_t bytes, const CopyOptions& options = {});
/** For what a library uploads on its own. Errors: StateError where a step is being captured on the device, as of upload(): replays would read memory of
 *  the host that is gone. */
MZ_API void refuse_upload_in_capture(Device to);
/** Reads its first bytes; waits for the device. Errors: CudaError, and what waits as a deferred error. */
MZ_API void download(const Tensor& from, void* to, std::size_t bytes);
/** Begins to read them, and waits for nobody. Errors: CudaError, OutOfMemory. */
MZ_API std::unique_ptr<Readback> read_later(const Tensor& from, std::size_t bytes);

/** Memory for so many structs T, uninitialised; no part of a captured step. */
template <class T> Tensor record_tensor(std::int64_t count, Device device) {
  const LastingMemory lasting;
  const CategoryScope category(MemoryCategory::other);
  return empty_tensor({count * static_cast<std::int64_t>(sizeof(T))}, DType::u8, device);
}

}  // namespace mezzo
