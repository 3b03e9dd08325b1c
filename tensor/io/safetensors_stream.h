// Safetensors as bytes: written to a sink, or read from an open file. save_tensors and load_tensors
// use these functions.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "byte_reader.h"
#include "safetensors.h"

namespace mezzo::io {

/** Receives the bytes of a file in chunks. */
using ByteSink = std::function<void(std::span<const std::byte>)>;

/** Checks everything, calls `ready`, and writes the whole file to the sink that it returns.
 *  `subject` is the subject of errors, which are those of save_tensors() except IoError. */
void write_tensors(const std::string& subject, const NamedTensors& tensors,
                   const TensorMetadata& metadata, const std::function<ByteSink()>& ready);

/** Reads tensors like load_tensors(), from an open file. */
LoadedTensors read_tensors(const ByteReader& file, const LoadTensorsOptions& options = {});

/** Returns whether a path names an index of safetensors files: it ends with ".index.json". */
bool is_index(std::string_view path);

/** Reads all tensors of an index and of the files beside it, in the order of the index. Metadata is
 *  that of the first file. Errors: as load_tensors(); FormatError for an index that is no object
 *  with a "weight_map", for a file name that leads out of the folder, and for tensors that an index
 *  and its files do not both have. Source: huggingface.co/docs/safetensors, model.safetensors.
 *  index.json. */
LoadedTensors read_index(const std::string& path, const LoadTensorsOptions& options);

}  // namespace mezzo::io
