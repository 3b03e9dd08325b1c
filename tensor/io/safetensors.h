// Named tensors in a safetensors file: weights that open in Python, and the other way round.
// Sees: tensor.
// Read next: safetensors_header.h (the format's rules), safetensors_read.cpp, safetensors_write.cpp.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../tensor.h"

namespace mezzo {

/** Tensors by name, in an order that means something to whoever made it. */
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/** Free text beside the tensors, such as {"format", "pt"}, which some loaders demand. */
using TensorMetadata = std::map<std::string, std::string>;

/** What a file holds. */
struct LoadedTensors {
  NamedTensors tensors;  // in the order of the file's header, on the CPU
  TensorMetadata metadata;
};

struct LoadTensorsOptions {
  bool check_finite = false;  // refuse files that hold nan or infinity
};

/** Writes the tensors as one safetensors file, byte for byte what the Python package writes for the same content (one metadata key; several are
 *  written in order of their names). The file appears whole or not at all: on any failure the old one stays.
 *  Tensors may be strided and on any device; two that share memory are both written.
 *  Errors: ValueError for a name that occurs twice, is "__metadata__" or is not UTF-8, an undefined tensor, too large a header; IoError naming path
 *  and cause. */
MZ_API void save_tensors(const std::string& path, const NamedTensors& tensors,
                         const TensorMetadata& metadata = {});

/** Reads a safetensors file by strict rules: nothing in it is ambiguous, ignored or out of place. I8 and I16, which tensors do not have, become i32.
 *  Errors: IoError naming path and cause; FormatError with offset and reason, before any tensor is allocated where the header shows it;
 *  Unsupported in a build without JSON. */
MZ_API LoadedTensors load_tensors(const std::string& path, const LoadTensorsOptions& options = {});

}  // namespace mezzo
