// Index errors of kernels. Indices in device memory are checked by the kernel that uses them. It
// records the first invalid one, and the next call that synchronises with the device throws the
// error that the CPU would throw at once. Parsed by g++ and by nvcc.
#pragma once

#include <string_view>
#include <variant>

#include "../../tensor/ops/index/gather.h"
#include "runtime.h"

namespace mezzo::gpu {

/** The first invalid value, as a word in device memory: its position in the upper 32 bits, the
 *  value, clamped to 32 bits, in the lower ones. */
using IndexErrorWord = unsigned long long;
inline constexpr IndexErrorWord kNothingBad = ~IndexErrorWord{0};

/** The valid range of class indices. */
struct ClassRange {
  std::string_view op;  // an op's registered name, which has static lifetime
  Shape targets;
  std::int64_t classes = 0, ignore_index = 0;
  friend bool operator==(const ClassRange&, const ClassRange&) = default;
};

using WatchedRange = std::variant<ClassRange, op::IndexRange>;

/** Returns the word in which a kernel records invalid class indices or index values. Errors:
 *  StateError within a capture if all words are in use. */
IndexErrorWord* watch(Device device, const WatchedRange& range);

// For captured steps, which check at each replay the ranges that they checked when captured:
/** Prepares everything that watch() needs within a capture. Errors: those of raise_index_errors. */
void prepare_capture(Device device);
/** Reserves the words in use until all captures are released. */
void keep_watched(Device device);
void release_watched(Device device) noexcept;
/** Marks the reserved words as possibly written by a replay. */
void arm_watched(Device device);

/** Throws if a kernel has recorded an invalid value since the last call, and clears the words.
 *  Called after a wait for the device's stream. Errors: IndexError. */
void raise_index_errors(Device device);

#if defined(__CUDACC__) || defined(MZ_EMULATED_KERNEL)
/** Records an invalid value. Of several, the one with the lowest position is kept. Positions are
 *  below 2^32. */
__device__ inline void note_bad(IndexErrorWord* word, std::int64_t place, std::int64_t value) {
  const std::int64_t low = value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value;
  atomicMin(word, static_cast<IndexErrorWord>(place) << 32 | static_cast<std::uint32_t>(low));
}
#endif

}  // namespace mezzo::gpu
