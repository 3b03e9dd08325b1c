#include "gzip.h"

#include <mezzo_features.h>

#include <algorithm>
#include <limits>

#include "../error.h"
#include "../text.h"

#if MZ_HAS_ZLIB
#  include <zlib.h>
#endif

namespace mezzo::io {

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B};
}

#if MZ_HAS_ZLIB

struct GzipReader::Stream {
  std::string subject;
  std::span<const std::byte> compressed;
  z_stream z{};
  bool member_ended = false;  // between two members, or at the end

  std::uint64_t position() const { return compressed.size() - rest_ - z.avail_in; }

  Stream(std::string what, std::span<const std::byte> bytes)
      : subject(std::move(what)), compressed(bytes), rest_(bytes.size()) {
    if (!is_gzip(bytes))
      fail<FormatError>(subject,
                        {.what = "no gzip data", .got = "another beginning at byte 0", .expected = "1f 8b"});
    // 16 + the largest window: gzip framing, with its checksum and length checked by zlib.
    if (::inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
      fail<OutOfMemory>(subject, {.what = "no memory for inflating"});
  }
  ~Stream() { ::inflateEnd(&z); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /** zlib counts in 32 bits, so the input is handed over in pieces. */
  void feed() {
    if (z.avail_in > 0 || rest_ == 0) return;
    const std::size_t n = std::min<std::size_t>(rest_, std::size_t{1} << 30);
    z.next_in =
        reinterpret_cast<Bytef*>(const_cast<std::byte*>(compressed.data() + (compressed.size() - rest_)));
    z.avail_in = static_cast<uInt>(n);
    rest_ -= n;
  }

  /** Goes on to the next member; false at the end of the input. */
  bool next_member() {
    const std::uint64_t at = position();
    if (at == compressed.size()) return false;
    if (!is_gzip(compressed.subspan(static_cast<std::size_t>(at))))
      fail<FormatError>(subject, {.what = "something follows the gzip data",
                                  .got = str(compressed.size() - at, " bytes from byte ", at, " on"),
                                  .hint = "the file is damaged"});
    ::inflateReset(&z);
    member_ended = false;
    return true;
  }

  [[noreturn]] void fail_inflate(int code) const {
    if (code == Z_MEM_ERROR) fail<OutOfMemory>(subject, {.what = "no memory for inflating"});
    if (code == Z_BUF_ERROR)
      fail<FormatError>(subject, {.what = "the gzip data ends too early",
                                  .got = str("its end at byte ", compressed.size()),
                                  .hint = "the file is truncated"});
    fail<FormatError>(subject,
                      {.what = "the gzip data is damaged",
                       .got = str(z.msg ? z.msg : "a preset dictionary", " near byte ", position())});
  }

 private:
  std::size_t rest_ = 0;  // bytes not yet handed to zlib
};

std::size_t GzipReader::read(void* to, std::size_t n) {
  Stream& s = *stream_;
  std::size_t done = 0;
  while (done < n) {
    if (s.member_ended && !s.next_member()) break;
    s.feed();
    const std::size_t piece = std::min<std::size_t>(n - done, std::size_t{1} << 30);
    s.z.next_out = static_cast<Bytef*>(to) + done;
    s.z.avail_out = static_cast<uInt>(piece);
    const int code = ::inflate(&s.z, Z_NO_FLUSH);
    done += piece - s.z.avail_out;
    if (code == Z_STREAM_END)
      s.member_ended = true;
    else if (code != Z_OK)
      s.fail_inflate(code);
  }
  return done;
}

#else

struct GzipReader::Stream {
  Stream(const std::string& subject, std::span<const std::byte>) {
    fail<Unsupported>(subject, {.what = "this build cannot read gzip",
                                .hint = "configure with -Dzlib=enabled, or unpack the file"});
  }
};

std::size_t GzipReader::read(void*, std::size_t) { return 0; }

#endif

GzipReader::GzipReader(std::string subject, std::span<const std::byte> compressed)
    : stream_(std::make_unique<Stream>(std::move(subject), compressed)) {}

GzipReader::~GzipReader() = default;

std::vector<std::byte> gunzip(const std::string& subject, std::span<const std::byte> compressed,
                              std::uint64_t most) {
  GzipReader reader(subject, compressed);
  std::vector<std::byte> out;
  while (true) {
    const std::size_t had = out.size(), room = std::max<std::size_t>(std::size_t{1} << 16, had);
    out.resize(had + room);
    const std::size_t got = reader.read(out.data() + had, room);
    out.resize(had + got);
    if (out.size() > most)
      fail<FormatError>(subject, {.what = "the content is too large",
                                  .got = str("more than ", most, " bytes"),
                                  .expected = str("at most ", most)});
    if (got < room) return out;
  }
}

}  // namespace mezzo::io
