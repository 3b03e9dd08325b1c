// Images: parity with Pillow, damaged files, folders of images.
#include <mezzo.h>

#include <mezzo_features.h>

#include <cmath>

#include "../support/catch.h"
#include "../support/throws.h"
#include "files.h"
#include "golden_images.h"

using namespace mezzo;
using files::text_of;

namespace {

Tensor read_image(const std::string& bytes) {
  const files::Directory folder;
  files::write(folder / "x", bytes);
  return load_image(folder / "x");
}

std::string image_error(const std::string& bytes) {
  return files::thrown<FormatError>([&] { (void)read_image(bytes); });
}

/** Reads every beginning of a file, and the file with each byte changed. */
void check_damage(const std::string& good, std::size_t needed) {
  CHECK(image_error(good) == "nothing");
  for (std::size_t n = 0; n < needed; ++n) {
    INFO(n);
    CHECK(image_error(good.substr(0, n)).find("load_image(") == 0);
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
    INFO(at);
    CHECK(image_error(bytes).find("another type") == std::string::npos);
  }
}

/** The largest difference from pixels that another version of the decoder made. */
int difference(const Tensor& image, const std::string& planes) {
  const std::vector<int> v = image.to_vector<int>();
  REQUIRE(v.size() == planes.size());
  int most = 0;
  for (std::size_t i = 0; i < v.size(); ++i)
    most = std::max(most, std::abs(v[i] - static_cast<unsigned char>(planes[i])));
  return most;
}

}  // namespace

TEST_CASE("PNG images are read as by Pillow", "[image]") {
  if (!MZ_HAS_PNG) SKIP_TEST("built without libpng");
  const Tensor image = read_image(text_of(kPng));
  CHECK(image.shape() == Shape{3, 2, 3});
  CHECK(image.dtype() == u8);
  CHECK(image.to_vector<int>() == std::vector<int>{0, 30, 60, 90, 120, 150, 10, 40, 70, 100, 130,
                                                   160, 20, 50, 80, 110, 140, 170});
  const Tensor grey = read_image(text_of(kPngGrey));
  CHECK(grey.shape() == Shape{3, 2, 3});
  CHECK(grey[2].to_vector<int>() == std::vector<int>{0, 10, 20, 30, 40, 50});
  CHECK(equal(grey[0], grey[1]));
  CHECK(read_image(text_of(kPngAlpha)).shape() == Shape{3, 2, 1});
  CHECK(read_image(text_of(kPngAlpha))[1].to_vector<int>() == std::vector<int>{2, 5});
  CHECK(equal(read_image(text_of(kPngPalette)), image));
}

TEST_CASE("JPEG images are read as by Pillow", "[image]") {
  if (!MZ_HAS_JPEG) SKIP_TEST("built without libjpeg");
  const Tensor image = read_image(text_of(kJpeg));
  CHECK(image.shape() == Shape{3, 8, 16});
  CHECK(difference(image, text_of(kJpegPlanes)) <= 2);
  CHECK(difference(read_image(text_of(kJpegGrey)), text_of(kJpegGreyPlanes)) <= 2);
  CHECK(difference(read_image(text_of(kJpegCmyk)), text_of(kJpegCmykPlanes)) <= 2);
  CHECK(difference(read_image(text_of(kJpegProgressive)), text_of(kJpegPlanes)) <= 2);
}

TEST_CASE("damaged images are refused", "[image]") {
  const files::Directory folder;
  CHECK_THROWS_AS(load_image(folder / "missing"), IoError);
  files::write(folder / "x.png", "GIF89a");
  CHECK_THROWS_WITH_AS_TEXT(
      load_image(folder / "x.png"), FormatError,
      "x.png): unknown type of image; got other bytes at byte 0, expected PNG or JPEG");
  CHECK(image_error("").find("an empty file") != std::string::npos);
  if (MZ_HAS_PNG) {
    const std::string good = text_of(kPng);
    check_damage(good, good.size() - 12);  // up to the chunk that ends the file
    std::string wide = good;
    for (const std::size_t at : {16, 20}) wide[at] = 0x7F;
    CHECK(image_error(wide) != "nothing");
  }
  if (MZ_HAS_JPEG) {
    const std::string good = text_of(kJpeg);
    check_damage(good, good.size() - 2);  // up to the marker that ends the file
    CHECK(image_error(good.substr(0, good.size() - 20)).find("the JPEG image is damaged; got ") !=
          std::string::npos);
  }
}

TEST_CASE("more pixels than the bytes of a file can hold are refused", "[image]") {
  if (MZ_HAS_PNG) {
    std::string wide = text_of(kPng);
    wide.replace(16, 8, std::string("\0\0\x30\0\0\0\x30\0", 8));  // 12288 x 12288
    std::uint32_t crc = ~0u;                                      // of the header's chunk
    for (std::size_t i = 12; i < 29; ++i) {
      crc ^= static_cast<unsigned char>(wide[i]);
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320u : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) wide[29 + i] = static_cast<char>(~crc >> (24 - 8 * i));
    CHECK(image_error(wide).find("the image has an impossible size; got 12288x12288") !=
          std::string::npos);
  }
  if (MZ_HAS_JPEG) {
    std::string wide = text_of(kJpeg);
    const std::size_t frame = wide.find("\xFF\xC0");
    REQUIRE(frame != std::string::npos);
    wide.replace(frame + 5, 4, std::string("\x30\0\x30\0", 4));
    CHECK(image_error(wide).find("the image has an impossible size; got 12288x12288") !=
          std::string::npos);
  }
}

TEST_CASE("a folder of images is a data set", "[image]") {
  if (!MZ_HAS_PNG) SKIP_TEST("built without libpng");
  const files::Directory folder;
  CHECK_THROWS_AS(data::ImageFolder(folder.path()), IoError);
  CHECK_THROWS_AS(data::ImageFolder(folder / "missing"), IoError);
  for (const char* name : {"dog", "cat", "cat/small"})
    std::filesystem::create_directory(folder / name);
  files::write(folder / "notes.txt", "no class");
  files::write(folder / "cat/b.png", text_of(kPng));
  files::write(folder / "cat/small/a.PNG", text_of(kPngGrey));
  files::write(folder / "cat/list.txt", "no image");
  CHECK_THROWS_WITH_AS_TEXT(data::ImageFolder(folder.path()), IoError,
                            "the class \"dog\" has no images; expected files with the ending");
  files::write(folder / "dog/c.png", text_of(kPng));
  const data::ImageFolder set(folder.path(), data::ConvertImageDtype{});
  CHECK(set.classes() == std::vector<std::string>{"cat", "dog"});
  CHECK(set.size() == 3);
  CHECK(set.samples()[0].first == folder / "cat/b.png");
  CHECK(set.samples()[1].first == folder / "cat/small/a.PNG");
  CHECK(set.get(2).y.item<int>() == 1);
  CHECK(set.get(2).x.dtype() == f32);
  CHECK_THROWS_AS(set.get(3), IndexError);
  for (const Batch& batch : data::Batches(set, {.size = 3, .shuffle = false, .workers = 2})) {
    CHECK(batch.x.shape() == Shape{3, 3, 2, 3});
    CHECK(batch.y.to_vector<int>() == std::vector<int>{0, 0, 1});
  }
  files::write(folder / "dog/c.png", text_of(kPng).substr(0, 50));
  data::Batches batches(set, {.size = 3});
  const std::string text = files::thrown<FormatError>([&] { (void)batches.begin(); });
  INFO(text);
  CHECK(text.find("batches(sample 2): load_image(" + (folder / "dog/c.png")) == 0);
}

#if MZ_HAS_PNG
TEST_CASE("images and grids of images are saved as PNG") {
  const files::Directory folder;
  const std::string path = folder / "x.png";
  const Tensor bytes = arange(3 * 4 * 5).to(u8).view({3, 4, 5});
  save_image(path, bytes);
  CHECK(equal(load_image(path), bytes));
  save_image(path, tensor({{0.0, 1.0, -1.0}, {0.5, 7.0, std::nan("")}}).to(f16));
  CHECK(load_image(path)[2].to_vector<int>() == std::vector<int>{0, 255, 0, 128, 255, 0});
  const Tensor grey = full({5, 1, 2, 2}, 0.2);
  save_image(path, grey, {.nrow = 2, .padding = 1, .pad_value = 1});
  const Tensor grid = load_image(path);
  CHECK(grid.shape() == Shape{3, 10, 7});
  CHECK(grid[{0, 1, 1}].item() == 51);
  CHECK(grid[{0, 0, 0}].item() == 255);
  CHECK(grid[{0, 8, 5}].item() == 255);  // there is no sixth image
  CHECK(equal(make_grid(std::vector<Tensor>{bytes, bytes}), make_grid(stack({bytes, bytes}))));
  const Tensor x = rand({2, 1, 2, 2}), before = x.clone();
  make_grid(x, {.normalize = true});
  CHECK(equal(x, before));
  CHECK(folder.count() == 1);
}

TEST_CASE("images that cannot be saved are refused") {
  const files::Directory folder;
  const std::string path = folder / "x.png";
  CHECK_THROWS_WITH_AS_TEXT(save_image(folder / "x.jpg", ones({3, 2, 2})), ValueError, ".png");
  CHECK_THROWS_AS(save_image(folder / "no/x.png", ones({3, 2, 2})), IoError);
  CHECK_THROWS_AS(save_image(path, ones({3, 2, 2}, i64)), DtypeError);
  CHECK_THROWS_AS(save_image(path, ones({2, 2, 2})), ShapeError);
  CHECK_THROWS_AS(save_image(path, ones({3, 0, 2})), ShapeError);
  CHECK_THROWS_AS(save_image(path, ones({2})), ShapeError);
  CHECK_THROWS_WITH_AS_TEXT(make_grid(ones({3, 2, 2}), {.nrow = 0}), ValueError, "nrow");
  CHECK_THROWS_WITH_AS_TEXT(make_grid(ones({3, 2, 2}, u8), {.normalize = true}), ValueError, "u8");
  CHECK_THROWS_WITH_AS_TEXT(make_grid(ones({3, 2, 2}), {.value_range = std::pair(1.0, 0.0)}),
                            ValueError, "value_range");
  CHECK_THROWS_AS(make_grid(std::vector<Tensor>{}), ValueError);
  CHECK_THROWS_WITH_AS_TEXT(make_grid(std::vector<Tensor>{ones({3, 2, 2}), ones({3, 2, 3})}),
                            ShapeError, "image 1 differs");
  CHECK(folder.count() == 0);
}
#endif
