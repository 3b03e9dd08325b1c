// Writes tensors as image files.
#pragma once

#include <mezzo.h>

#include <string>

namespace samples {

/** Writes grey images [N,1,H,W] with values in -1..1 as a grid with `columns` columns, separated by
 *  lines of background, in a PGM file. Errors: IoError with the path; ShapeError. */
void write_grid(const std::string& path, const mezzo::Tensor& images, std::int64_t columns);

}  // namespace samples
