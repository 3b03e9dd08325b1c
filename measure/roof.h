// Roof: the limits of a device (speed of products, bandwidth of memory and of caches), and the
// least time for the work of an op.
#pragma once

#include <string>

#include "../tensor/core/macros.h"
#include "../tensor/device/device.h"
#include "op_work.h"

namespace mezzo {

/** The limits of a device, as measured with Mezzo's own kernels and num_threads() threads. A kernel
 *  faster than these does not exist in Mezzo, so a share of the roof exceeds 1 only by noise. */
struct MZ_API Roof {
  double f32_flops_per_s = 0;     // multiplications and additions in products of f32 operands
  double f16_flops_per_s = 0;     // not below f32's; about f32's where f16 is computed in f32
  double bf16_flops_per_s = 0;    // not below f32's; about f32's where bf16 is computed in f32
  double memory_bytes_per_s = 0;  // reads and writes of data too large for the caches
  double cache_bytes_per_s = 0;   // the same for data in a cache, at the fastest size measured
  double cache_bytes = 0;         // what the caches of level 2 and above hold together
  double op_seconds = 0;          // least time of an op, such as a kernel's on a GPU; not measured
  double step_seconds = 0;        // of a time step of a recurrent layer; not measured
  double low_step_seconds = 0;    // the same with operands of f16 or bf16

  /** Returns the limit for products of operands of this dtype; f32's for dtypes other than f16 and
   *  bf16. */
  double flops_per_s(DType operands) const;

  /** Returns a lower bound in seconds of the time for an op's work, whose product, if it is one,
   * has operands of this dtype: the longest of flops / flops_per_s, bytes / cache_bytes_per_s,
   * since all traffic passes the caches, (bytes - 2 cache_bytes) / memory_bytes_per_s, since at
   * most cache_bytes of what the op reads were in the caches before, and as many of what it wrote
   * are still there afterwards, and op_seconds. The time steps of a recurrent layer are added: the
   * products of its inputs come before them, those of weight gradients after them. Limits that are
   * 0 (not measured) do not count. This is the roofline model (Williams, Waterman and Patterson,
   * 2009) with two levels of memory. */
  double seconds(const OpWork& work, DType operands = f32) const;

  /** Returns the larger of both for each limit. Two measurements at different times find the limits
   *  even if other programs disturbed one of them. */
  Roof best_of(const Roof& other) const;
};

/** Measures the limits of a device with num_threads() threads, in about a second: products of
 *  large matrices, and long additions and sums. Uses up to 540 MB of its memory. Synchronises with
 *  the device. Errors: DeviceError; OutOfMemory. */
MZ_API Roof measure_roof(Device device = cpu);

/** Returns how many bytes the caches of level 2 and above of all CPUs hold together, as Linux lists
 *  them below `cpus`; a cache that CPUs share counts once. Returns 0 if nothing is listed there. */
MZ_API double cache_bytes_of_cpus(const std::string& cpus = "/sys/devices/system/cpu");

}  // namespace mezzo
