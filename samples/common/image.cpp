#include "image.h"

#include <algorithm>
#include <cmath>
#include <fstream>

namespace samples {

using namespace mezzo;

void write_grid(const std::string& path, const Tensor& images, std::int64_t columns) {
  if (images.dim() != 4 || images.size(1) != 1)
    fail<ShapeError>("write_grid",
                     {.what = "expected grey images", .got = str(images), .expected = "[N,1,H,W]"});
  const Tensor pixels = images.to(f32).to(cpu).contiguous();
  const std::int64_t count = pixels.size(0), height = pixels.size(2), width = pixels.size(3);
  const std::int64_t rows = (count + columns - 1) / columns;
  const std::int64_t all_rows = rows * (height + 1) - 1, all_columns = columns * (width + 1) - 1;
  std::string grid(static_cast<std::size_t>(all_rows * all_columns), '\0');
  const auto* value = pixels.data<float>();
  for (std::int64_t n = 0; n < count; ++n)
    for (std::int64_t r = 0; r < height; ++r)
      for (std::int64_t c = 0; c < width; ++c, ++value) {
        const float grey = std::clamp((*value + 1) * 127.5f, 0.0f, 255.0f);  // of NaN: NaN
        const std::int64_t row = n / columns * (height + 1) + r,
                           column = n % columns * (width + 1) + c;
        grid[static_cast<std::size_t>(row * all_columns + column)] =
            static_cast<char>(std::isnan(grey) ? 0 : static_cast<unsigned char>(grey + 0.5f));
      }
  std::ofstream file(path, std::ios::binary);
  file << "P5\n" << all_columns << " " << all_rows << "\n255\n" << grid << std::flush;
  if (!file)
    fail<IoError>("write_grid(" + path + ")", {.what = "the picture could not be written"});
}

}  // namespace samples
