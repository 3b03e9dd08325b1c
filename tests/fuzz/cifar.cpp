// Fuzzes CIFAR-10's binary files: they are read or rejected with a FormatError.
#include "../../nn/data/image_sets.h"

#include <filesystem>

#include "../../tensor/core/error.h"
#include "fuzz.h"

/** Replaces the library's constructor, which runs ops. */
mezzo::data::Dataset::Dataset(const Tensor& x, const Tensor& y, std::string notice)
    : x_(x), y_(y), notice_(std::move(notice)) {}

/** Returns a folder in which every file is the input. */
static std::string folder(const std::string& file) {
  std::string name = std::filesystem::temp_directory_path() / "fuzz-cifar-XXXXXX";
  fuzz::require(::mkdtemp(name.data()) != nullptr);
  for (const char* link : {"/data_batch_1.bin", "/test_batch.bin"})
    std::filesystem::create_symlink(file, name + link);
  return name;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string path = folder(fuzz::path_of(""));
  (void)fuzz::path_of(fuzz::text(data, size));
  try {
    const std::int64_t count = mezzo::data::cifar10(path).train.size();
    fuzz::require(count == static_cast<std::int64_t>(size / 3073));
  } catch (const mezzo::FormatError&) {}
  return 0;
}
