#include "image_sets.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "../../tensor/io/byte_reader.h"
#include "../../tensor/text/text.h"

namespace mezzo::data {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPlane = 32 * 32, kImageBytes = 3 * kPlane, kRecord = 1 + kImageBytes;
constexpr std::array<float, 3> kMean{0.4914f, 0.4822f, 0.4465f},
    kDeviation{0.2470f, 0.2435f, 0.2616f};

/** Returns the number of records in a file. Errors: FormatError for incomplete records. */
std::int64_t records_in(const io::ByteReader& file) {
  const auto size = static_cast<std::int64_t>(file.size());
  if (size == 0 || size % kRecord != 0)
    fail<FormatError>(file.subject(), {.what = "the file does not consist of whole records",
                                       .got = str(size, " bytes"),
                                       .expected = str("a multiple of ", kRecord)});
  return size / kRecord;
}

/** Reads one record into an image and its label. */
void read_record(const io::ByteReader& file, std::int64_t record, bool normalise, float* image,
                 std::int64_t* label) {
  unsigned char bytes[kRecord];
  const std::int64_t at = record * kRecord;
  file.read(static_cast<std::uint64_t>(at), bytes, sizeof bytes);
  *label = bytes[0];
  if (*label > 9)
    fail<FormatError>(
        file.subject(),
        {.what = str("offset ", at, ": invalid label"), .got = str(*label), .expected = "0..9"});
  for (std::int64_t p = 0; p < kImageBytes; ++p) {
    const auto channel = static_cast<std::size_t>(p / kPlane);
    const float v = static_cast<float>(bytes[1 + p]) / 255.0f;
    image[p] = normalise ? (v - kMean[channel]) / kDeviation[channel] : v;
  }
}

/** Reads the records of all files, record by record, so that no file is held in memory. */
Dataset read(const std::vector<fs::path>& paths, const CifarOptions& options,
             const std::string& notice) {
  std::vector<std::unique_ptr<io::ByteReader>> files;
  std::int64_t count = 0;
  for (const fs::path& path : paths) {
    files.push_back(std::make_unique<io::ByteReader>("cifar10", path.string()));
    count += records_in(*files.back());
  }
  const Tensor x = empty_tensor({count, 3, 32, 32}, DType::f32, cpu),
               y = empty_tensor({count}, DType::i64, cpu);
  auto* image = x.data<float>();
  auto* label = y.data<std::int64_t>();
  for (const auto& file : files)
    for (std::int64_t r = 0; r < records_in(*file); ++r, image += kImageBytes, ++label)
      read_record(*file, r, options.normalise, image, label);
  return {x, y, notice};
}

}  // namespace

Split cifar10(const std::string& directory, const CifarOptions& options) {
  std::vector<fs::path> train;
  std::error_code ignored;
  for (int i = 1; i <= 5; ++i)
    if (const fs::path path = fs::path(directory) / str("data_batch_", i, ".bin");
        fs::is_regular_file(path, ignored))
      train.push_back(path);
  const fs::path test = fs::path(directory) / "test_batch.bin";
  if (train.empty() || !fs::is_regular_file(test, ignored))
    fail<IoError>(str("cifar10(", directory, ")"),
                  {.what = "no CIFAR-10 binary files in this directory",
                   .expected = "data_batch_1.bin to data_batch_5.bin and test_batch.bin",
                   .hint = "data::synthetic_digits(n) needs no files"});
  const std::string notice =
      str("CIFAR-10 from ", directory, ", ", train.size(), " of 5 files to train on");
  return {read(train, options, notice), read({test}, options, notice)};
}

}  // namespace mezzo::data
