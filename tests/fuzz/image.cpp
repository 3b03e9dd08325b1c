// Fuzzes PNG and JPEG images: they are read or rejected with a FormatError. Those that are read
// have not more pixels than their bytes can hold.
#include "../../tensor/io/image.h"

#include "../../tensor/core/error.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const mezzo::Tensor x = mezzo::load_image(fuzz::path_of(fuzz::text(data, size)));
    fuzz::require(x.dim() == 3 && x.size(0) == 3 && x.numel() > 0);
    fuzz::require(static_cast<std::size_t>(x.numel()) / 3 <= size << 16);
  } catch (const mezzo::FormatError&) {}
  return 0;
}
