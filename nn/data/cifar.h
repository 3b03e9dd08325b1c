// Reader for the binary version of CIFAR-10.
#pragma once

#include <string>

#include "dataset.h"

namespace mezzo::data {

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

}  // namespace mezzo::data
