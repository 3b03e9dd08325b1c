// Reads safetensors headers: framing, strict JSON, and a layout without gaps.
#include "safetensors_header.h"

#include <algorithm>

#include "../core/error.h"
#include "../text/text.h"
#include "json_text.h"
#include "safetensors_listener.h"
#include "utf8.h"

namespace mezzo::io {

namespace {

/** Returns the start of a string, number or blank of more than `most` bytes; npos if there is
 *  none. */
std::size_t find_long_token(std::string_view text, std::size_t most) {
  std::size_t begin = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i - begin > most) return begin;
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
      begin = i;
    } else if (!in_string && std::string_view("{}[]:,").find(text[i]) != std::string_view::npos) {
      begin = i;
    }
  }
  return text.size() - begin > most ? begin : std::string_view::npos;
}

void require_short_tokens(const ByteReader& file, std::string_view text, std::uint64_t start) {
  if (text.size() <= kMostTokenBytes) return;
  if (const std::size_t at = find_long_token(text, kMostTokenBytes); at != std::string_view::npos)
    fail<FormatError>(file.subject(), {.what = "a string, number or blank is too long",
                                       .got = str("one at byte ", start + at),
                                       .expected = str("at most ", kMostTokenBytes, " bytes")});
}

void require_distinct_names(const ByteReader& file, const FileHeader& header) {
  std::vector<const std::string*> names;
  names.reserve(header.entries.size());
  for (const FileEntry& entry : header.entries) names.push_back(&entry.name);
  std::sort(names.begin(), names.end(),
            [](const std::string* a, const std::string* b) { return *a < *b; });
  const auto twice =
      std::adjacent_find(names.begin(), names.end(),
                         [](const std::string* a, const std::string* b) { return *a == *b; });
  if (twice != names.end())
    fail<FormatError>(file.subject(), {.what = "a name occurs twice in the header at byte 8",
                                       .got = quote(**twice),
                                       .expected = "each name once"});
}

std::string offsets(const FileEntry& entry) {
  return str("data_offsets [", entry.begin, ",", entry.end, "]");
}

void require_right_size(const ByteReader& file, const FileEntry& entry) {
  std::uint64_t sizes[Shape::kMaxRank] = {};
  std::copy(entry.shape.begin(), entry.shape.end(), sizes);
  const std::optional<std::uint64_t> numel = checked_numel({sizes, entry.shape.size()});
  if (!numel)
    fail<FormatError>(file.subject(),
                      {.what = str("the shape of ", quote(entry.name), " is too large"),
                       .got = str(entry.shape),
                       .expected = "at most 2^59 elements"});
  const std::uint64_t bytes = *numel * entry.dtype->bytes;
  if (entry.end < entry.begin || entry.end - entry.begin != bytes)
    fail<FormatError>(file.subject(),
                      {.what = str("size of ", quote(entry.name), " is wrong"),
                       .got = str(offsets(entry), " for ", entry.dtype->name, entry.shape),
                       .expected = str(bytes, " bytes"),
                       .hint = "the file is damaged"});
}

/** Checks that the entries fill the buffer in the order of their offsets: no hole, no overlap,
 *  nothing after the last one. */
void require_full_buffer(const ByteReader& file, const FileHeader& header) {
  std::vector<const FileEntry*> order;
  order.reserve(header.entries.size());
  for (const FileEntry& entry : header.entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const FileEntry* a, const FileEntry* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  std::uint64_t at = 0;
  for (const FileEntry* entry : order) {
    if (entry->begin != at)
      fail<FormatError>(
          file.subject(),
          {.what = str(quote(entry->name),
                       entry->begin < at ? " overlaps another tensor" : " leaves a hole before it"),
           .got = str(offsets(*entry), ", at byte ", header.buffer + std::min(at, ~header.buffer),
                      " of the file"),
           .expected = str("a begin at ", at)});
    at = entry->end;
  }
  if (at != file.size() - header.buffer)
    fail<FormatError>(
        file.subject(),
        {.what = at > file.size() - header.buffer ? "the file is shorter than its tensors"
                                                  : "the file continues after its tensors",
         .got = str(file.size(), " bytes"),
         .expected = str("a buffer of ", at, " bytes from byte ", header.buffer, " on"),
         .hint = at > file.size() - header.buffer ? "the file is truncated" : ""});
}

/** Another format of weights, by its first bytes. */
struct OtherFormat {
  std::string_view magic, name, convert;
};

constexpr std::string_view kFromTorch =
    "convert it in Python: safetensors.torch.save_file(torch.load(\"x.pt\", weights_only=True), "
    "\"x.safetensors\")";
constexpr std::string_view kFromGguf =
    "convert it in Python: safetensors.numpy.save_file({t.name: gguf.quants.dequantize(t.data, "
    "t.tensor_type) for t in gguf.GGUFReader(\"x.gguf\").tensors}, \"x.safetensors\")";
constexpr std::string_view kFromHdf5 =
    "convert it in Python: d = {}; h5py.File(\"x.h5\").visititems(lambda n, v: d.update({n: "
    "v[()]}) "
    "if isinstance(v, h5py.Dataset) else None); safetensors.numpy.save_file(d, \"x.safetensors\")";
constexpr OtherFormat kOtherFormats[] = {
    {"PK\x03\x04", "a PyTorch file (.pt, .pth, .bin: a zip archive of pickled objects)",
     kFromTorch},
    {"\x80\x02", "a PyTorch file (.pt, .pth, .bin: pickled objects)", kFromTorch},
    {"GGUF", "a GGUF file (of llama.cpp)", kFromGguf},
    {"\x89HDF\r\n\x1a\n", "an HDF5 file (.h5, .hdf5, as Keras writes)", kFromHdf5},
    {"\x93NUMPY", "a NumPy file (.npy)", "use load_npy()"},
};

/** Throws FormatError for a file of another known format. */
void refuse_other_formats(const ByteReader& file) {
  const std::uint64_t size = std::min<std::uint64_t>(file.size(), 64);
  const std::vector<std::byte> bytes = file.bytes(0, size);
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const OtherFormat& format : kOtherFormats)
    if (start.starts_with(format.magic)) {
      // The name of an archive's first member stands in its first bytes.
      const bool numpy =
          format.magic.starts_with("PK") && start.find(".npy") != std::string_view::npos;
      fail<FormatError>(file.subject(),
                        {.what = "this is not a safetensors file",
                         .got = std::string(numpy ? "a NumPy archive (.npz)" : format.name),
                         .expected = "safetensors",
                         .hint = std::string(numpy ? "use load_npz()" : format.convert)});
    }
}

}  // namespace

FileHeader read_header(const ByteReader& file) {
  require_json(file.subject(), "safetensors files");
  constexpr std::uint64_t kPrefix = 8;
  // The first bytes are a length, which may look like another format's.
  if (file.size() < kPrefix ||
      file.little_u64(0) > std::min(kMostHeaderBytes, file.size() - kPrefix))
    refuse_other_formats(file);
  const std::uint64_t length = file.little_u64(0);
  if (length > kMostHeaderBytes)
    fail<FormatError>(file.subject(), {.what = "the header's length at byte 0 is impossible",
                                       .got = str(length),
                                       .expected = str("at most ", kMostHeaderBytes),
                                       .hint = "this is not a safetensors file"});
  if (length > file.size() - kPrefix)
    fail<FormatError>(file.subject(), {.what = "the header is longer than the file",
                                       .got = str("a header of ", length,
                                                  " bytes at byte 8 in a file of ", file.size()),
                                       .hint = "the file is truncated"});
  FileHeader header;
  header.buffer = kPrefix + length;
  const std::vector<std::byte> text = file.bytes(kPrefix, length);
  const std::string_view json(reinterpret_cast<const char*>(text.data()), text.size());
  require_short_tokens(file, json, kPrefix);
  HeaderListener listener(header);
  parse_json(file, json, kPrefix, "the header", listener);
  require_distinct_names(file, header);
  for (const FileEntry& entry : header.entries) require_right_size(file, entry);
  require_full_buffer(file, header);
  return header;
}

}  // namespace mezzo::io
