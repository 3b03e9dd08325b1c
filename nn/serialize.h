// Weights in a file: what is trained here opens in Python, and the other way round.
// Sees: module.h.
// Read next: ../tensor/io/safetensors.h (the format).
#pragma once

#include <string>

#include "../tensor/io/safetensors.h"
#include "module.h"

namespace mezzo {

/** Writes every parameter and buffer to a safetensors file under PyTorch's names: f16 and bf16 widened to f32 (exactly; at levels with master
 *  weights the masters), others as they are, a tensor of several names once under its first. The file appears whole or not at all.
 *  `metadata` joins {"format": "pt"}.   Errors: IoError; Unsupported in a build without JSON. */
MZ_API void save(const std::string& path, const nn::Module& module, const TensorMetadata& metadata = {});

/** What save() writes, in memory: tensors may share the module's. */
MZ_API NamedTensors saved_tensors(const nn::Module& module);

/** Reads such a file into a module, converting to its dtypes and devices.
 *  Errors: those of load_tensors(); ValueError naming the file that lists all missing, unexpected and misshapen names. Nothing is written then. */
MZ_API nn::LoadReport load(const std::string& path, const nn::Module& module,
                           const nn::LoadOptions& options = {});

}  // namespace mezzo
