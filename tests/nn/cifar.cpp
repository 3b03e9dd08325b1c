// Reading CIFAR-10 from a directory of its binary files.
#include <filesystem>

#include "../io/files.h"
#include "support.h"

using namespace mezzo;

namespace {

/** Returns a record of this label with constant red, green and blue planes. */
std::string record(int label, int red, int green, int blue) {
  std::string bytes(1, static_cast<char>(label));
  for (const int value : {red, green, blue}) bytes += std::string(1024, static_cast<char>(value));
  return bytes;
}

}  // namespace

TEST_CASE("cifar10 reads records of labels and planes") {
  const files::Directory folder;
  files::write(folder / "data_batch_1.bin", record(3, 0, 128, 255) + record(9, 1, 2, 3));
  files::write(folder / "data_batch_4.bin", record(0, 255, 255, 255));
  files::write(folder / "test_batch.bin", record(7, 10, 20, 30));
  const data::Split plain = data::cifar10(folder.path(), {.normalise = false});
  CHECK(plain.train.x().shape() == Shape{3, 3, 32, 32});
  CHECK(values(plain.train.y()) == std::vector<double>{3, 9, 0});
  CHECK(values(plain.test.y()) == std::vector<double>{7});
  CHECK(plain.train.y().dtype() == i64);
  CHECK(plain.train.x()[0][1][31][31].item<float>() == 128.0f / 255.0f);
  CHECK(plain.train.x()[1][2][0][0].item<float>() == 3.0f / 255.0f);
  CHECK(plain.train.notice().find("2 of 5 files") != std::string::npos);
  const data::Split normalised = data::cifar10(folder.path());
  CHECK(normalised.train.x()[2][0][0][0].item<float>() == (1.0f - 0.4914f) / 0.2470f);
  CHECK(normalised.train.x()[0][2][5][5].item<float>() == (1.0f - 0.4465f) / 0.2616f);
}

TEST_CASE("cifar10 holds no copy of the files, and reports insufficient memory") {
  const files::Directory folder;
  const std::string one = record(1, 2, 3, 4);
  files::write(folder / "test_batch.bin", one);
  files::write(folder / "data_batch_1.bin", one);
  // A sparse file with more records than fit in memory.
  const std::uintmax_t records = std::uintmax_t{1} << 31;
  std::filesystem::resize_file(folder / "data_batch_1.bin", records * one.size());
  CHECK_THROWS_AS(data::cifar10(folder.path()), OutOfMemory);
}

TEST_CASE("cifar10 refuses malformed files") {
  const files::Directory folder;
  CHECK(error_of<IoError>([&] { data::cifar10(folder.path()); }).find("data_batch_1.bin") !=
        std::string::npos);
  CHECK_THROWS_AS(data::cifar10(folder / "nowhere"), IoError);
  files::write(folder / "data_batch_1.bin", record(3, 1, 2, 3));
  CHECK_THROWS_AS(data::cifar10(folder.path()), IoError);  // no test files
  const std::string good = record(1, 1, 1, 1);
  for (const std::string& bad :
       {std::string(), good.substr(1), good + "x", good + good.substr(0, 3072)}) {
    files::write(folder / "test_batch.bin", bad);
    CHECK(error_of<FormatError>([&] { data::cifar10(folder.path()); }).find("test_batch.bin") !=
          std::string::npos);
  }
  files::write(folder / "test_batch.bin", good + record(10, 0, 0, 0));
  CHECK(error_of<FormatError>([&] {
          data::cifar10(folder.path());
        }).find("offset 3073: invalid label; got 10") != std::string::npos);
  files::write(folder / "test_batch.bin", good + record(255, 0, 0, 0));
  CHECK_THROWS_AS(data::cifar10(folder.path()), FormatError);
  std::filesystem::remove(folder / "test_batch.bin");
  std::filesystem::create_directory(folder / "test_batch.bin");
  CHECK_THROWS_AS(data::cifar10(folder.path()), IoError);
}
