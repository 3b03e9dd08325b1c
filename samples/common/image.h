// Pictures of tensors.
// Sees: mezzo.h.
// Read next: ../dcgan.cpp.
#pragma once

#include <mezzo.h>

#include <string>

namespace samples {

/** Writes grey images [N,1,H,W] with values in -1..1 as one PGM file, `columns` side by side, a line of background between them.
 *  Errors: IoError, naming the path; ShapeError. */
void write_grid(const std::string& path, const mezzo::Tensor& images, std::int64_t columns);

}  // namespace samples
