// save_tensors: writes files with the same bytes as the Python package, atomically.
#include <algorithm>
#include <optional>

#include "../core/dispatch.h"
#include "../text/text.h"
#include "atomic_file.h"
#include "safetensors.h"
#include "safetensors_header.h"
#include "safetensors_stream.h"
#include "utf8.h"

namespace mezzo {

namespace {

using io::append_json_string;
using io::kFileDTypes;
using io::quote;

using NamedEntry = NamedTensors::value_type;

/** Returns the index of the dtype in the format's order. */
std::size_t rank_of(DType dtype) {
  std::size_t rank = 0;
  while (kFileDTypes[rank].tensor != dtype || kFileDTypes[rank].bytes != item_size(dtype)) ++rank;
  return rank;
}

void require_text(const std::string& subject, std::string_view what, const std::string& text) {
  const std::size_t at = io::find_non_utf8(text);
  if (at != std::string::npos)
    fail<ValueError>(
        subject, {.what = str(what, " is not UTF-8"), .got = str("a bad byte at position ", at)});
}

/** Throws if `got` is more than `most`. Errors: ValueError. */
void limit(const std::string& subject, std::uint64_t most, std::uint64_t got, const char* unit,
           const char* what) {
  if (got <= most) return;
  const std::string expected = str("at most ", most);
  fail<ValueError>(subject, {.what = what, .got = str(got, unit), .expected = expected});
}

void require_valid(const std::string& subject, const NamedTensors& tensors,
                   const TensorMetadata& metadata) {
  limit(subject, io::kMostTensors, tensors.size(), " tensors", "there are too many tensors");
  std::uint64_t name_bytes = 0;
  for (const auto& [name, x] : tensors) {
    name_bytes += name.size();
    require_text(subject, "a name", name);
    if (name == io::kMetadataKey)
      fail<ValueError>(
          subject,
          {.what = "no tensor may have this name", .got = quote(name), .expected = "another name"});
    if (!x.defined())
      fail<ValueError>(
          subject, {.what = "a tensor is undefined", .got = quote(name), .expected = "a tensor"});
  }
  std::uint64_t bytes = 0;
  for (const auto& [key, value] : metadata) {
    require_text(subject, "a metadata key", key);
    require_text(subject, "a metadata value", value);
    bytes += key.size() + value.size();
  }
  limit(subject, io::kMostNameBytes, name_bytes, " bytes", "the names are too long");
  limit(subject, io::kMostMetadataBytes, bytes, " bytes", "the metadata is too large");
}

/** Returns the entries in the order of the file. Errors: ValueError for a name that occurs
 *  twice. */
std::vector<const NamedEntry*> in_file_order(const std::string& subject,
                                             const NamedTensors& tensors) {
  std::vector<const NamedEntry*> order;
  for (const NamedEntry& entry : tensors) order.push_back(&entry);
  std::sort(order.begin(), order.end(),
            [](const NamedEntry* a, const NamedEntry* b) { return a->first < b->first; });
  const auto twice = std::adjacent_find(
      order.begin(), order.end(),
      [](const NamedEntry* a, const NamedEntry* b) { return a->first == b->first; });
  if (twice != order.end())
    fail<ValueError>(subject, {.what = "a name occurs twice",
                               .got = quote((*twice)->first),
                               .expected = "each name once"});
  std::stable_sort(order.begin(), order.end(), [](const NamedEntry* a, const NamedEntry* b) {
    return rank_of(a->second.dtype()) < rank_of(b->second.dtype());
  });
  return order;
}

std::string header_text(const std::vector<const NamedEntry*>& order,
                        const TensorMetadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    append_json_string(text, io::kMetadataKey);
    text += ":{";
    for (const auto& [key, value] : metadata) {
      if (text.back() != '{') text += ',';
      append_json_string(text, key);
      text += ':';
      append_json_string(text, value);
    }
    text += '}';
  }
  std::uint64_t at = 0;
  for (const NamedEntry* entry : order) {
    const Tensor& x = entry->second;
    const std::uint64_t end = at + static_cast<std::uint64_t>(x.numel()) * item_size(x.dtype());
    if (text.size() > 1) text += ',';
    append_json_string(text, entry->first);
    text += str(":{\"dtype\":\"", kFileDTypes[rank_of(x.dtype())].name, "\",\"shape\":", x.shape(),
                ",\"data_offsets\":[", at, ",", end, "]}");
    at = end;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

void io::write_tensors(const std::string& subject, const NamedTensors& tensors,
                       const TensorMetadata& metadata, const std::function<ByteSink()>& ready) {
  require_valid(subject, tensors, metadata);
  const std::vector<const NamedEntry*> order = in_file_order(subject, tensors);
  const std::string text = header_text(order, metadata);
  limit(subject, io::kMostHeaderBytes, text.size(), " bytes", "the header is too large");
  const CastScope no_casts(nullptr);
  const ByteSink sink = ready();
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  sink(std::as_bytes(std::span(length)));
  sink(std::as_bytes(std::span(text)));
  for (const NamedEntry* entry : order) {
    const Tensor x = entry->second.detach().to(cpu).contiguous();
    sink({static_cast<const std::byte*>(x.raw_data()),
          static_cast<std::size_t>(x.numel()) * item_size(x.dtype())});
  }
}

void save_tensors(const std::string& path, const NamedTensors& tensors,
                  const TensorMetadata& metadata) {
  constexpr std::string_view kOperation = "save_tensors";
  std::optional<io::AtomicFile> file;
  io::write_tensors(str(kOperation, "(", path, ")"), tensors, metadata, [&]() -> io::ByteSink {
    file.emplace(kOperation, path);
    return [&file](std::span<const std::byte> bytes) { file->write(bytes); };
  });
  file->commit();
}

}  // namespace mezzo
