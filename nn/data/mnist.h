// Reader for MNIST and other data sets in its IDX files (Fashion-MNIST, KMNIST, ...).
// See also: tensor/io/idx.h (the format).
#pragma once

#include <string>

#include "dataset.h"

namespace mezzo::data {

/** Reads MNIST's IDX files from a directory, with or without .gz: train-images-idx3-ubyte and
 *  train-labels-idx1-ubyte for training, t10k-... for testing. x is f32 [N,1,28,28], y is i64 [N].
 *  If only the t10k pair exists, its first four fifths (8,000) are for training and the rest
 *  (2,000) for testing, in file order, and the notice says so.
 *  Errors: IoError that lists the expected files; FormatError as load_idx(), and for a t10k pair
 *  too small to split; Unsupported for .gz in a build without zlib. */
MZ_API Split mnist(const std::string& directory, const ImageOptions& options = {});

}  // namespace mezzo::data
