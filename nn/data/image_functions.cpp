#include "image_functions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "../../autograd/ops/create.h"
#include "../../tensor/math/math.h"
#include "../../tensor/text/text.h"

namespace mezzo::data {

namespace {

void require_cpu(const char* op, const Tensor& image) {
  if (!(image.device() == cpu))
    fail<DeviceError>(op, {.what = "the image is not on the CPU", .got = str(image)});
}

/** Requires an f32 image [C,H,W] of 1 or 3 channels, and returns it row-major. */
Tensor coloured(const char* op, const Tensor& image) {
  require_cpu(op, image);
  if (image.dtype() != f32)
    fail<DtypeError>(op, {.what = "wrong dtype",
                          .got = str(image),
                          .expected = "f32 in 0..1",
                          .hint = "data::ConvertImageDtype converts u8"});
  if (image.dim() != 3 || (image.size(0) != 1 && image.size(0) != 3))
    fail<ShapeError>(op, {.what = "expected one image of 1 or 3 channels",
                          .got = str(image),
                          .expected = "[1,H,W] or [3,H,W]"});
  return image.contiguous();
}

void require_factor(const char* op, double factor) {
  if (!(factor >= 0) || !std::isfinite(factor))
    fail<ValueError>(op, {.what = "invalid factor", .got = str(factor), .expected = "at least 0"});
}

float in_range(float v) { return std::clamp(v, 0.0f, 1.0f); }

float grey_of(float r, float g, float b) { return 0.2989f * r + 0.587f * g + 0.114f * b; }

/** A colour in f32. */
struct Colour {
  float r, g, b;
};

/** Returns the colour with another hue. Source: Smith, Color gamut transform pairs, 1978. */
Colour turned(Colour c, float hue) {
  const float high = std::max({c.r, c.g, c.b}), low = std::min({c.r, c.g, c.b}), span = high - low,
              divisor = span > 0 ? span : 1.0f;
  const float saturation = high > low ? span / high : 0.0f;
  const float rc = (high - c.r) / divisor, gc = (high - c.g) / divisor, bc = (high - c.b) / divisor;
  const float sixth = c.r == high ? bc - gc : c.g == high ? 2 + rc - bc : 4 + gc - rc;
  const float at = sixth / 6 + 1 + hue, h = (at - std::floor(at)) * 6;
  const auto sector = static_cast<int>(h);
  const float f = h - static_cast<float>(sector);
  const float p = in_range(high * (1 - saturation)), q = in_range(high * (1 - saturation * f)),
              t = in_range(high * (1 - saturation * (1 - f)));
  switch (sector % 6) {
    case 0: return {high, t, p};
    case 1: return {q, high, p};
    case 2: return {p, high, t};
    case 3: return {p, q, high};
    case 4: return {t, p, high};
    default: return {high, p, q};
  }
}

/** Returns the image in which each colour is changed by `change`. */
template <class F> Tensor each_colour(const Tensor& image, F change) {
  const Tensor out = empty_tensor(image.shape(), f32, cpu);
  const std::int64_t plane = image.size(1) * image.size(2);
  const auto* from = image.data<float>();
  auto* to = out.data<float>();
  for (std::int64_t i = 0; i < plane; ++i) {
    const Colour c = change(Colour{from[i], from[plane + i], from[2 * plane + i]});
    to[i] = c.r;
    to[plane + i] = c.g;
    to[2 * plane + i] = c.b;
  }
  return out;
}

/** Returns factor * v + (1 - factor) * other for all elements, clamped. */
Tensor blended(const Tensor& image, float factor, float other) {
  const Tensor out = empty_tensor(image.shape(), f32, cpu);
  const auto* from = image.data<float>();
  auto* to = out.data<float>();
  for (std::int64_t i = 0; i < image.numel(); ++i)
    to[i] = in_range(factor * from[i] + (1 - factor) * other);
  return out;
}

/** Returns the mean of the grey values. */
float mean_grey(const Tensor& image) {
  const std::int64_t plane = image.size(1) * image.size(2);
  const auto* v = image.data<float>();
  double sum = 0;
  for (std::int64_t i = 0; i < plane; ++i)
    sum += image.size(0) == 1 ? v[i] : grey_of(v[i], v[plane + i], v[2 * plane + i]);
  return plane == 0 ? 0 : static_cast<float>(sum / static_cast<double>(plane));
}

/** Where the pixels of a rotated plane come from: the index in the plane, -1 for none. */
std::vector<std::int64_t> origins(std::int64_t rows, std::int64_t columns, double degrees) {
  const auto angle = static_cast<float>(std::remainder(degrees, 360.0) * std::numbers::pi / 180);
  const float c = math::cos(angle), s = math::sin(angle);
  const float middle_row = static_cast<float>(rows - 1) / 2,
              middle_column = static_cast<float>(columns - 1) / 2;
  std::vector<std::int64_t> out;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      const float x = static_cast<float>(column) - middle_column,
                  y = static_cast<float>(row) - middle_row;
      const float from_column = std::nearbyint(c * x - s * y + middle_column),
                  from_row = std::nearbyint(s * x + c * y + middle_row);
      const bool inside = from_column >= 0 && from_column < static_cast<float>(columns) &&
                          from_row >= 0 && from_row < static_cast<float>(rows);
      out.push_back(inside ? static_cast<std::int64_t>(from_row) * columns +
                                 static_cast<std::int64_t>(from_column)
                           : -1);
    }
  return out;
}

}  // namespace

Tensor rotate(const Tensor& image, double degrees, double fill) {
  require_cpu("rotate", image);
  if (!std::isfinite(degrees))
    fail<ValueError>("rotate", {.what = "the angle is not finite", .got = str(degrees)});
  if (image.dim() < 2)
    fail<ShapeError>("rotate",
                     {.what = "not an image", .got = str(image), .expected = "[...,H,W]"});
  const Tensor from = image.contiguous(), out = full(image.shape(), fill, {.dtype = image.dtype()});
  const std::vector<std::int64_t> places = origins(image.size(-2), image.size(-1), degrees);
  const std::size_t bytes = item_size(image.dtype());
  const char* source = static_cast<const char*>(from.raw_data());
  char* target = static_cast<char*>(out.raw_data());
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const auto plane = static_cast<std::int64_t>(places.size());
    const std::int64_t at = places[static_cast<std::size_t>(i % plane)];
    if (at >= 0)
      std::memcpy(target + static_cast<std::size_t>(i) * bytes,
                  source + static_cast<std::size_t>(i - i % plane + at) * bytes, bytes);
  }
  return out;
}

Tensor adjust_brightness(const Tensor& image, double factor) {
  require_factor("adjust_brightness", factor);
  return blended(coloured("adjust_brightness", image), static_cast<float>(factor), 0);
}

Tensor adjust_contrast(const Tensor& image, double factor) {
  require_factor("adjust_contrast", factor);
  const Tensor from = coloured("adjust_contrast", image);
  return blended(from, static_cast<float>(factor), mean_grey(from));
}

Tensor adjust_saturation(const Tensor& image, double factor) {
  require_factor("adjust_saturation", factor);
  const Tensor from = coloured("adjust_saturation", image);
  if (from.size(0) == 1) return image;
  const auto f = static_cast<float>(factor);
  return each_colour(from, [f](Colour c) {
    const float grey = (1 - f) * grey_of(c.r, c.g, c.b);
    return Colour{in_range(f * c.r + grey), in_range(f * c.g + grey), in_range(f * c.b + grey)};
  });
}

Tensor adjust_hue(const Tensor& image, double hue) {
  if (!(hue >= -0.5 && hue <= 0.5))
    fail<ValueError>("adjust_hue",
                     {.what = "invalid hue", .got = str(hue), .expected = "-0.5..0.5"});
  const Tensor from = coloured("adjust_hue", image);
  if (from.size(0) == 1) return image;
  return each_colour(from, [hue](Colour c) { return turned(c, static_cast<float>(hue)); });
}

}  // namespace mezzo::data
