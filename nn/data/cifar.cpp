#include "cifar.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

#include "../../tensor/text.h"

namespace mezzo::data {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPlane = 32 * 32, kPixels = 3 * kPlane, kRecord = 1 + kPixels;
constexpr std::array<float, 3> kMean{0.4914f, 0.4822f, 0.4465f}, kDeviation{0.2470f, 0.2435f, 0.2616f};

std::vector<unsigned char> bytes_of(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  std::vector<unsigned char> bytes(error ? 0 : static_cast<std::size_t>(size));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (error || !file) fail<IoError>(str("cifar10(", path.string(), ")"), {.what = "the file cannot be read"});
  return bytes;
}

void check(const fs::path& path, const std::vector<unsigned char>& bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size == 0 || size % kRecord != 0)
    fail<FormatError>(str("cifar10(", path.string(), ")"), {.what = "not whole records",
                                                            .got = str(size, " bytes"),
                                                            .expected = str("a multiple of ", kRecord)});
  for (std::int64_t at = 0; at < size; at += kRecord)
    if (const int label = bytes[static_cast<std::size_t>(at)]; label > 9)
      fail<FormatError>(str("cifar10(", path.string(), ")"),
                        {.what = str("offset ", at, ": no label"), .got = str(label), .expected = "0..9"});
}

/** The records of one file behind each other. */
Dataset read(const std::vector<fs::path>& paths, const CifarOptions& options, const std::string& notice) {
  std::vector<unsigned char> bytes;
  for (const fs::path& path : paths) {
    const std::vector<unsigned char> more = bytes_of(path);
    check(path, more);
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  const std::int64_t count = static_cast<std::int64_t>(bytes.size()) / kRecord;
  const Tensor x = empty_tensor({count, 3, 32, 32}, DType::f32, cpu),
               y = empty_tensor({count}, DType::i64, cpu);
  auto* labels = y.data<std::int64_t>();
  auto* to = x.data<float>();
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned char* from = bytes.data() + i * kRecord;
    labels[i] = *from++;
    for (std::int64_t p = 0; p < kPixels; ++p, ++to) {
      const auto channel = static_cast<std::size_t>(p / kPlane);
      const float v = static_cast<float>(from[p]) / 255.0f;
      *to = options.normalise ? (v - kMean[channel]) / kDeviation[channel] : v;
    }
  }
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
                  {.what = "CIFAR-10's binary version is not here",
                   .expected = "data_batch_1.bin to data_batch_5.bin and test_batch.bin",
                   .hint = "data::synthetic_digits(n) needs no files"});
  const std::string notice = str("CIFAR-10 from ", directory, ", ", train.size(), " of 5 files to train on");
  return {read(train, options, notice), read({test}, options, notice)};
}

}  // namespace mezzo::data
