#include "image_sets.h"

#include <filesystem>
#include <optional>

#include "../../tensor/io/idx.h"
#include "../../tensor/text/text.h"

namespace mezzo::data {

namespace {

namespace fs = std::filesystem;

std::optional<std::string> find_file(const std::string& directory, const std::string& name) {
  for (const char* ending : {"", ".gz"}) {
    const fs::path path = fs::path(directory) / (name + ending);
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  return {};
}

/** Paths of the image and label files of a set. */
struct Pair {
  std::string images, labels;
};

/** Returns the paths of a set, or nothing unless both files exist. */
std::optional<Pair> find_pair(const std::string& directory, const std::string& part) {
  const auto images = find_file(directory, part + "-images-idx3-ubyte");
  const auto labels = find_file(directory, part + "-labels-idx1-ubyte");
  if (!images || !labels) return {};
  return Pair{*images, *labels};
}

Dataset read(const Pair& pair, const ImageOptions& options, std::string notice) {
  const ImagesAndLabels content = load_idx(pair.images, pair.labels);
  return {images_from_pixels(content.images, options), content.labels.to(DType::i64),
          std::move(notice)};
}

/** Returns the first four fifths as the training set and the rest as the test set. */
Split split_in_file_order(const Dataset& all, const std::string& directory) {
  const std::int64_t train = all.size() * 4 / 5, test = all.size() - train;
  if (train == 0)
    fail<FormatError>(
        str("mnist(", directory, ")"),
        {.what = "too few images to split", .got = str(all.size()), .expected = "at least 2"});
  const Dataset noted(all.x(), all.y(),
                      str("MNIST from ", directory, ": found only the t10k images; the first ",
                          train, " train, the last ", test, " test"));
  return {noted.slice(0, train), noted.slice(train, test)};
}

}  // namespace

Split mnist(const std::string& directory, const ImageOptions& options) {
  const std::optional<Pair> train = find_pair(directory, "train"),
                            test = find_pair(directory, "t10k");
  if (!test)
    fail<IoError>(
        str("mnist(", directory, ")"),
        {.what = "no MNIST files in this directory",
         .expected = "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, with or without .gz",
         .hint = "data::synthetic_digits(n) needs no files"});
  const std::string notice = "MNIST from " + directory;
  const Dataset tests = read(*test, options, notice);
  if (!train) return split_in_file_order(tests, directory);
  return {read(*train, options, notice), tests};
}

}  // namespace mezzo::data
