#include "gzip.h"

#include <mezzo_features.h>

#include <algorithm>
#include <limits>

#include "../core/error.h"
#include "../text/text.h"

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
  z_stream z{};
  bool member_ended = false;  // true between two members and at the end

  std::uint64_t position() const { return next_ - z.avail_in; }

  Stream(std::string what, std::span<const std::byte> bytes)
      : Stream(std::move(what), std::make_unique<ByteReader>("gzip", "memory", bytes)) {}
  Stream(std::string what, std::unique_ptr<ByteReader> memory) : Stream(std::move(what), *memory) {
    memory_ = std::move(memory);
  }
  Stream(std::string what, const ByteReader& file) : subject(std::move(what)), compressed_(file) {
    if (!begins_member(0))
      fail<FormatError>(
          subject, {.what = "not gzip data", .got = "other bytes at byte 0", .expected = "1f 8b"});
    // 16 + the largest window: selects gzip framing; zlib checks its checksum and length.
    if (::inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
      fail<OutOfMemory>(subject, {.what = "not enough memory to inflate"});
  }
  ~Stream() { ::inflateEnd(&z); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void feed() {
    if (z.avail_in > 0 || next_ == compressed_.size()) return;
    const std::uint64_t n = std::min<std::uint64_t>(compressed_.size() - next_, sizeof chunk_);
    compressed_.read(next_, chunk_, n);
    z.next_in = chunk_;
    z.avail_in = static_cast<uInt>(n);
    next_ += n;
  }

  /** Starts the next member; returns false at the end of the input. */
  bool next_member() {
    const std::uint64_t at = position();
    if (at == compressed_.size()) return false;
    if (!begins_member(at))
      fail<FormatError>(subject,
                        {.what = "extra bytes after the gzip data",
                         .got = str(compressed_.size() - at, " bytes from byte ", at, " on"),
                         .hint = "the file is damaged"});
    ::inflateReset(&z);
    member_ended = false;
    return true;
  }

  [[noreturn]] void fail_inflate(int code) const {
    if (code == Z_MEM_ERROR) fail<OutOfMemory>(subject, {.what = "not enough memory to inflate"});
    if (code == Z_BUF_ERROR)
      fail<FormatError>(subject, {.what = "the gzip data ends too early",
                                  .got = str("its end at byte ", compressed_.size()),
                                  .hint = "the file is truncated"});
    fail<FormatError>(
        subject, {.what = "the gzip data is damaged",
                  .got = str(z.msg ? z.msg : "a preset dictionary", " near byte ", position())});
  }

 private:
  bool begins_member(std::uint64_t at) const {
    std::byte start[2] = {};
    compressed_.read(at, start, std::min<std::uint64_t>(2, compressed_.size() - at));
    return is_gzip(start);
  }

  std::unique_ptr<ByteReader> memory_;  // owns compressed_ if the source is memory
  const ByteReader& compressed_;
  std::uint64_t next_ = 0;  // offset of the first byte not yet passed to zlib
  Bytef chunk_[std::size_t{1} << 16];
};

std::size_t GzipReader::read(void* to, std::size_t n) {
  Stream& s = *stream_;
  std::size_t done = 0;
  while (done < n) {
    if (s.member_ended && !s.next_member()) break;
    s.feed();
    const std::size_t chunk = std::min<std::size_t>(n - done, std::size_t{1} << 30);
    s.z.next_out = static_cast<Bytef*>(to) + done;
    s.z.avail_out = static_cast<uInt>(chunk);
    const int code = ::inflate(&s.z, Z_NO_FLUSH);
    done += chunk - s.z.avail_out;
    if (code == Z_STREAM_END)
      s.member_ended = true;
    else if (code != Z_OK)
      s.fail_inflate(code);
  }
  return done;
}

bool can_gzip() { return true; }

std::vector<std::byte> gzip(std::span<const std::byte> content) {
  z_stream z{};
  const auto out_of_memory = [] { fail<OutOfMemory>("gzip", {.what = "not enough memory"}); };
  if (::deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) !=
      Z_OK)
    out_of_memory();
  struct End {
    z_stream& z;
    ~End() { ::deflateEnd(&z); }
  } const end{z};
  std::vector<std::byte> out;
  std::byte chunk[1 << 16];
  std::size_t at = 0;
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    if (z.avail_in == 0) {  // zlib counts in 32 bits
      const std::size_t n = std::min<std::size_t>(content.size() - at, std::size_t{1} << 30);
      z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(content.data() + at));
      z.avail_in = static_cast<uInt>(n);
      at += n;
    }
    z.next_out = reinterpret_cast<Bytef*>(chunk);
    z.avail_out = sizeof chunk;
    status = ::deflate(&z, at == content.size() ? Z_FINISH : Z_NO_FLUSH);
    if (status == Z_STREAM_ERROR) out_of_memory();
    or_out_of_memory("gzip",
                     [&] { out.insert(out.end(), chunk, chunk + sizeof chunk - z.avail_out); });
  }
  return out;
}

#else

bool can_gzip() { return false; }

std::vector<std::byte> gzip(std::span<const std::byte>) {
  fail<Unsupported>(
      "gzip", {.what = "this build cannot write gzip", .hint = "configure with -Dzlib=enabled"});
}

struct GzipReader::Stream {
  template <class Source> Stream(const std::string& subject, const Source&) {
    fail<Unsupported>(subject, {.what = "this build cannot read gzip",
                                .hint = "configure with -Dzlib=enabled, or unpack the file"});
  }
};

std::size_t GzipReader::read(void*, std::size_t) { return 0; }

#endif

GzipReader::GzipReader(std::string subject, std::span<const std::byte> compressed)
    : stream_(std::make_unique<Stream>(std::move(subject), compressed)) {}

GzipReader::GzipReader(const ByteReader& file)
    : stream_(std::make_unique<Stream>(file.subject(), file)) {}

GzipReader::~GzipReader() = default;

std::vector<std::byte> gunzip(const std::string& subject, std::span<const std::byte> compressed,
                              std::uint64_t most) {
  GzipReader reader(subject, compressed);
  std::vector<std::byte> out;
  while (true) {
    const std::size_t had = out.size(), room = std::max<std::size_t>(std::size_t{1} << 16, had);
    or_out_of_memory(subject, [&] { out.resize(had + room); });
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
