// Saves and loads a module's weights in safetensors files, which PyTorch can read and write.
// See also: tensor/io/safetensors.h (the format).
#pragma once

#include <string>

#include "../tensor/io/safetensors.h"
#include "module.h"

namespace mezzo {

/** Writes every parameter and buffer to a safetensors file under PyTorch's names. f16 and bf16
 *  tensors are converted to f32, which is exact; with master weights, the masters are written. A
 *  tensor with several names is written once under its first name. The file is complete or absent.
 *  `metadata` is added to {"format": "pt"}.
 *  Errors: IoError; Unsupported in a build without JSON. */
MZ_API void save(const std::string& path, const nn::Module& module,
                 const TensorMetadata& metadata = {});

/** Returns the tensors that save() writes. They may share memory with the module's. */
MZ_API NamedTensors saved_tensors(const nn::Module& module);

/** Returns the tensors of a safetensors file, or of an index of several, by name; see
 *  load_tensors(). Errors: those of load_tensors(). */
MZ_API nn::StateDict load_state_dict(const std::string& path);

/** Reads a safetensors file, or an index of several, into a module and converts to its dtypes and
 *  devices.
 *  Errors: those of load_tensors(); ValueError that names the file and lists all missing and
 *  unexpected names and wrong shapes, and for a `skip` or `rename` that no name begins with.
 *  Nothing is written on error. */
MZ_API nn::LoadReport load(const std::string& path, const nn::Module& module,
                           const nn::LoadOptions& options = {});

}  // namespace mezzo
