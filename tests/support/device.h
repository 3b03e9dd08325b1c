// test_device(): the device that device-independent tests run on. is_gpu(), is_thorough(),
// is_slow().
// See also: ../meson.build (which tests run on a device too).
#pragma once

#include <mezzo.h>

#include <cstdlib>
#include <string>

namespace mezzo::testing {

/** Returns the device that the environment variable MEZZO_TEST_DEVICE names, else the CPU. */
inline Device test_device() {
  static const Device device = [] {
    const char* name = std::getenv("MEZZO_TEST_DEVICE");
    return name ? Device::parse(name) : cpu;
  }();
  return device;
}

/** Returns whether a device is a real GPU, where libraries and approximate instructions compute
 *  what kernels compute elsewhere. On other devices bits are promised. */
inline bool is_gpu(Device device) {
  if (device == cpu) return false;
  static const bool is_emulated = description(device).find("emulated") != std::string::npos;
  return !is_emulated;
}

/** Returns whether tests compare all that they can, which takes many minutes: the environment
 *  variable MEZZO_TEST_THOROUGH is set. Otherwise derivatives are compared as combinations of their
 *  entries, the emulated device, which is slow, computes some of the samples, long calls fail at
 *  some of their allocations, and cuDNN is asked for some of its engines. */
inline bool is_thorough() {
  static const bool is_set = std::getenv("MEZZO_TEST_THOROUGH") != nullptr;
  return is_set;
}

/** Returns whether tests on a device compute some of their samples only. */
inline bool is_slow(Device device = test_device()) {
  return !(device == cpu) && !is_gpu(device) && !is_thorough();
}

}  // namespace mezzo::testing
