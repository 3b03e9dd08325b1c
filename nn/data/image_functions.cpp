#include "image_functions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "../../tensor/math/math.h"
#include "../../tensor/ops/create.h"
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

/** The place of a pixel of an image from that of a pixel of the result, both relative to the
 * centre: column = xx x + xy y + x0, row = yx x + yy y + y0. */
struct PixelMap {
  float xx, xy, x0, yx, yy, y0;
};

/** Where the pixels of a moved plane come from: the index in the plane, -1 for none. */
std::vector<std::int64_t> origins(std::int64_t rows, std::int64_t columns, const PixelMap& m) {
  const float middle_row = static_cast<float>(rows - 1) / 2,
              middle_column = static_cast<float>(columns - 1) / 2;
  std::vector<std::int64_t> out;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      const float x = static_cast<float>(column) - middle_column,
                  y = static_cast<float>(row) - middle_row;
      const float from_column = std::nearbyint(m.xx * x + m.xy * y + m.x0 + middle_column),
                  from_row = std::nearbyint(m.yx * x + m.yy * y + m.y0 + middle_row);
      const bool inside = from_column >= 0 && from_column < static_cast<float>(columns) &&
                          from_row >= 0 && from_row < static_cast<float>(rows);
      out.push_back(inside ? static_cast<std::int64_t>(from_row) * columns +
                                 static_cast<std::int64_t>(from_column)
                           : -1);
    }
  return out;
}

/** Returns the image with each pixel taken from its place, or `fill` where that is outside. */
Tensor moved(const char* op, const Tensor& image, const PixelMap& places_of, double fill) {
  require_cpu(op, image);
  if (image.dim() < 2)
    fail<ShapeError>(op, {.what = "not an image", .got = str(image), .expected = "[...,H,W]"});
  const Tensor from = image.contiguous(), out = full(image.shape(), fill, {.dtype = image.dtype()});
  const std::vector<std::int64_t> places = origins(image.size(-2), image.size(-1), places_of);
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

float radians(double degrees) {
  return static_cast<float>(std::remainder(degrees, 360.0) * std::numbers::pi / 180);
}

/** Returns the weights of a Gaussian, whose sum is 1. */
std::vector<float> gaussian(std::int64_t size, double sigma) {
  std::vector<float> out;
  float sum = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const double x = (static_cast<double>(i) - static_cast<double>(size - 1) / 2) / sigma;
    out.push_back(math::exp(static_cast<float>(-0.5 * x * x)));
    sum += out.back();
  }
  for (float& weight : out) weight /= sum;
  return out;
}

/** Convolves lines of `length` elements, `step` apart, with a reflected border. */
void blur_lines(const float* from, float* to, std::int64_t length, std::int64_t step,
                const std::vector<float>& weights) {
  const auto half = static_cast<std::int64_t>(weights.size() / 2);
  for (std::int64_t i = 0; i < length; ++i) {
    float sum = 0;
    for (std::int64_t k = -half; k <= half; ++k) {
      std::int64_t at = i + k < 0 ? -(i + k) : i + k;
      if (at >= length) at = 2 * (length - 1) - at;
      sum += weights[static_cast<std::size_t>(k + half)] * from[at * step];
    }
    to[i * step] = sum;
  }
}

}  // namespace

Tensor rotate(const Tensor& image, double degrees, double fill) {
  if (!std::isfinite(degrees))
    fail<ValueError>("rotate", {.what = "the angle is not finite", .got = str(degrees)});
  const float angle = radians(degrees), c = math::cos(angle), s = math::sin(angle);
  return moved("rotate", image, {c, -s, 0, s, c, 0}, fill);
}

Tensor affine(const Tensor& image, const AffineOptions& o) {
  for (const double number : {o.angle, o.translate.first, o.translate.second, o.scale,
                              o.shear.first, o.shear.second, o.fill})
    if (!std::isfinite(number))
      fail<ValueError>("affine", {.what = "a number is not finite", .got = str(number)});
  if (o.scale <= 0)
    fail<ValueError>("affine",
                     {.what = "invalid scale", .got = str(o.scale), .expected = "above 0"});
  const float angle = radians(o.angle), sx = radians(o.shear.first), sy = radians(o.shear.second);
  if (std::abs(math::cos(sx)) < 1e-6f || std::abs(math::cos(sy)) < 1e-6f)
    fail<ValueError>("affine", {.what = "the shear collapses the image",
                                .got = str("(", o.shear.first, ", ", o.shear.second, ")")});
  const float turn_cos = math::cos(angle - sy) / math::cos(sy),
              turn_sin = math::sin(angle - sy) / math::cos(sy),
              tangent = math::sin(sx) / math::cos(sx);
  // The forward matrix is scale * [a b; c d], of determinant scale^2.
  const float a = turn_cos, b = -turn_cos * tangent - math::sin(angle), c = turn_sin,
              d = -turn_sin * tangent + math::cos(angle);
  const auto scale = static_cast<float>(o.scale), dx = static_cast<float>(o.translate.first),
             dy = static_cast<float>(o.translate.second);
  PixelMap m{d / scale, -b / scale, 0, -c / scale, a / scale, 0};
  m.x0 = -m.xx * dx - m.xy * dy;
  m.y0 = -m.yx * dx - m.yy * dy;
  return moved("affine", image, m, o.fill);
}

Tensor gaussian_blur(const Tensor& image, std::int64_t kernel_size, double sigma) {
  constexpr const char* op = "gaussian_blur";
  require_cpu(op, image);
  if (image.dim() < 2)
    fail<ShapeError>(op, {.what = "not an image", .got = str(image), .expected = "[...,H,W]"});
  if (image.dtype() != u8 && !is_floating(image.dtype()))
    fail<DtypeError>(
        op, {.what = "wrong dtype", .got = str(image), .expected = "u8 or floating-point"});
  if (kernel_size < 1 || kernel_size % 2 == 0)
    fail<ValueError>(op, {.what = "invalid kernel_size",
                          .got = str(kernel_size),
                          .expected = "an odd number above 0"});
  if (!(sigma > 0) || !std::isfinite(sigma))
    fail<ValueError>(op, {.what = "invalid sigma", .got = str(sigma), .expected = "above 0"});
  const std::int64_t rows = image.size(-2), columns = image.size(-1), plane = rows * columns;
  if (image.numel() == 0) return image;
  if (kernel_size / 2 >= std::min(rows, columns))
    fail<ValueError>(op, {.what = "kernel_size reaches beyond the reflected border",
                          .got = str(kernel_size, " for ", image),
                          .expected = str("at most ", 2 * std::min(rows, columns) - 1)});
  const std::vector<float> weights = gaussian(kernel_size, sigma);
  const Tensor from = image.to(f32).contiguous(), across = empty_tensor(image.shape(), f32, cpu),
               out = empty_tensor(image.shape(), f32, cpu);
  for (std::int64_t first = 0; first < image.numel(); first += plane) {
    for (std::int64_t row = 0; row < rows; ++row)
      blur_lines(from.data<float>() + first + row * columns,
                 across.data<float>() + first + row * columns, columns, 1, weights);
    for (std::int64_t column = 0; column < columns; ++column)
      blur_lines(across.data<float>() + first + column, out.data<float>() + first + column, rows,
                 columns, weights);
  }
  if (image.dtype() == u8) {
    auto* v = out.data<float>();
    for (std::int64_t i = 0; i < out.numel(); ++i)
      v[i] = std::clamp(std::nearbyint(v[i]), 0.0f, 255.0f);
  }
  return out.to(image.dtype());
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
