// test_device(): where the tests that can run on any device run.
// Sees: mezzo.h.
// Read next: ../meson.build (which tests run on a device too).
#pragma once

#include <mezzo.h>

#include <cstdlib>

namespace mezzo::testing {

/** The CPU, or what the environment's MEZZO_TEST_DEVICE names. */
inline Device test_device() {
  static const Device device = [] {
    const char* name = std::getenv("MEZZO_TEST_DEVICE");
    return name ? Device::parse(name) : cpu;
  }();
  return device;
}

}  // namespace mezzo::testing
