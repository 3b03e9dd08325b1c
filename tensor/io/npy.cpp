#include "npy.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "../core/dispatch.h"
#include "../text/text.h"
#include "atomic_file.h"
#include "npy_bytes.h"

namespace mezzo {

namespace io {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kMostHeader = 65536;

/** A type of elements in the file. */
struct Stored {
  std::string_view descr;
  std::uint64_t bytes;
  DType dtype;  // of the tensor
};

// The first with a dtype is the one that is written.
constexpr Stored kStored[] = {
    {"|b1", 1, DType::boolean}, {"|u1", 1, DType::u8},  {"<i4", 4, DType::i32},
    {"<i8", 8, DType::i64},     {"<f2", 2, DType::f16}, {"<f4", 4, DType::f32},
    {"<f8", 8, DType::f64},     {"|i1", 1, DType::i32}, {"<i2", 2, DType::i32}};

[[noreturn]] void refuse(const ByteReader& file, const std::string& what,
                         const std::string& got = {}, const std::string& expected = {}) {
  fail<FormatError>(file.subject(), {.what = what, .got = got, .expected = expected});
}

/** The content of a header. */
struct Header {
  std::string descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::uint64_t>> shape;
};

/** Parses a header: a Python dict of the three entries, in any order. */
class HeaderParser {
 public:
  HeaderParser(const ByteReader& file, std::string_view text) : file_(file), text_(text) {}

  Header parse() {
    need('{');
    while (!skip('}')) {
      entry();
      if (!skip(',')) {
        need('}');
        break;
      }
    }
    space();
    if (!text_.empty()) bad();
    if (header_.descr.empty() || !header_.fortran_order || !header_.shape) bad();
    return header_;
  }

 private:
  [[noreturn]] void bad() const {
    refuse(file_, "the header is no description of an array",
           text_.empty() ? "its end" : str("\"", text_.substr(0, 24), "\""),
           "descr, fortran_order and shape");
  }
  void space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  bool skip(char c) {
    space();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void need(char c) {
    if (!skip(c)) bad();
  }
  bool word(std::string_view w) {
    space();
    if (!text_.starts_with(w)) return false;
    text_.remove_prefix(w.size());
    return true;
  }
  std::string quoted() {
    space();
    const char quote = text_.empty() ? '\0' : text_[0];
    const std::size_t end = text_.empty() ? std::string_view::npos : text_.find(quote, 1);
    if ((quote != '\'' && quote != '"') || end == std::string_view::npos) bad();
    const std::string out(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return out;
  }
  std::uint64_t number() {
    space();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc{}) bad();
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }
  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> sizes;
    need('(');
    while (!skip(')')) {
      sizes.push_back(number());
      if (!skip(',')) {
        need(')');
        break;
      }
    }
    return sizes;
  }
  void entry() {
    const std::string key = quoted();
    need(':');
    if (key == "descr" && header_.descr.empty()) {
      if (!text_.empty() && (skip('[') || skip('('))) refuse(file_, "records are not supported");
      header_.descr = quoted();
    } else if (key == "fortran_order" && !header_.fortran_order) {
      header_.fortran_order = word("True");
      if (!*header_.fortran_order && !word("False")) bad();
    } else if (key == "shape" && !header_.shape) {
      header_.shape = tuple();
    } else {
      bad();
    }
  }

  const ByteReader& file_;
  std::string_view text_;
  Header header_;
};

const Stored& stored_of(const ByteReader& file, const std::string& descr) {
  for (const Stored& stored : kStored)
    if (descr == stored.descr) return stored;
  refuse(file, "the dtype is not supported", descr,
         "|b1, |u1, |i1, <i2, <i4, <i8, <f2, <f4 or <f8");
}

/** Returns the shape, outermost dimension of the memory first. */
Shape memory_shape(const ByteReader& file, const Header& header) {
  const std::vector<std::uint64_t>& sizes = *header.shape;
  if (sizes.size() > static_cast<std::size_t>(Shape::kMaxRank))
    refuse(file, "too many dimensions", str(sizes.size()), str("at most ", Shape::kMaxRank));
  if (!checked_numel(sizes)) refuse(file, "the shape is too large");
  Shape shape;
  for (const std::uint64_t size : sizes) shape.push_back(static_cast<std::int64_t>(size));
  if (*header.fortran_order)
    for (int i = 0; i < shape.rank() / 2; ++i) std::swap(shape[i], shape[shape.rank() - 1 - i]);
  return shape;
}

/** Reads the elements as they are stored. */
Tensor elements(const ByteReader& file, std::uint64_t at, const Shape& shape,
                const Stored& stored) {
  Tensor out = empty_tensor(shape, stored.dtype, cpu);
  const auto n = static_cast<std::size_t>(out.numel());
  if (stored.bytes == item_size(stored.dtype)) {
    file.read(at, out.raw_data(), n * stored.bytes);
    if (stored.dtype == DType::boolean)
      for (std::size_t i = 0; i < n; ++i) {
        auto* bytes = static_cast<unsigned char*>(out.raw_data());
        bytes[i] = bytes[i] != 0;
      }
    return out;
  }
  const std::vector<std::byte> raw = file.bytes(at, n * stored.bytes);
  auto* to = out.data<std::int32_t>();
  for (std::size_t i = 0; i < n; ++i) {
    std::int16_t wide = 0;
    if (stored.bytes == 1)
      wide = static_cast<std::int8_t>(raw[i]);
    else
      std::memcpy(&wide, raw.data() + 2 * i, 2);
    to[i] = wide;
  }
  return out;
}

}  // namespace

std::string npy_header(const char* op, const Tensor& x) {
  if (!x.defined()) fail<ValueError>(op, {.what = "the tensor is undefined"});
  const Stored* stored = nullptr;
  for (const Stored& candidate : kStored)
    if (!stored && candidate.dtype == x.dtype()) stored = &candidate;
  if (!stored)
    fail<DtypeError>(
        op, {.what = "NumPy has no such dtype", .got = str(x), .hint = "cast with x.to(f32)"});
  std::string sizes;
  for (const std::int64_t size : x.shape()) sizes += (sizes.empty() ? "" : ", ") + str(size);
  if (x.dim() == 1) sizes += ",";
  std::string text =
      str("{'descr': '", stored->descr, "', 'fortran_order': False, 'shape': (", sizes, "), }");
  // NumPy leaves room for a larger first size, and ends the header at a multiple of 64.
  if (x.dim() > 0) text.append(21 - str(x.size(0)).size(), ' ');
  constexpr std::size_t kBefore = 10, kAlign = 64;
  text.append(kAlign - (kBefore + text.size() + 1) % kAlign, ' ');
  text += '\n';
  const std::string version("\1\0", 2);
  return std::string(kMagic) + version + static_cast<char>(text.size() & 255) +
         static_cast<char>(text.size() >> 8) + text;
}

Tensor read_npy(const ByteReader& file) {
  unsigned char start[12];
  file.read(0, start, 10);
  if (std::memcmp(start, kMagic.data(), kMagic.size()) != 0)
    refuse(file, "not a .npy file", "other bytes at byte 0", "93 NUMPY");
  if (start[6] < 1 || start[6] > 3)
    refuse(file, "unknown version", str(int{start[6]}), "1, 2 or 3");
  const std::uint64_t at = start[6] == 1 ? 10 : 12;
  file.read(0, start, at);
  std::uint64_t length = start[8] | std::uint64_t{start[9]} << 8;
  if (at == 12) length |= std::uint64_t{start[10]} << 16 | std::uint64_t{start[11]} << 24;
  if (length > kMostHeader)
    refuse(file, "the header is too long", str(length), str("at most ", kMostHeader, " bytes"));
  const std::vector<std::byte> text = file.bytes(at, length);
  const Header header =
      HeaderParser(file, {reinterpret_cast<const char*>(text.data()), text.size()}).parse();
  const Stored& stored = stored_of(file, header.descr);
  const Shape shape = memory_shape(file, header);
  const std::uint64_t rest = file.size() - at - length, numel = *checked_numel(*header.shape);
  if (rest != numel * stored.bytes)
    refuse(file, "the size does not fit the shape", str(rest, " bytes of elements"),
           str(numel * stored.bytes));
  const Tensor out = elements(file, at + length, shape, stored);
  if (!*header.fortran_order) return out;
  std::vector<std::int64_t> reversed;
  for (int i = shape.rank(); i-- > 0;) reversed.push_back(i);
  return out.permute(reversed).contiguous();
}

}  // namespace io

void save_npy(const std::string& path, const Tensor& x) {
  const std::string header = io::npy_header("save_npy", x);
  const GradMode no_grad(false);
  const Tensor content = x.to(cpu).contiguous();
  io::AtomicFile file("save_npy", path);
  file.write(header);
  file.write(std::span(static_cast<const std::byte*>(content.raw_data()),
                       static_cast<std::size_t>(content.numel()) * item_size(content.dtype())));
  file.commit();
}

Tensor load_npy(const std::string& path) {
  const GradMode no_grad(false);
  return io::read_npy(io::ByteReader("load_npy", path));
}

}  // namespace mezzo
