#include "faults.h"

#include "../../tensor/core/error.h"

namespace mezzo::emulator {

namespace {
LibraryFault* current = nullptr;
}

LibraryFault::LibraryFault(LibraryStage stage, int first, int count, bool breaks_devices)
    : stage_(stage), first_(first), count_(count), breaks_devices_(breaks_devices) {
  current = this;
}
LibraryFault::~LibraryFault() { current = nullptr; }

bool fails_in(LibraryStage stage) {
  if (!current || current->stage_ != stage) return false;
  const int number = ++current->calls_;
  if (number < current->first_ || number - current->first_ >= current->count_) return false;
  ++current->failed_;
  if (current->breaks_devices_) break_devices("an illegal memory access was encountered");
  return true;
}

void reach_stage(LibraryStage stage, const char* call) {
  if (fails_in(stage))
    fail<CudaError>(call, {.what = "the library failed", .got = "an internal error"});
}

}  // namespace mezzo::emulator
