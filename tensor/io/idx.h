// IDX files, the format of MNIST: images as u8 [N, rows, cols], labels as u8 [N]; gzip or not.
// Sees: tensor.
// Read next: idx.cpp.
#pragma once

#include <string>

#include "../tensor.h"

namespace mezzo {

/** The images of an IDX file (magic 00 00 08 03, big-endian count, rows, cols, then bytes row by row), u8 [N, rows, cols]; gzip is seen by its
 *  first bytes. Errors: IoError; FormatError with offset and reason for a wrong magic, a size of 0, a length that is not exactly what the sizes
 *  say, damaged gzip; Unsupported for gzip in a build without zlib. */
MZ_API Tensor load_idx_images(const std::string& path);

/** The labels of an IDX file (magic 00 00 08 01, big-endian count, then bytes), u8 [N]. Errors: as load_idx_images. */
MZ_API Tensor load_idx_labels(const std::string& path);

/** Images and their labels. */
struct ImagesAndLabels {
  Tensor images;  // u8 [N, rows, cols]
  Tensor labels;  // u8 [N]
};

/** Both files of a data set. Errors: as above, and FormatError when the counts differ. */
MZ_API ImagesAndLabels load_idx(const std::string& images_path, const std::string& labels_path);

}  // namespace mezzo
