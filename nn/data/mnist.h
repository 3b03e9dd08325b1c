// MNIST, and whatever else comes as its IDX files (Fashion-MNIST, KMNIST, ...).
// Sees: dataset.h.
// Read next: ../../tensor/io/idx.h (the format), digits.h (what to use without files).
#pragma once

#include <string>

#include "dataset.h"

namespace mezzo::data {

/** Reads MNIST's IDX files from a directory, with or without .gz: train-images-idx3-ubyte, train-labels-idx1-ubyte, and t10k-... to test on.
 *  x is f32 [N,1,28,28], y is i64 [N]. Where only the t10k pair is there, its first four fifths (8,000) are for training and the rest (2,000)
 *  for testing, in file order, and the notice says so.
 *  Errors: IoError naming what was looked for; FormatError as load_idx(), and for a t10k pair too small to split; Unsupported for .gz in a build
 *  without zlib. */
MZ_API Split mnist(const std::string& directory, const ImageOptions& options = {});

}  // namespace mezzo::data
