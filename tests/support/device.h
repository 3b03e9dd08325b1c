// test_device(): the device that device-independent tests run on.
// See also: ../meson.build (which tests run on a device too).
#pragma once

#include <mezzo.h>

#include <cstdlib>

namespace mezzo::testing {

/** Returns the device that the environment variable MEZZO_TEST_DEVICE names, else the CPU. */
inline Device test_device() {
  static const Device device = [] {
    const char* name = std::getenv("MEZZO_TEST_DEVICE");
    return name ? Device::parse(name) : cpu;
  }();
  return device;
}

}  // namespace mezzo::testing
