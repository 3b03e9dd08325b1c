// The .npy format in memory. Private to tensor/io/.
#pragma once

#include <string>

#include "../core/tensor.h"
#include "byte_reader.h"

namespace mezzo::io {

/** Returns what precedes the elements of a tensor in a .npy file. Errors: DtypeError,
 *  ValueError, as save_npy(); they name `op`. */
std::string npy_header(const char* op, const Tensor& x);

/** Reads a .npy file. Errors: FormatError. */
Tensor read_npy(const ByteReader& file);

}  // namespace mezzo::io
