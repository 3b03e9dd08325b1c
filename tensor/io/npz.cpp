// Zip archives of .npy files. Source: PKWARE, APPNOTE.TXT 6.3.10.
#include <mezzo_features.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <span>

#include "../core/dispatch.h"
#include "../core/error.h"
#include "../text/text.h"
#include "atomic_file.h"
#include "npy.h"
#include "npy_bytes.h"

#if MZ_HAS_ZLIB
#  include <zlib.h>
#endif

namespace mezzo {

namespace {

using io::ByteReader;
using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kLocal = 0x04034B50, kCentral = 0x02014B50, kEnd = 0x06054B50,
                        kEnd64 = 0x06064B50, kLocator64 = 0x07064B50;
constexpr std::uint64_t kEndBytes = 22, kCentralBytes = 46, kLocalBytes = 30;
constexpr std::uint32_t kElsewhere = 0xFFFFFFFF;  // the value is in the zip64 extra field

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? 0xEDB88320u : 0u);
    table[i] = c;
  }
  return table;
}

/** Returns the CRC-32 of the bytes, after those of which it is `before`. */
std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before = 0) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t c = ~before;
  for (const std::byte b : bytes) c = kTable[(c ^ static_cast<std::uint32_t>(b)) & 255] ^ (c >> 8);
  return ~c;
}

std::uint64_t little(const ByteReader& file, std::uint64_t at, int bytes) {
  unsigned char raw[8];
  file.read(at, raw, static_cast<std::uint64_t>(bytes));
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;) value = value << 8 | raw[i];
  return value;
}

/** An entry of an archive. */
struct ZipEntry {
  std::string name;
  std::uint64_t method = 0, crc = 0, packed = 0, size = 0, at = 0;
};

[[noreturn]] void refuse(const ByteReader& file, const std::string& what,
                         const std::string& got = {}, const std::string& expected = {}) {
  fail<FormatError>(file.subject(), {.what = what, .got = got, .expected = expected});
}

/** The place of the central directory. */
struct Directory {
  std::uint64_t count = 0, at = 0;
};

Directory directory_of(const ByteReader& file) {
  const std::uint64_t size = file.size();
  std::uint64_t at = size;
  for (std::uint64_t back = kEndBytes; back <= std::min<std::uint64_t>(size, kEndBytes + 65535);
       ++back)
    if (little(file, size - back, 4) == kEnd) {
      at = size - back;
      break;
    }
  if (at == size) refuse(file, "not a zip archive", "no central directory");
  if (at >= 20 && little(file, at - 20, 4) == kLocator64) {
    const std::uint64_t end = little(file, at - 12, 8);
    if (little(file, end, 4) != kEnd64) refuse(file, "the zip64 directory is damaged");
    return {little(file, end + 32, 8), little(file, end + 48, 8)};
  }
  return {little(file, at + 10, 2), little(file, at + 16, 4)};
}

/** Replaces sizes that are in the zip64 extra field. */
void read_zip64(const ByteReader& file, std::uint64_t at, std::uint64_t length, ZipEntry& entry) {
  for (std::uint64_t i = 0; i + 4 <= length;) {
    const std::uint64_t id = little(file, at + i, 2), bytes = little(file, at + i + 2, 2);
    std::uint64_t value = at + i + 4;
    if (id == 1)
      for (std::uint64_t* field : {&entry.size, &entry.packed, &entry.at})
        if (*field == kElsewhere) {
          *field = little(file, value, 8);
          value += 8;
        }
    i += 4 + bytes;
  }
}

/** Reads the entry of the directory at `at`, and moves to the next. */
ZipEntry next_entry(const ByteReader& file, std::uint64_t& at) {
  if (little(file, at, 4) != kCentral) refuse(file, "the central directory is damaged");
  if ((little(file, at + 8, 2) & 1) != 0) refuse(file, "the archive is encrypted");
  ZipEntry entry{.name = {},
                 .method = little(file, at + 10, 2),
                 .crc = little(file, at + 16, 4),
                 .packed = little(file, at + 20, 4),
                 .size = little(file, at + 24, 4),
                 .at = little(file, at + 42, 4)};
  const std::uint64_t name = little(file, at + 28, 2), extra = little(file, at + 30, 2),
                      comment = little(file, at + 32, 2);
  entry.name.resize(name);
  file.read(at + kCentralBytes, entry.name.data(), name);
  read_zip64(file, at + kCentralBytes + name, extra, entry);
  at += kCentralBytes + name + extra + comment;
  return entry;
}

#if MZ_HAS_ZLIB
/** Inflates raw deflate data into exactly out.size() bytes; returns false for damaged data. */
bool inflate_all(Bytes& packed, Bytes& out) {
  z_stream z{};
  if (::inflateInit2(&z, -MAX_WBITS) != Z_OK) return false;
  constexpr std::size_t kMost = std::size_t{1} << 30;
  std::size_t in = 0, made = 0;
  int code = Z_OK;
  Bytef extra = 0;  // where there is nothing to make, and for a byte too many
  while (code == Z_OK) {
    const std::size_t feed = std::min(kMost, packed.size() - in),
                      room = std::min(kMost, out.size() - made);
    z.next_in = reinterpret_cast<Bytef*>(packed.data() + in);
    z.avail_in = static_cast<uInt>(feed);
    z.next_out = room > 0 ? reinterpret_cast<Bytef*>(out.data() + made) : &extra;
    z.avail_out = static_cast<uInt>(std::max<std::size_t>(room, 1));
    code = ::inflate(&z, Z_NO_FLUSH);
    in += feed - z.avail_in;
    if (room == 0 && z.avail_out == 0) code = Z_DATA_ERROR;
    made += room > 0 ? room - z.avail_out : 0;
  }
  ::inflateEnd(&z);
  return code == Z_STREAM_END && made == out.size() && in == packed.size();
}
#endif

/** Returns the content of a deflated entry. */
Bytes inflated(const ByteReader& file, const ZipEntry& entry, Bytes packed) {
#if MZ_HAS_ZLIB
  constexpr std::uint64_t kMostRatio = 1040;  // deflate reaches 1032
  Bytes out;
  if (entry.size / kMostRatio > packed.size())
    refuse(file, str("the size of \"", entry.name, "\" is impossible"), str(entry.size));
  or_out_of_memory(file.subject(), [&] { out.resize(entry.size); });
  if (!inflate_all(packed, out))
    refuse(file, str("the compressed data of \"", entry.name, "\" is damaged"));
  return out;
#else
  (void)packed;
  fail<Unsupported>(file.subject(), {.what = str("\"", entry.name, "\" is compressed"),
                                     .hint = "build Mezzo with -Dzlib=enabled"});
#endif
}

Bytes content_of(const ByteReader& file, const ZipEntry& entry) {
  if (little(file, entry.at, 4) != kLocal) refuse(file, "an entry of the archive is damaged");
  const std::uint64_t from =
      entry.at + kLocalBytes + little(file, entry.at + 26, 2) + little(file, entry.at + 28, 2);
  Bytes bytes = file.bytes(from, entry.packed);
  if (entry.method == 8)
    bytes = inflated(file, entry, std::move(bytes));
  else if (entry.method != 0)
    refuse(file, "the compression is not supported", str("method ", entry.method),
           "0 (stored) or 8 (deflated)");
  if (bytes.size() != entry.size || crc32_of(bytes) != entry.crc)
    refuse(file, str("the checksum or size of \"", entry.name, "\" is wrong"), {},
           "an undamaged file");
  return bytes;
}

// ---- writing ------------------------------------------------------------------------------------

std::string little_text(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255);
  return out;
}

/** Returns what the local and the central header have in common, from the version on. */
std::string common_header(std::uint32_t crc, std::uint64_t size, std::size_t name) {
  constexpr std::uint64_t kVersion = 20, kUtf8 = 0x800, kFirstOf1980 = 0x21;
  return little_text(kVersion, 2) + little_text(kUtf8, 2) + little_text(0, 4) +
         little_text(kFirstOf1980, 2) + little_text(crc, 4) + little_text(size, 4) +
         little_text(size, 4) + little_text(name, 2) + little_text(0, 2);
}

void require_size(std::uint64_t bytes) {
  if (bytes >= kElsewhere)
    fail<SizeError>("save_npz", {.what = "the file would be too large",
                                 .got = str(bytes, " bytes"),
                                 .expected = "less than 4 GiB",
                                 .hint = "save_tensors has no such limit"});
}

/** Writes the archive. */
class Writer {
 public:
  explicit Writer(const std::string& path) : file_("save_npz", path) {}

  void add(const std::string& key, const Tensor& x) {
    const std::string name = key + ".npy", header = io::npy_header("save_npz", x);
    const Tensor content = x.to(cpu).contiguous();
    const std::span elements(static_cast<const std::byte*>(content.raw_data()),
                             static_cast<std::size_t>(content.numel()) * item_size(x.dtype()));
    const std::uint64_t size = header.size() + elements.size();
    require_size(at_ + directory_.size() + size + 2 * name.size() + 128);
    const std::string common = common_header(
        crc32_of(elements, crc32_of(std::as_bytes(std::span(header)))), size, name.size());
    directory_ += little_text(kCentral, 4) + little_text(20, 2) + common + little_text(0, 10) +
                  little_text(at_, 4) + name;
    ++count_;
    const std::string local = little_text(kLocal, 4) + common + name;
    file_.write(local);
    file_.write(header);
    file_.write(elements);
    at_ += local.size() + size;
  }

  void commit() {
    file_.write(directory_ + little_text(kEnd, 4) + little_text(0, 4) + little_text(count_, 2) +
                little_text(count_, 2) + little_text(directory_.size(), 4) + little_text(at_, 4) +
                little_text(0, 2));
    file_.commit();
  }

 private:
  io::AtomicFile file_;
  std::string directory_;
  std::uint64_t at_ = 0, count_ = 0;
};

}  // namespace

void save_npz(const std::string& path, const NamedTensors& tensors) {
  std::set<std::string> names;
  for (const auto& [name, x] : tensors)
    if (name.empty() || name.size() > 65000 || !names.insert(name).second)
      fail<ValueError>("save_npz", {.what = "invalid name of a tensor",
                                    .got = str("\"", name.substr(0, 100), "\""),
                                    .expected = "a name that occurs once"});
  if (tensors.size() > 65534)
    fail<SizeError>("save_npz", {.what = "too many tensors", .got = str(tensors.size())});
  const GradMode no_grad(false);
  Writer writer(path);
  for (const auto& [name, x] : tensors) writer.add(name, x);
  writer.commit();
}

NamedTensors load_npz(const std::string& path) {
  const GradMode no_grad(false);
  const ByteReader file("load_npz", path);
  const Directory directory = directory_of(file);
  NamedTensors out;
  std::set<std::string> names;
  std::uint64_t at = directory.at, packed = 0;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    ZipEntry entry = next_entry(file, at);
    // Entries with the same data could unpack to any size.
    if (entry.packed > file.size() - packed) refuse(file, "entries of the archive overlap");
    packed += entry.packed;
    if (!entry.name.ends_with(".npy") || !names.insert(entry.name).second)
      refuse(file, "unexpected entry in the archive", str("\"", entry.name, "\""),
             "arrays NAME.npy, each once");
    const Bytes content = content_of(file, entry);
    const ByteReader array("load_npz", str(path, ", ", entry.name), content);
    out.emplace_back(entry.name.substr(0, entry.name.size() - 4), io::read_npy(array));
  }
  return out;
}

}  // namespace mezzo
