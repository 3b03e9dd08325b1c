// CIFAR-10 in its binary version.
// Sees: dataset.h.
// Read next: cifar.cpp (the format), mnist.h.
#pragma once

#include <string>

#include "dataset.h"

namespace mezzo::data {

struct CifarOptions {
  bool normalise =
      true;  // each channel by the mean and deviation of the training images; off: values in 0..1
};

/** Reads data_batch_1.bin to data_batch_5.bin, as many of them as there are, to train on and test_batch.bin to test on from a directory: records of a label
 *  byte and 3 x 32 x 32 bytes of red, green and blue. x is f32 [N,3,32,32], y is i64 [N] in 0..9.
 *  Errors: IoError naming what was looked for; FormatError, naming the file, for one that is empty or ends within a record, and for a label above 9. */
MZ_API Split cifar10(const std::string& directory, const CifarOptions& options = {});

}  // namespace mezzo::data
