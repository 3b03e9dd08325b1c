// Transfers the bytes of plain structs between the host and a tensor's memory on any device.
// See also: ../../optim/step/step_state.h (a struct on the device).
#pragma once

#include <memory>

#include "../core/tensor.h"
#include "../device/backend.h"
#include "../device/capture.h"

namespace mezzo {

/** Overwrites the first bytes of a contiguous tensor, in the order of its device's work. `from` may
 *  be reused on return, unless `options` make the copy non-blocking. Errors: CudaError; StateError
 *  as refuse_upload_in_capture(). */
MZ_API void upload(const Tensor& to, const void* from, std::size_t bytes,
                   const CopyOptions& options = {});
/** Throws if a step is being captured on device `to`, because replays would read host memory that
 *  has been freed. For uploads made by the library itself. Errors: StateError. */
MZ_API void refuse_upload_in_capture(Device to);
/** Reads the first bytes of a contiguous tensor; waits for the device. Errors: CudaError, and a
 *  pending IndexError of a kernel. */
MZ_API void download(const Tensor& from, void* to, std::size_t bytes);
/** Starts to read the first bytes of a contiguous tensor, without waiting. Errors: CudaError,
 *  OutOfMemory. */
MZ_API std::unique_ptr<AsyncRead> read_later(const Tensor& from, std::size_t bytes);

/** Returns uninitialised memory for `count` structs T, which is not taken from the pool of a
 *  captured step. */
template <class T> Tensor record_tensor(std::int64_t count, Device device) {
  const NoCapturePool no_pool;
  const CategoryScope category(MemoryCategory::other);
  return empty_tensor({count * static_cast<std::int64_t>(sizeof(T))}, DType::u8, device);
}

}  // namespace mezzo
