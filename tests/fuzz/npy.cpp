// Fuzzes NumPy's .npy files: they are read or rejected with a FormatError.
#include "../../tensor/io/npy.h"

#include "../../tensor/core/error.h"
#include "fuzz.h"
#include "without_ops.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const mezzo::Tensor x = mezzo::load_npy(fuzz::path_of(fuzz::text(data, size)));
    fuzz::require(x.impl()->storage->bytes() <= 4 * size);  // |i1 becomes i32
  } catch (const mezzo::FormatError&) {}
  return 0;
}
