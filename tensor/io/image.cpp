#include "image.h"

#include <mezzo_features.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "../memory/out_of_memory.h"
#include "../text/text.h"
#include "byte_reader.h"

#if MZ_HAS_PNG
#  include <png.h>
#endif
#if MZ_HAS_JPEG
#  include <jpeglib.h>
// The codes of errors, which need the declarations of the line above.
#  include <jerror.h>
#endif

namespace mezzo {

namespace {

using io::ByteReader;
using Bytes = std::vector<std::byte>;

[[noreturn]] [[maybe_unused]] void refuse(const ByteReader& file, const char* kind,
                                          const char* reason) {
  fail<FormatError>(file.subject(), {.what = str("the ", kind, " image is damaged"),
                                     .got = reason,
                                     .hint = "the file may be truncated"});
}

/** Requires that the image has pixels, and not more than 2^28 or than the bytes of the file can
 *  hold: `most_per_byte` for each. */
[[maybe_unused]] void require_pixels(const ByteReader& file, std::uint64_t width,
                                     std::uint64_t height, std::uint64_t most_per_byte) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 28;
  const std::uint64_t most = std::min(kMost, file.size() * most_per_byte);
  if (width > 0 && height > 0 && width <= most && height <= most / width) return;
  fail<FormatError>(file.subject(), {.what = "the image has an impossible size",
                                     .got = str(width, "x", height),
                                     .expected = str("1..", most, " pixels"),
                                     .hint = "the file may be truncated"});
}

/** Returns interleaved pixels, of which the first three bytes of `step` are used, as [3,H,W]. */
[[maybe_unused]] Tensor planes(const std::vector<unsigned char>& pixels, std::size_t step,
                               std::int64_t height, std::int64_t width) {
  const Tensor out = empty_tensor({3, height, width}, DType::u8, cpu);
  const auto plane = static_cast<std::size_t>(height * width);
  auto* to = out.data<std::uint8_t>();
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = 0; i < plane; ++i) to[c * plane + i] = pixels[step * i + c];
  return out;
}

[[noreturn]] [[maybe_unused]] void fail_unsupported(const ByteReader& file, const char* kind,
                                                    const char* option) {
  fail<Unsupported>(file.subject(), {.what = str("this build cannot read ", kind, " images"),
                                     .hint = str("build Mezzo with -D", option, "=enabled")});
}

#if MZ_HAS_PNG

/** An image of libpng, freed at the end of the scope. */
struct Png : png_image {
  Png() : png_image{} { version = PNG_IMAGE_VERSION; }
  ~Png() { ::png_image_free(this); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
};

Tensor png(const ByteReader& file, const Bytes& bytes) {
  Png image;
  if (!::png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()))
    refuse(file, "PNG", image.message);
  constexpr std::uint64_t kMostPerByte = 8 * 1032;  // pixels of one bit, deflated
  require_pixels(file, image.width, image.height, kMostPerByte);
  image.format = PNG_FORMAT_RGBA;
  std::vector<unsigned char> pixels;
  or_out_of_memory(file.subject(), [&] { pixels.resize(PNG_IMAGE_SIZE(image)); });
  if (!::png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr))
    refuse(file, "PNG", image.message);
  return planes(pixels, 4, image.height, image.width);
}

#else

Tensor png(const ByteReader& file, const Bytes&) { fail_unsupported(file, "PNG", "png"); }

#endif
#if MZ_HAS_JPEG

/** A decoder of libjpeg. Its errors jump out of the library, so that no function that sets the
 *  target of a jump has objects with destructors. */
class Jpeg {
 public:
  Jpeg() {
    decoder_.err = ::jpeg_std_error(&errors_);
    errors_.error_exit = leave;
    errors_.emit_message = [](j_common_ptr decoder, int level) {
      // The library fills the missing part of a truncated image with grey and warns.
      const int code = decoder->err->msg_code;
      if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) leave(decoder);
    };
    decoder_.client_data = this;
  }
  ~Jpeg() {
    if (created_) ::jpeg_destroy_decompress(&decoder_);
  }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  /** Reads the header; returns whether it is valid. */
  bool begin(const Bytes& bytes) {
    if (setjmp(target_) != 0) return false;
    jpeg_create_decompress(&decoder_);
    created_ = true;
    ::jpeg_mem_src(&decoder_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    ::jpeg_read_header(&decoder_, TRUE);
    const bool cmyk =
        decoder_.jpeg_color_space == JCS_CMYK || decoder_.jpeg_color_space == JCS_YCCK;
    decoder_.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    return true;
  }
  /** Decodes into channels() * width() * height() bytes; returns whether the image is whole. */
  bool decode(unsigned char* to) {
    if (setjmp(target_) != 0) return false;
    ::jpeg_start_decompress(&decoder_);
    while (decoder_.output_scanline < decoder_.output_height) {
      JSAMPROW row = to + channels() * decoder_.image_width * decoder_.output_scanline;
      ::jpeg_read_scanlines(&decoder_, &row, 1);
    }
    ::jpeg_finish_decompress(&decoder_);
    return true;
  }
  /** Returns 4 for CMYK, else 3. */
  std::size_t channels() const { return decoder_.out_color_space == JCS_CMYK ? 4 : 3; }
  std::uint32_t width() const { return decoder_.image_width; }
  std::uint32_t height() const { return decoder_.image_height; }
  /** Returns the most pixels that a byte can hold: a block of 8x8 has at least one bit by Huffman's
   *  code, and may have a hundredth by the arithmetic code. */
  std::uint64_t most_per_byte() const { return decoder_.arith_code != 0 ? 65536 : 512; }
  /** Returns the reason of the last error. */
  const char* reason() const { return reason_; }

 private:
  [[noreturn]] static void leave(j_common_ptr decoder) {
    auto* self = static_cast<Jpeg*>(decoder->client_data);
    (*decoder->err->format_message)(decoder, self->reason_);
    std::longjmp(self->target_, 1);
  }

  jpeg_decompress_struct decoder_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf target_;
  char reason_[JMSG_LENGTH_MAX] = {};
  bool created_ = false;
};

/** Converts CMYK pixels to RGB in place, as Pillow does: inks are stored inverted, which is Adobe's
 *  convention, and absorb light one after the other, without a colour profile. */
void cmyk_to_rgb(std::vector<unsigned char>& pixels) {
  const auto product = [](unsigned a, unsigned b) {  // a * b / 255, rounded to nearest
    const unsigned t = a * b + 128;
    return ((t >> 8) + t) >> 8;
  };
  std::size_t end = 0;
  for (std::size_t i = 0; i < pixels.size(); i += 4) {
    const unsigned light = pixels[i + 3];
    for (std::size_t c = 0; c < 3; ++c)
      pixels[end++] = static_cast<unsigned char>(light - product(255U - pixels[i + c], light));
  }
  pixels.resize(end);
}

Tensor jpeg(const ByteReader& file, const Bytes& bytes) {
  Jpeg image;
  if (!image.begin(bytes)) refuse(file, "JPEG", image.reason());
  require_pixels(file, image.width(), image.height(), image.most_per_byte());
  std::vector<unsigned char> pixels;
  or_out_of_memory(file.subject(),
                   [&] { pixels.resize(image.channels() * image.width() * image.height()); });
  if (!image.decode(pixels.data())) refuse(file, "JPEG", image.reason());
  if (image.channels() == 4) cmyk_to_rgb(pixels);
  return planes(pixels, 3, image.height(), image.width());
}

#else

Tensor jpeg(const ByteReader& file, const Bytes&) { fail_unsupported(file, "JPEG", "jpeg"); }

#endif

}  // namespace

Tensor load_image(const std::string& path) {
  const ByteReader file("load_image", path);
  const Bytes bytes = file.bytes(0, file.size());
  const auto begins = [&](std::string_view magic) {
    return bytes.size() >= magic.size() &&
           std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  };
  if (begins("\x89PNG")) return png(file, bytes);
  if (begins("\xFF\xD8")) return jpeg(file, bytes);
  fail<FormatError>(file.subject(),
                    {.what = "unknown type of image",
                     .got = bytes.empty() ? "an empty file" : "other bytes at byte 0",
                     .expected = "PNG or JPEG"});
}

}  // namespace mezzo
