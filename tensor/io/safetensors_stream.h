// Safetensors as bytes: written to whatever takes bytes, read from a file that is open already. save_tensors and load_tensors are made of these.
// Sees: byte_reader.h, safetensors.h.
// Read next: safetensors_write.cpp, safetensors_read.cpp.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "byte_reader.h"
#include "safetensors.h"

namespace mezzo::io {

/** Takes the bytes of a file, piece by piece. */
using ByteSink = std::function<void(std::span<const std::byte>)>;

/** Checks everything, then hands the whole file to the sink. `subject` is that of errors, which are those of save_tensors() but for IoError.
 *  `ready` is called between the two. */
void write_tensors(const std::string& subject, const NamedTensors& tensors, const TensorMetadata& metadata,
                   const std::function<ByteSink()>& ready);

/** load_tensors() from an open file. */
LoadedTensors read_tensors(const ByteReader& file, const LoadTensorsOptions& options = {});

}  // namespace mezzo::io
