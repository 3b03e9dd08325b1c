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

}  // namespace mezzo::io
