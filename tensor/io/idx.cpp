#include "idx.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "../core/error.h"
#include "../text/text.h"
#include "byte_reader.h"
#include "gzip.h"

namespace mezzo {

namespace {

using io::ByteReader;
using io::GzipReader;

constexpr std::uint32_t kImages = 0x00000803, kLabels = 0x00000801;

/** The content of the file in order, inflated if it is gzip. */
class Content {
 public:
  explicit Content(const ByteReader& file) : file_(file) {
    std::byte start[2] = {};
    if (file.size() >= 2) file.read(0, start, 2);
    if (!io::is_gzip(start)) return;
    gzip_ = std::make_unique<GzipReader>(file);
  }

  /** Returns an upper bound of the number of bytes. */
  std::uint64_t at_most() const {
    std::uint64_t most = file_.size();
    if (gzip_ && __builtin_mul_overflow(most, io::kMostExpansion, &most)) most = ~std::uint64_t{0};
    return most;
  }

  void read(void* to, std::uint64_t n) {
    const std::uint64_t got = some(to, n);
    if (got < n)
      fail<FormatError>(file_.subject(), {.what = "the file ends too early",
                                          .got = str("its end at ", where(), position_),
                                          .expected = str(n - got, " bytes more"),
                                          .hint = "the file is truncated"});
  }

  void require_end() {
    char extra = 0;
    const std::uint64_t end = position_;
    if (some(&extra, 1) > 0)
      fail<FormatError>(file_.subject(),
                        {.what = "the file continues after the last element",
                         .got = str("more than ", end, " bytes", gzip_ ? " of content" : ""),
                         .expected = str(end),
                         .hint = "the file is damaged, or the sizes in it are wrong"});
  }

  std::uint32_t big_u32() {
    unsigned char raw[4];
    read(raw, sizeof raw);
    return std::uint32_t{raw[0]} << 24 | std::uint32_t{raw[1]} << 16 | std::uint32_t{raw[2]} << 8 |
           raw[3];
  }

  const char* where() const { return gzip_ ? "byte of content " : "byte "; }

 private:
  std::uint64_t some(void* to, std::uint64_t n) {
    std::uint64_t got = 0;
    if (gzip_) {
      got = gzip_->read(to, static_cast<std::size_t>(n));
    } else {
      got = std::min(n, file_.size() - position_);
      file_.read(position_, to, got);
    }
    position_ += got;
    return got;
  }

  const ByteReader& file_;
  std::unique_ptr<GzipReader> gzip_;
  std::uint64_t position_ = 0;
};

void require_magic(const ByteReader& file, std::uint32_t got, std::uint32_t wanted) {
  if (got == wanted) return;
  const auto hex = [](std::uint32_t value) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (int shift = 28; shift >= 0; shift -= 4) {
      text += kDigits[value >> shift & 15];
      if (shift % 8 == 0 && shift > 0) text += ' ';
    }
    return text;
  };
  const bool other = got == kImages || got == kLabels;
  fail<FormatError>(
      file.subject(),
      {.what = "wrong magic number at byte 0",
       .got = hex(got),
       .expected = str(hex(wanted), wanted == kImages ? " (images)" : " (labels)"),
       .hint = other ? (got == kImages ? "this is a file of images" : "this is a file of labels")
                     : ""});
}

Tensor load_idx_file(const char* operation, const std::string& path, std::uint32_t magic) {
  const ByteReader file(operation, path);
  Content content(file);
  require_magic(file, content.big_u32(), magic);
  const int rank = static_cast<int>(magic & 0xFF);
  std::uint64_t sizes[3];
  Shape shape;
  for (int i = 0; i < rank; ++i) {
    sizes[i] = content.big_u32();
    if (sizes[i] == 0)
      fail<FormatError>(file.subject(),
                        {.what = str("size ", i, " at byte ", 4 + 4 * i, " is zero"),
                         .got = "0",
                         .expected = "at least 1"});
    shape.push_back(static_cast<std::int64_t>(sizes[i]));
  }
  const std::uint64_t header = 4 + 4 * static_cast<std::uint64_t>(rank);
  const std::optional<std::uint64_t> numel =
      io::checked_numel({sizes, static_cast<std::size_t>(rank)});
  if (!numel || *numel > content.at_most() - std::min(header, content.at_most()))
    fail<FormatError>(
        file.subject(),
        {.what = "the file is shorter than its sizes say",
         .got = str(file.size(), " bytes for u8", shape, " after byte ", header),
         .expected = numel ? str(header + *numel, " bytes") : std::string("possible sizes"),
         .hint = "the file is truncated"});
  Tensor out = empty_tensor(shape, DType::u8, cpu);
  content.read(out.raw_data(), *numel);
  content.require_end();
  return out;
}

}  // namespace

Tensor load_idx_images(const std::string& path) {
  return load_idx_file("load_idx_images", path, kImages);
}

Tensor load_idx_labels(const std::string& path) {
  return load_idx_file("load_idx_labels", path, kLabels);
}

ImagesAndLabels load_idx(const std::string& images_path, const std::string& labels_path) {
  ImagesAndLabels data{load_idx_images(images_path), load_idx_labels(labels_path)};
  if (data.images.size(0) != data.labels.size(0))
    fail<FormatError>(str("load_idx(", labels_path, ")"),
                      {.what = "the count at byte 4 differs from that of the images",
                       .got = str(data.labels.size(0), " labels for ", data.images.size(0),
                                  " images in ", images_path),
                       .expected = "equal counts"});
  return data;
}

}  // namespace mezzo
