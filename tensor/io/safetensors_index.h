// Tensors in several safetensors files with an index, as the Hugging Face hub stores large models.
#pragma once

#include "safetensors.h"

namespace mezzo::io {

/** Returns whether a path names an index of safetensors files: it ends with ".index.json". */
bool is_index(std::string_view path);

/** Reads all tensors of an index and of the files beside it, in the order of the index. Metadata is
 *  that of the first file. Errors: as load_tensors(); FormatError for an index that is no object
 *  with a "weight_map", for a file name that leads out of the folder, and for tensors that an index
 *  and its files do not both have. Source: huggingface.co/docs/safetensors, model.safetensors.
 *  index.json. */
LoadedTensors read_index(const std::string& path, const LoadTensorsOptions& options);

}  // namespace mezzo::io
