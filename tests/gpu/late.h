// LateWork for tests that run on any device: an emulated one is as late as it may be, a real one as
// late as it is.
// Sees: ../emulator/streams.h.
// Read next: streams.cpp, pinned.cpp.
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
