// Reads IDX files, the format of MNIST: images as u8 [N, rows, cols], labels as u8 [N]; with or
// without gzip.
#pragma once

#include <string>

#include "../core/tensor.h"

namespace mezzo {

/** Returns the images of an IDX file (magic 00 00 08 03, big-endian count, rows, cols, then bytes
 *  row by row) as u8 [N, rows, cols]. Gzip is detected by its first bytes. Errors: IoError;
 *  FormatError with offset and reason for a wrong magic number, a size of 0, a length that differs
 *  from that of the sizes, or damaged gzip; Unsupported for gzip in a build without zlib. */
MZ_API Tensor load_idx_images(const std::string& path);

/** Returns the labels of an IDX file (magic 00 00 08 01, big-endian count, then bytes) as u8 [N].
 *  Errors: as load_idx_images. */
MZ_API Tensor load_idx_labels(const std::string& path);

/** Images and their labels. */
struct ImagesAndLabels {
  Tensor images;  // u8 [N, rows, cols]
  Tensor labels;  // u8 [N]
};

/** Returns the images and labels of a data set. Errors: as above, and FormatError if the counts
 *  differ. */
MZ_API ImagesAndLabels load_idx(const std::string& images_path, const std::string& labels_path);

}  // namespace mezzo
