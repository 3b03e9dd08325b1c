// Reads and writes named tensors as safetensors files, the format of the Python package.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../core/tensor.h"

namespace mezzo {

/** Tensors by name; the caller chooses the order. */
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/** Metadata as strings, such as {"format", "pt"}, which some loaders require. */
using TensorMetadata = std::map<std::string, std::string>;

/** The content of a file. */
struct LoadedTensors {
  NamedTensors tensors;     // in the order of the file's header, on the CPU
  TensorMetadata metadata;  // the header's "__metadata__"; empty if the file has none
};

/** Options of load_tensors(). */
struct LoadTensorsOptions {
  bool check_finite = false;  // reject files that contain nan or infinity
};

/** Writes the tensors as one safetensors file, byte for byte as the Python package writes the same
 *  content (with one metadata key; several are written in order of their names). The file is
 *  written completely or not at all: on any failure the old one stays. Tensors may be strided and
 *  on any device; two that share memory are both written. Errors: ValueError for a name that occurs
 *  twice, is "__metadata__" or is not UTF-8, for an undefined tensor, and for a header that is too
 *  large; IoError naming path and cause. */
MZ_API void save_tensors(const std::string& path, const NamedTensors& tensors,
                         const TensorMetadata& metadata = {});

/** Reads a safetensors file and rejects everything ambiguous, unknown or misplaced in it. I8 and
 *  I16, which are not dtypes of tensors, become i32. A path that ends with ".index.json" is an
 *  index of several files, as the Hugging Face hub has for large models: all of them are read, and
 *  tensors that the index and the files do not both have are an error. Errors: IoError naming path
 * and cause; FormatError with offset and reason, before any tensor is allocated if the error is in
 * the header; Unsupported in a build without JSON. */
MZ_API LoadedTensors load_tensors(const std::string& path, const LoadTensorsOptions& options = {});

}  // namespace mezzo
