// Reading MNIST from a directory of IDX files.
#include <filesystem>
#include <fstream>

#include "support.h"

using namespace mezzo;
namespace fs = std::filesystem;

namespace {

/** A directory that the destructor removes. */
struct TemporaryDirectory {
  fs::path path = fs::temp_directory_path() / "mezzo-nn-mnist";
  TemporaryDirectory() {
    fs::remove_all(path);
    fs::create_directory(path);
  }
  ~TemporaryDirectory() { fs::remove_all(path); }

  /** Writes n images of 2 x 3 pixels; pixel p of image i is 10 i + p, its label i % 10. */
  void write_pair(const std::string& part, int n) const {
    std::string images{'\0', '\0', '\x08', '\x03', '\0', '\0', '\0', static_cast<char>(n),
                       '\0', '\0', '\0',   '\x02', '\0', '\0', '\0', '\x03'};
    std::string labels{'\0', '\0', '\x08', '\x01', '\0', '\0', '\0', static_cast<char>(n)};
    for (int i = 0; i < n; ++i) {
      for (int p = 0; p < 6; ++p) images += static_cast<char>(10 * i + p);
      labels += static_cast<char>(i % 10);
    }
    write(part + "-images-idx3-ubyte", images);
    write(part + "-labels-idx1-ubyte", labels);
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
  }
};

}  // namespace

TEST_CASE("mnist reads both pairs") {
  const TemporaryDirectory dir;
  dir.write_pair("train", 7);
  dir.write_pair("t10k", 3);
  const data::Split mnist = data::mnist(dir.path.string());
  CHECK(mnist.train.x().shape() == Shape{7, 1, 2, 3});
  CHECK(mnist.test.x().shape() == Shape{3, 1, 2, 3});
  CHECK(values(mnist.train.y()) == std::vector<double>{0, 1, 2, 3, 4, 5, 6});
  CHECK(mnist.train.y().dtype() == i64);
  CHECK(mnist.train.notice() == "MNIST from " + dir.path.string());
  const float pixel = mnist.train.x().to_vector<float>()[7];
  CHECK(pixel == (11.0f / 255.0f - 0.1307f) / 0.3081f);
  const data::Split plain = data::mnist(dir.path.string(), {.flat = true, .normalise = false});
  CHECK(plain.test.x().shape() == Shape{3, 6});
  CHECK(plain.test.x().to_vector<float>()[7] == 11.0f / 255.0f);
  std::int64_t seen = 0;
  for (const Batch& batch : mnist.batches({.size = 4})) seen += batch.size();
  CHECK(seen == 7);
}

TEST_CASE("mnist splits a single t10k pair in file order, and logs that") {
  const TemporaryDirectory dir;
  dir.write_pair("t10k", 10);
  const data::Split mnist = data::mnist(dir.path.string());
  CHECK(values(mnist.train.y()) == std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(values(mnist.test.y()) == std::vector<double>{8, 9});
  CHECK(mnist.train.notice() ==
        "MNIST from " + dir.path.string() +
            ": found only the t10k images; the first 8 train, the last 2 test");
}

TEST_CASE("mnist errors name missing files and the defects of malformed ones") {
  const TemporaryDirectory dir;
  CHECK(error_of<IoError>([&] { data::mnist(dir.path.string()); }).find("t10k-images-idx3-ubyte") !=
        std::string::npos);
  CHECK_THROWS_AS(data::mnist((dir.path / "absent").string()), IoError);
  dir.write_pair("t10k", 1);
  CHECK_THROWS_AS(data::mnist(dir.path.string()), FormatError);  // cannot be split
  dir.write_pair("t10k", 5);
  dir.write("t10k-labels-idx1-ubyte", "damaged");
  CHECK_THROWS_AS(data::mnist(dir.path.string()), FormatError);
}
