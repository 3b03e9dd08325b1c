// NEED_DEVICE(): a test that a machine without a CUDA device, real or emulated, passes over.
// Sees: mezzo.h, ../support/catch.h.
// Read next: device.cpp.
#pragma once

#include <mezzo.h>

#include "../support/catch.h"

#define NEED_DEVICE() \
  if (mezzo::Device::best() == mezzo::cpu) SKIP_TEST("no CUDA device")
