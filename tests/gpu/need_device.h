// NEED_DEVICE(): skips the test on a machine without a CUDA device, real or emulated.
#pragma once

#include <mezzo.h>

#include "../support/catch.h"

#define NEED_DEVICE() \
  if (mezzo::Device::best() == mezzo::cpu) SKIP_TEST("no CUDA device")
