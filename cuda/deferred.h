// Deferred errors: an index that lives on the device can be checked by the kernel that uses it alone. It notes the first bad one, and the next call
// that waits for the device throws what the CPU would have thrown at once.
// Sees: ../tensor/ops/gather.h, runtime.h; parsed by nvcc too.
// Read next: deferred.cpp, kernels/cross_entropy.cu, kernels/indices.h (users), device.cpp (who asks).
#pragma once

#include <string_view>
#include <variant>

#include "../tensor/ops/gather.h"
#include "runtime.h"

namespace mezzo::gpu {

/** The first bad value, in a word on the device: its place above, its value (at most 32 bits of it) below. */
using DeferredWord = unsigned long long;
inline constexpr DeferredWord kNothingBad = ~DeferredWord{0};

/** What class indices have to keep to. */
struct ClassRange {
  std::string_view op;  // a name that lasts: a row's
  Shape targets;
  std::int64_t classes = 0, ignore_index = 0;
  friend bool operator==(const ClassRange&, const ClassRange&) = default;
};

using WatchedRange = std::variant<ClassRange, op::IndexRange>;

/** The word for a kernel that is about to check class indices, or the values of an index tensor. Errors: StateError within a capture where there
 *  are too many. */
DeferredWord* watch(Device device, const WatchedRange& range);

// For captured steps, which watch at each replay what they watched when they were captured:
/** Makes ready all that watch() needs within a capture. Errors: as raise_deferred. */
void prepare_capture(Device device);
/** What is watched by now keeps its words, until as many captures have been given up again. */
void keep_watched(Device device);
void release_watched(Device device) noexcept;
/** A replay may have noted something. */
void arm_watched(Device device);

/** After a wait for the device's stream: throws where a kernel has noted something since the last time, and forgets it. Errors: IndexError. */
void raise_deferred(Device device);

#if defined(__CUDACC__) || defined(MZ_EMULATED_KERNEL)
/** Notes a value that cannot be used; of several the one at the first place stays. Places count up to 2^32. */
__device__ inline void note_bad(DeferredWord* word, std::int64_t place, std::int64_t value) {
  const std::int64_t low = value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value;
  atomicMin(word, static_cast<DeferredWord>(place) << 32 | static_cast<std::uint32_t>(low));
}
#endif

}  // namespace mezzo::gpu
