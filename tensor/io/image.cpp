#include "image.h"

#include <mezzo_features.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "../core/error.h"
#include "../text/text.h"
#include "atomic_file.h"
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

namespace {

void require_image_dtype(std::string_view op, const Tensor& x) {
  if (x.dtype() != u8 && !is_floating(x.dtype()))
    fail<DtypeError>(op, {.what = "wrong dtype of an image",
                          .got = str(x),
                          .expected = "u8, or floating-point in 0..1"});
}

/** Returns images of any accepted shape as row-major [N,C,H,W] on the CPU, u8 or f32, with a copy
 * of its own if `copies`; one channel is made three. */
Tensor image_batch(std::string_view op, const Tensor& images, bool copies) {
  require_image_dtype(op, images);
  if (images.dim() < 2 || images.dim() > 4 || images.numel() == 0)
    fail<ShapeError>(op, {.what = "not an image",
                          .got = str(images),
                          .expected = "[H,W], [C,H,W] or [N,C,H,W], with pixels"});
  Tensor x = images.detach();
  while (x.dim() < 4) x = x.unsqueeze(0);
  x = x.to(cpu);
  if (x.dtype() != u8) x = x.to(f32);
  if (x.size(1) == 1) x = x.expand({x.size(0), 3, x.size(2), x.size(3)});
  x = x.contiguous();
  return copies && x.impl()->storage == images.impl()->storage ? x.clone() : x;
}

/** Moves numbers from a range to 0..1, in place; none: from their own range. */
void normalize(float* x, std::int64_t count, std::optional<std::pair<double, double>> range) {
  const auto [least, largest] = std::minmax_element(x, x + count);
  const auto low = range ? static_cast<float>(range->first) : *least,
             high = range ? static_cast<float>(range->second) : *largest;
  for (std::int64_t i = 0; i < count; ++i)
    x[i] = (std::clamp(x[i], low, high) - low) / std::max(high - low, 1e-5f);
}

void check_grid(std::string_view op, const Tensor& images, const GridOptions& o) {
  if (o.nrow < 1 || o.padding < 0 || o.padding > 65536)
    fail<ValueError>(op, {.what = "options of the grid are out of range",
                          .got = str("nrow ", o.nrow, ", padding ", o.padding),
                          .expected = "nrow >= 1, padding in 0..65536"});
  if (o.normalize && images.dtype() == u8)
    fail<ValueError>(op, {.what = "u8 images cannot be normalized",
                          .got = str(images),
                          .hint = "convert them with data::ConvertImageDtype"});
  if (o.value_range && !(o.value_range->first < o.value_range->second))
    fail<ValueError>(op, {.what = "invalid value_range",
                          .got = str("(", o.value_range->first, ", ", o.value_range->second, ")"),
                          .expected = "two numbers, the smaller first"});
}

Tensor grid_of(std::string_view op, const Tensor& images, const GridOptions& o) {
  check_grid(op, images, o);
  const Tensor x = image_batch(op, images, o.normalize);
  const std::int64_t count = x.size(0), size = x.numel() / count;
  if (o.normalize && o.scale_each)
    for (std::int64_t n = 0; n < count; ++n)
      normalize(x.data<float>() + n * size, size, o.value_range);
  else if (o.normalize)
    normalize(x.data<float>(), x.numel(), o.value_range);
  if (count == 1) return x[0];
  const std::int64_t columns = std::min(o.nrow, count), rows = (count + columns - 1) / columns,
                     height = x.size(2) + o.padding, width = x.size(3) + o.padding;
  const Tensor grid = empty_tensor(
      {x.size(1), rows * height + o.padding, columns * width + o.padding}, x.dtype(), cpu);
  grid.fill_(o.pad_value);
  for (std::int64_t n = 0; n < count; ++n)
    grid.narrow(1, n / columns * height + o.padding, x.size(2))
        .narrow(2, n % columns * width + o.padding, x.size(3))
        .copy_(x[n]);
  return grid;
}

std::uint8_t level(float v) {  // of NaN: 0
  return v > 0 ? static_cast<std::uint8_t>(std::min(v * 255 + 0.5f, 255.0f)) : 0;
}

/** Returns interleaved red, green and blue of an image [3,H,W]. */
std::vector<std::uint8_t> interleaved(const Tensor& image) {
  const auto plane = static_cast<std::size_t>(image.size(1) * image.size(2));
  std::vector<std::uint8_t> out(3 * plane);
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = 0; i < plane; ++i)
      out[3 * i + c] = image.dtype() == u8 ? image.data<std::uint8_t>()[c * plane + i]
                                           : level(image.data<float>()[c * plane + i]);
  return out;
}

}  // namespace

Tensor make_grid(const Tensor& images, const GridOptions& options) {
  return grid_of("make_grid", images, options);
}

Tensor make_grid(const std::vector<Tensor>& images, const GridOptions& options) {
  constexpr std::string_view op = "make_grid";
  if (images.empty()) fail<ValueError>(op, {.what = "there is no image"});
  const Tensor& first = images[0];
  if (first.dim() != 3)
    fail<ShapeError>(op, {.what = "not an image", .got = str(first), .expected = "[C,H,W]"});
  const Tensor all = empty_tensor({std::ssize(images), first.size(0), first.size(1), first.size(2)},
                                  first.dtype(), cpu);
  for (std::size_t n = 0; n < images.size(); ++n) {
    if (images[n].shape() != first.shape() || images[n].dtype() != first.dtype())
      fail<ShapeError>(op, {.what = str("image ", n, " differs from the first"),
                            .got = str(images[n]),
                            .expected = str(first)});
    all[static_cast<std::int64_t>(n)].copy_(images[n].detach().to(cpu));
  }
  return grid_of(op, all, options);
}

std::string io::png_bytes(std::string_view op, const Tensor& image) {
  const Tensor x = image_batch(op, image, false);
  if (x.size(0) != 1 || x.size(1) != 3)
    fail<ShapeError>(op, {.what = "not one image of one or three channels",
                          .got = str(image),
                          .expected = "[1,H,W] or [3,H,W]"});
#if MZ_HAS_PNG
  Png png;
  png.width = static_cast<png_uint_32>(x.size(3));
  png.height = static_cast<png_uint_32>(x.size(2));
  png.format = PNG_FORMAT_RGB;
  const std::vector<std::uint8_t> pixels = interleaved(x[0]);
  png_alloc_size_t size = 0;
  std::string bytes;
  bool written = ::png_image_write_to_memory(&png, nullptr, &size, 0, pixels.data(), 0, nullptr);
  if (written) {
    bytes.resize(size);
    written = ::png_image_write_to_memory(&png, bytes.data(), &size, 0, pixels.data(), 0, nullptr);
    bytes.resize(size);
  }
  if (!written)
    fail<ValueError>(op, {.what = str("libpng refuses the image: ", png.message), .got = str(x)});
  return bytes;
#else
  (void)interleaved;
  fail<Unsupported>(
      op, {.what = "this build cannot write PNG images", .hint = "build Mezzo with -Dpng=enabled"});
#endif
}

void save_image(const std::string& path, const Tensor& images, const GridOptions& options) {
  if (!path.ends_with(".png"))
    fail<ValueError>("save_image", {.what = "unknown kind of image file",
                                    .got = path,
                                    .expected = "a path that ends in .png"});
  const std::string bytes = io::png_bytes("save_image", grid_of("save_image", images, options));
  io::AtomicFile file("save_image", path);
  file.write(bytes);
  file.commit();
}

}  // namespace mezzo
