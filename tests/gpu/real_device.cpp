// What tests that run on any device use of the emulated device, for the program on a real one,
// which does its work when it likes.
#include "../emulator/streams.h"

namespace mezzo::emulator {

LateWork::LateWork() = default;
LateWork::~LateWork() noexcept(false) {}
bool LateWork::is_wanted() { return false; }

}  // namespace mezzo::emulator
