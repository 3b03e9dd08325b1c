// Reads images from PNG and JPEG files.
#pragma once

#include <string>

#include "../core/tensor.h"

namespace mezzo {

/** Reads a PNG or JPEG file as red, green and blue: u8 [3,H,W] on the CPU. The content decides
 * which it is, not the name. Grey images have three equal channels; CMYK
 * is converted without a colour profile, as Pillow does; transparency is left out; 16
 * bits are reduced to 8. At most 2^28 pixels. Errors: IoError naming path and cause; FormatError
 * with the decoder's reason for other, damaged and truncated files; Unsupported in a build without
 * the decoder, naming its option. */
MZ_API Tensor load_image(const std::string& path);

}  // namespace mezzo
