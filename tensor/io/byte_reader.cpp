#include "byte_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "../core/error.h"
#include "../text/text.h"

namespace mezzo::io {

std::optional<std::uint64_t> checked_numel(std::span<const std::uint64_t> sizes) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 59;
  std::uint64_t product = 1;
  bool empty = false;
  for (const std::uint64_t size : sizes) {
    if (size == 0)
      empty = true;
    else if (__builtin_mul_overflow(product, size, &product) || product > kMost)
      return std::nullopt;
  }
  return empty ? 0 : product;
}

ByteReader::ByteReader(std::string operation, const std::string& path)
    : subject_(operation + "(" + path + ")") {
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file_ < 0)
    fail<IoError>(subject_, {.what = "cannot open the file", .got = std::strerror(errno)});
  struct stat facts{};
  const bool known = ::fstat(file_, &facts) == 0;
  if (!known || !S_ISREG(facts.st_mode)) {
    const std::string reason = known ? "no regular file" : std::strerror(errno);
    ::close(file_);
    fail<IoError>(subject_, {.what = "cannot read the file", .got = reason});
  }
  size_ = static_cast<std::uint64_t>(facts.st_size);
}

ByteReader::ByteReader(std::string operation, const std::string& name,
                       std::span<const std::byte> bytes)
    : subject_(operation + "(" + name + ")"), memory_(bytes), size_(bytes.size()) {}

ByteReader::~ByteReader() {
  if (file_ >= 0) ::close(file_);
}

void ByteReader::require(std::uint64_t offset, std::uint64_t n) const {
  if (offset > size_ || n > size_ - offset)
    fail<FormatError>(subject_, {.what = "the file ends too early",
                                 .got = str(size_, " bytes"),
                                 .expected = str(n, " bytes from byte ", offset, " on"),
                                 .hint = "the file is truncated"});
}

void ByteReader::read(std::uint64_t offset, void* to, std::uint64_t n) const {
  require(offset, n);
  if (file_ < 0) {
    if (n > 0) std::memcpy(to, memory_.data() + offset, static_cast<std::size_t>(n));
    return;
  }
  // One call transfers at most 2 GiB, and may be interrupted.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  char* target = static_cast<char*>(to);
  while (n > 0) {
    const ssize_t got = ::pread(file_, target, static_cast<std::size_t>(std::min(n, kMost)),
                                static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      fail<IoError>(subject_, {.what = "cannot read the file",
                               .got = str(std::strerror(errno), " at byte ", offset)});
    if (got == 0)
      fail<FormatError>(subject_, {.what = "the file became shorter while it was read",
                                   .got = str("its end at byte ", offset)});
    target += got;
    offset += static_cast<std::uint64_t>(got);
    n -= static_cast<std::uint64_t>(got);
  }
}

std::vector<std::byte> ByteReader::bytes(std::uint64_t offset, std::uint64_t n) const {
  require(offset, n);
  std::vector<std::byte> out;
  or_out_of_memory(subject_, [&] { out.resize(static_cast<std::size_t>(n)); });
  read(offset, out.data(), n);
  return out;
}

std::uint64_t ByteReader::little_u64(std::uint64_t offset) const {
  unsigned char raw[8];
  read(offset, raw, sizeof raw);
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | raw[i];
  return value;
}

std::uint32_t ByteReader::big_u32(std::uint64_t offset) const {
  unsigned char raw[4];
  read(offset, raw, sizeof raw);
  std::uint32_t value = 0;
  for (const unsigned char byte : raw) value = value << 8 | byte;
  return value;
}

}  // namespace mezzo::io
