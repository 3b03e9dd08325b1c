// Reads and writes NumPy's files: one array as .npy, several by name as .npz.
#pragma once

#include <string>

#include "../core/tensor.h"
#include "safetensors.h"

namespace mezzo {

/** Writes a tensor as numpy.save() does, byte for byte as NumPy 2. The file is written completely
 *  or not at all. The tensor may be strided and on any device. Errors: DtypeError for bf16, which
 *  NumPy has not; ValueError for an undefined tensor; IoError naming path and cause. */
MZ_API void save_npy(const std::string& path, const Tensor& x);

/** Reads a .npy file of version 1, 2 or 3, in C or Fortran order, as a row-major CPU tensor.
 * Dtypes: bool, u1, i4, i8, f2, f4, f8, and i1 and i2, which become i32; little-endian. Errors:
 * IoError naming path and cause; FormatError with the reason, before the tensor is allocated. */
MZ_API Tensor load_npy(const std::string& path);

/** Writes tensors as numpy.savez() does: an uncompressed zip archive of NAME.npy. The file is
 * written completely or not at all. Errors: ValueError for an empty name, or one that occurs twice;
 *  SizeError for a file above 4 GiB or more than 65534 tensors; those of save_npy(). */
MZ_API void save_npz(const std::string& path, const NamedTensors& tensors);

/** Reads what numpy.savez() and savez_compressed() write: the arrays under their names without
 *  ".npy", in the order of the archive. Sizes and checksums are verified; names are never used as
 *  paths. Errors: as load_npy(); FormatError for other archives, also encrypted ones; Unsupported
 *  for compressed entries in a build without zlib. */
MZ_API NamedTensors load_npz(const std::string& path);

}  // namespace mezzo
