// Fuzzes MNIST's IDX files, gzipped or not: they are read or rejected with a FormatError.
#include "../../tensor/io/idx.h"

#include "../../tensor/core/error.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string& path = fuzz::path_of(fuzz::text(data, size));
  for (const auto load : {mezzo::load_idx_images, mezzo::load_idx_labels}) try {
      fuzz::require(load(path).numel() > 0);
    } catch (const mezzo::FormatError&) {}
  return 0;
}
