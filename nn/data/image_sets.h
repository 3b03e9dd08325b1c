// Data sets of images: MNIST and others in its IDX files, CIFAR-10, and drawn digits.
// See also: tensor/io/idx.h (the format of MNIST's files).
#pragma once

#include <cstdint>
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

/** Options of cifar10(). */
struct CifarOptions {
  /** Normalises each channel by the mean and deviation of the training images; off: values in
   *  0..1. */
  bool normalise = true;
};

/** Reads CIFAR-10 from a directory: the training set from those of data_batch_1.bin to
 *  data_batch_5.bin that exist, and the test set from test_batch.bin. A record is a label byte and
 *  3 x 32 x 32 bytes of red, green and blue. x is f32 [N,3,32,32], y is i64 [N] in 0..9.
 *  Errors: IoError that lists the expected files; FormatError that names the file, for an empty
 *  file, an incomplete record, and a label above 9. */
MZ_API Split cifar10(const std::string& directory, const CifarOptions& options = {});

/** Returns n images that resemble handwritten digits. Each is drawn along strokes that are randomly
 *  jittered, slanted, stretched and moved, with noise added. x is f32 [n,1,28,28] with bright ink;
 *  y is i64 [n] in 0..9. Digit i depends on (seed, i) only, so it is independent of n and of the
 *  number of threads. Errors: ValueError unless n >= 1. */
MZ_API Dataset synthetic_digits(std::int64_t n, std::uint64_t seed = 0,
                                const ImageOptions& options = {});

}  // namespace mezzo::data
