// Fuzzes NumPy's .npz archives: they are read or rejected with a FormatError. In made-up files the
// checksum of an entry is rarely right, so that faults behind it are found by npy.cpp.
#include "../../tensor/io/npy.h"

#include "../../tensor/core/error.h"
#include "fuzz.h"
#include "without_ops.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMostRatio = 4 * 1040;  // of deflate, and of |i1 that becomes i32
  try {
    std::size_t bytes = 0;
    for (const auto& [name, x] : mezzo::load_npz(fuzz::path_of(fuzz::text(data, size))))
      bytes += x.impl()->storage->bytes();
    fuzz::require(bytes <= kMostRatio * size);
  } catch (const mezzo::FormatError&) {}
  return 0;
}
