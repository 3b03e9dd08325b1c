// LateWork for tests that run on any device: delays work on an emulated device as long as possible,
// and does nothing on a real one.
#pragma once

#ifdef MZ_REAL_DEVICE
struct LateWork {
  LateWork() {}
  ~LateWork() {}
};
#else
#  include "../emulator/streams.h"
using mezzo::emulator::LateWork;
#endif
