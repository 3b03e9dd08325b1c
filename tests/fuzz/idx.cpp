// MNIST's IDX files, packed or not: read, or refused as a FormatError.
#include "../../tensor/io/idx.h"

#include "../../tensor/error.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string& path = fuzz::path_of(fuzz::text(data, size));
  for (const auto load : {mezzo::load_idx_images, mezzo::load_idx_labels}) try {
      fuzz::require(load(path).numel() > 0);
    } catch (const mezzo::FormatError&) {}
  return 0;
}
