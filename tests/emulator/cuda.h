// The CUDA language for a C++ compiler. The build includes it before each kernel file (-include),
// which then compiles as C++.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#include "executor.h"
#include "memory.h"

#define MZ_EMULATED_KERNEL 1

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
// A parameter in constant memory is one copy for the whole grid: const T __grid_constant__ name.
#define __grid_constant__ &

#define threadIdx (::mezzo::emulator::here.thread)
#define blockIdx (::mezzo::emulator::here.block)
#define blockDim (::mezzo::emulator::here.block_size)
#define gridDim (::mezzo::emulator::here.grid_size)

#define MZ_SHARED(T, name, count)         \
  static const char name##_key[] = #name; \
  T(&name)                                \
  [count] = *static_cast<T(*)[count]>(    \
      ::mezzo::emulator::shared_slot(name##_key, sizeof(T) * (count), alignof(T)))
#define MZ_DYNAMIC_SHARED(T, name) T* name = static_cast<T*>(::mezzo::emulator::dynamic_shared())

// ---- barriers, shuffles and votes ---------------------------------------------------------------

namespace mezzo::emulator {

template <class T> std::uint64_t packed(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T> T unpacked(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline unsigned lane() { return here.thread.x % kWarp; }

/** Returns the value of lane `from`, or the caller's own if that lane does not take part. */
template <class T> T shuffled(unsigned mask, T value, unsigned from, CallPlace place) {
  const Exchange& all = meet_warp(mask, packed(value), place);
  return from < kWarp && (all.present >> from & 1) ? unpacked<T>(all.value[from]) : value;
}

inline unsigned ballot(unsigned mask, int predicate, CallPlace place) {
  const Exchange& all = meet_warp(mask, predicate != 0, place);
  unsigned votes = 0;
  for (unsigned i = 0; i < kWarp; ++i)
    if (all.present >> i & 1) votes |= static_cast<unsigned>(all.value[i]) << i;
  return votes;
}

}  // namespace mezzo::emulator

inline void __syncthreads(mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  mezzo::emulator::wait_for_block(place);
}
inline int __syncthreads_count(int predicate,
                               mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  return mezzo::emulator::sum_over_block(predicate != 0, place);
}
inline int __syncthreads_or(int predicate,
                            mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  return mezzo::emulator::sum_over_block(predicate != 0, place) != 0;
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu,
                       mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  mezzo::emulator::sync_warp(mask, place);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int from,
              mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  return mezzo::emulator::shuffled(mask, value,
                                   static_cast<unsigned>(from) % mezzo::emulator::kWarp, place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance,
                  mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  return mezzo::emulator::shuffled(
      mask, value, mezzo::emulator::lane() ^ static_cast<unsigned>(distance), place);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance,
                   mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  return mezzo::emulator::shuffled(mask, value, mezzo::emulator::lane() + distance, place);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance,
                 mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  return mezzo::emulator::shuffled(mask, value, mezzo::emulator::lane() - distance, place);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  return mezzo::emulator::ballot(mask, predicate, place);
}
inline int __any_sync(unsigned mask, int predicate,
                      mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  return mezzo::emulator::ballot(mask, predicate, place) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  return mezzo::emulator::ballot(mask, predicate, place) == mask;
}

inline int __popc(unsigned x) { return std::popcount(x); }

inline void __threadfence() {}

namespace mezzo::gpu {
/** Spends a moment of a loop that waits for another block. */
inline void pause_polling(CallPlace place = CallPlace::current()) {
  emulator::let_blocks_run(place);
}
}  // namespace mezzo::gpu

// ---- atomics: one host thread runs all threads of the device ------------------------------------

namespace mezzo::emulator {

/** Scope in which accesses of shared memory count as atomic. */
struct AtomicScope {
  AtomicScope() { here.atomic = true; }
  ~AtomicScope() { here.atomic = false; }
  AtomicScope(const AtomicScope&) = delete;
  AtomicScope& operator=(const AtomicScope&) = delete;
};

/** Replaces *at by f(*at) and returns the old value. */
template <class T, class F> T exchange(T* at, F&& f) {
  const AtomicScope scope;
  const T old = *at;
  *at = f(old);
  return old;
}

}  // namespace mezzo::emulator

template <class T> T atomicAdd(T* at, std::type_identity_t<T> value) {
  return mezzo::emulator::exchange(at, [&](T old) { return static_cast<T>(old + value); });
}
template <class T> T atomicMax(T* at, std::type_identity_t<T> value) {
  return mezzo::emulator::exchange(at, [&](T old) { return value > old ? value : old; });
}
template <class T> T atomicMin(T* at, std::type_identity_t<T> value) {
  return mezzo::emulator::exchange(at, [&](T old) { return value < old ? value : old; });
}
template <class T> T atomicOr(T* at, std::type_identity_t<T> value) {
  return mezzo::emulator::exchange(at, [&](T old) { return static_cast<T>(old | value); });
}
template <class T> T atomicExch(T* at, std::type_identity_t<T> value) {
  return mezzo::emulator::exchange(at, [&](T) { return value; });
}
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return mezzo::emulator::exchange(at, [&](T old) { return old == expected ? value : old; });
}

// ---- launching ----------------------------------------------------------------------------------

namespace mezzo::emulator {

/** Name of a piece of work in the log: a library, or the place of a kernel's launch. Also its
 *  stream. */
struct WorkName {
  const char* what = "";
  int line = 0;
  void* stream = nullptr;
};

/** Runs a piece of the device's work, counts and logs it. Enqueues it if the stream defers its work
 *  (LateWork), and records it while the stream is captured. */
MZ_API void submit(WorkName name, std::function<void()> work);

/** Rejects a launch that the driver would reject. Errors: CudaError. */
MZ_API void require_launchable(WorkName name, Index3 grid, Index3 block,
                               std::size_t dynamic_shared);

/** Rejects a cooperative launch of more blocks than the device runs at once. Errors: CudaError. */
MZ_API void require_resident(WorkName name, unsigned blocks);

/** Sizes of a launch. `together`: it is cooperative, its blocks may wait for each other. */
struct LaunchSizes {
  Index3 grid, block;
  std::size_t dynamic_shared = 0;
  bool together = false;
};

/** Runs kernel<<<grid, block, dynamic_shared>>>(arguments...) to its end. Errors: Fault,
 *  CudaError. */
template <class... Ps, class... As>
void launch(WorkName name, void (*kernel)(Ps...), LaunchSizes sizes, As&&... arguments) {
  struct Call {
    void (*kernel)(Ps...);
    std::tuple<std::remove_cvref_t<Ps>...> arguments;
  };
  require_launchable(name, sizes.grid, sizes.block, sizes.dynamic_shared);
  if (sizes.together) require_resident(name, sizes.grid.x);
  submit(name, [call = Call{kernel, {static_cast<Ps>(arguments)...}}, sizes]() mutable {
    const MemoryScope scope;
    run_grid(
        sizes.grid, sizes.block, sizes.dynamic_shared,
        [](void* address) {
          const auto& c = *static_cast<const Call*>(address);
          std::apply(c.kernel, c.arguments);
        },
        &call, sizes.together);
  });
}

}  // namespace mezzo::emulator

#include "async_copy.h"
#include "tensor_core.h"
