// IDX files, plain and gzipped: what is read, and what is rejected with a FormatError.
#include <mezzo.h>

#include "../../tensor/io/gzip.h"
#include "../support/catch.h"
#include "files.h"

using namespace mezzo;
using files::big_u32;
using namespace std::string_literals;

namespace {

/** Returns gzip data with one stored (uncompressed) block; no compressor is needed. `crc_change`
 *  and `length_change` corrupt the trailer. */
std::string gzip(const std::string& content, std::uint32_t crc_change = 0,
                 std::uint32_t length_change = 0) {
  std::uint32_t crc = ~0u;
  for (const char c : content) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  const auto little = [](std::uint32_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
    return out;
  };
  const auto n = static_cast<std::uint32_t>(content.size());
  return "\x1F\x8B\x08\0\0\0\0\0\0\xFF\x01"s + little(n, 2) + little(~n, 2) + content +
         little(~crc ^ crc_change, 4) + little(n + length_change, 4);
}

std::string pixels(std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += static_cast<char>(i * 7);
  return out;
}

std::string images(std::uint32_t count = 2, std::uint32_t rows = 3, std::uint32_t columns = 4,
                   std::size_t bytes = 24) {
  return big_u32(0x803) + big_u32(count) + big_u32(rows) + big_u32(columns) + pixels(bytes);
}

std::string labels(std::uint32_t count = 5, std::size_t bytes = 5) {
  return big_u32(0x801) + big_u32(count) + pixels(bytes);
}

struct MalformedIdx {
  std::string what, bytes, part;
};

}  // namespace

TEST_CASE("IDX images and labels are read, gzipped or not", "[idx]") {
  const files::Directory directory;
  for (const bool zipped : {false, true}) {
    // gzip is detected by its first bytes, not by the file name.
    files::write(directory / "images", zipped ? gzip(images()) : images());
    files::write(directory / "labels", zipped ? gzip(labels(2, 2)) : labels(2, 2));
    const ImagesAndLabels data = load_idx(directory / "images", directory / "labels");
    CHECK(data.images.dtype() == u8);
    CHECK(data.images.shape() == Shape{2, 3, 4});
    CHECK(data.images[1][2][3].item<int>() == 23 * 7);
    CHECK(data.labels.shape() == Shape{2});
    CHECK(data.labels.to_vector<int>() == std::vector<int>{0, 7});
  }
  // Several gzip members are concatenated.
  files::write(directory / "parts", gzip(images().substr(0, 10)) + gzip(images().substr(10)));
  CHECK(load_idx_images(directory / "parts").numel() == 24);
}

TEST_CASE("malformed images are rejected with the reason", "[idx]") {
  const files::Directory directory;
  const std::string path = directory / "images", zipped = gzip(images());
  const std::string flipped = [&] {
    std::string bad = zipped;
    bad[10] = '\x07';  // a block type that does not exist
    return bad;
  }();
  const std::vector<MalformedIdx> list = {
      {"an empty file", "",
       "the file ends too early; got its end at byte 0, expected 4 bytes more"},
      {"two bytes", "\0\0"s, "ends too early"},
      {"a magic number alone", big_u32(0x803), "its end at byte 4"},
      {"no rows", big_u32(0x803) + big_u32(2), "its end at byte 8"},
      {"no columns", big_u32(0x803) + big_u32(2) + big_u32(3), "its end at byte 12"},
      {"half a size", big_u32(0x803) + "\0\0"s, "its end at byte 6"},
      {"labels", labels(),
       "wrong magic number at byte 0; got 00 00 08 01, expected 00 00 08 03 (images); this is a "
       "file of "
       "labels"},
      {"little-endian magic", "\3\x08\0\0"s + images().substr(4), "got 03 08 00 00"},
      {"signed bytes", big_u32(0x903) + images().substr(4), "got 00 00 09 03"},
      {"floats", big_u32(0xD03) + images().substr(4), "got 00 00 0d 03"},
      {"two dimensions", big_u32(0x802) + images().substr(4), "got 00 00 08 02"},
      {"four dimensions", big_u32(0x804) + images().substr(4), "got 00 00 08 04"},
      {"text", "these are no images", "wrong magic number"},
      {"a PNG", "\x89PNG\r\n\x1A\n"s, "wrong magic number"},
      {"no images", images(0, 3, 4, 0), "size 0 at byte 4 is zero"},
      {"no rows in them", images(2, 0, 4, 0), "size 1 at byte 8 is zero"},
      {"no columns in them", images(2, 3, 0, 0), "size 2 at byte 12 is zero"},
      {"a byte too few", images(2, 3, 4, 23),
       "the file is shorter than its sizes say; got 39 bytes for u8[2,3,4] after byte 16, "
       "expected 40 "
       "bytes"},
      {"no pixels", images(2, 3, 4, 0), "shorter than its sizes say"},
      {"a byte too many", images(2, 3, 4, 25),
       "continues after the last element; got more than 40 bytes, expected 40"},
      {"an image too many", images(2, 3, 4, 36), "continues after the last element"},
      {"an absurd count", images(0xFFFFFFFF, 28, 28, 24), "shorter than its sizes say"},
      {"absurd sizes", images(0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 24), "expected possible sizes"},
      {"sizes that overflow to 24", images(0x80000000, 0x80000000, 0x80000000, 24),
       "expected possible sizes"},
      {"an absurd count in gzip", gzip(images(0xFFFFFFFF, 28, 28, 24)),
       "shorter than its sizes say"},
      {"absurd sizes in gzip", gzip(images(0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 24)),
       "expected possible sizes"},
      {"gzip of nothing", gzip(""), "ends too early; got its end at byte of content 0"},
      {"gzip of something else", gzip("no images"), "wrong magic number"},
      {"gzip of labels", gzip(labels()), "this is a file of labels"},
      {"gzip of a byte too few", gzip(images(2, 3, 4, 23)),
       "got its end at byte of content 39, expected 1 bytes more"},
      {"gzip of a byte too many", gzip(images(2, 3, 4, 25)), "more than 40 bytes of content"},
      {"a gzip header alone", zipped.substr(0, 10),
       "the gzip data ends too early; got its end at byte 10"},
      {"two bytes of gzip", zipped.substr(0, 2), "the gzip data ends too early"},
      {"gzip cut in its content", zipped.substr(0, 40), "ends too early"},
      {"gzip without its checksum", zipped.substr(0, zipped.size() - 8), "ends too early"},
      {"gzip without its last byte", zipped.substr(0, zipped.size() - 1), "ends too early"},
      {"a wrong checksum", gzip(images(), 1),
       "the gzip data is damaged; got incorrect data check near byte "},
      {"a wrong length", gzip(images(), 0, 1), "incorrect length check"},
      {"a block that does not exist", flipped, "invalid block type"},
      {"another compression method", "\x1F\x8B\x07"s + zipped.substr(3),
       "unknown compression method"},
      {"reserved flags", "\x1F\x8B\x08\xE0"s + zipped.substr(4), "unknown header flags"},
      {"text behind the gzip data", zipped + "junk",
       "extra bytes after the gzip data; got 4 bytes from byte "},
      {"zero bytes behind the gzip data", zipped + "\0\0"s, "extra bytes after the gzip data"},
      {"a second member cut short", zipped + zipped.substr(0, 12), "ends too early"},
      {"a second member with more images", zipped + zipped, "continues after the last element"},
      {"a pixel changed under gzip",
       [&] {
         std::string bad = zipped;
         bad[35] ^= 1;
         return bad;
       }(),
       "incorrect data check"},
  };
  for (const MalformedIdx& m : list) {
    files::write(path, m.bytes);
    const std::string text = files::thrown<FormatError>([&] { load_idx_images(path); });
    INFO(m.what << " gave: " << text);
    CHECK(text.find("load_idx_images(" + path + "): ") == 0);
    CHECK(text.find(m.part) != std::string::npos);
  }
  CHECK(list.size() >= 40);
}

TEST_CASE("malformed labels and mismatched counts are rejected", "[idx]") {
  const files::Directory directory;
  const std::string path = directory / "labels";
  const std::vector<MalformedIdx> list = {
      {"images", images(),
       "wrong magic number at byte 0; got 00 00 08 03, expected 00 00 08 01 (labels); this is a "
       "file of "
       "images"},
      {"none", labels(0, 0), "size 0 at byte 4 is zero"},
      {"one too few", labels(5, 4), "expected 13 bytes"},
      {"one too many", labels(5, 6), "continues after the last element"},
      {"an absurd count", labels(0xFFFFFFFF, 5), "expected 4294967303 bytes"},
      {"cut", labels().substr(0, 7), "ends too early"},
      {"gzip, one too few", gzip(labels(5, 4)), "ends too early"},
  };
  for (const MalformedIdx& m : list) {
    files::write(path, m.bytes);
    const std::string text = files::thrown<FormatError>([&] { load_idx_labels(path); });
    INFO(m.what << " gave: " << text);
    CHECK(text.find("load_idx_labels(" + path + "): ") == 0);
    CHECK(text.find(m.part) != std::string::npos);
  }
  files::write(directory / "images", images());
  files::write(path, labels(3, 3));
  const std::string text =
      files::thrown<FormatError>([&] { load_idx(directory / "images", path); });
  CHECK(
      text ==
      "load_idx(" + path +
          "): the count at byte 4 differs from that of the images; got 3 labels for 2 images in " +
          (directory / "images") + ", expected equal counts");
  CHECK_THROWS_AS(load_idx_labels(directory / "absent"), IoError);
}

TEST_CASE("every truncation of a gzipped file is rejected", "[idx]") {
  const files::Directory directory;
  const std::string path = directory / "images", good = gzip(images());
  for (std::size_t n = 0; n < good.size(); ++n) {
    files::write(path, good.substr(0, n));
    CHECK_THROWS_AS(load_idx_images(path), FormatError);
  }
}

TEST_CASE("a gzip file of any length is read in pieces", "[idx]") {
  const files::Directory directory;
  const std::string path = directory / "images";
  files::write(path, gzip(images()));
  // The file is sparse: it does not fit in memory, and its zeros are not gzip data.
  std::filesystem::resize_file(path, std::uintmax_t{1} << 42);
  CHECK_THROWS_AS(load_idx_images(path), FormatError);
}

TEST_CASE("gunzip limits the unpacked size", "[idx]") {
  const std::string zipped = gzip(pixels(1000));
  const auto unpack = [&](std::uint64_t most) {
    return io::gunzip("test", std::as_bytes(std::span(zipped)), most);
  };
  CHECK(unpack(1000).size() == 1000);
  CHECK(files::thrown<FormatError>([&] { unpack(999); }) ==
        "test: the content is too large; got more than 999 bytes, expected at most 999");
  CHECK(files::thrown<FormatError>([&] { io::gunzip("test", {}, 10); }).find("not gzip data") !=
        std::string::npos);
}
