#include "image_transforms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "../../tensor/ops/ops.h"
#include "../../tensor/ops/resize/interpolate.h"
#include "../../tensor/ops/shape/place.h"
#include "../../tensor/ops/shape/rearrange.h"
#include "../../tensor/random/generator.h"
#include "../../tensor/random/philox.h"
#include "../../tensor/text/text.h"
#include "image_functions.h"

namespace mezzo::data {

namespace {

/** The random numbers of one call of a transform: one draw of the default generator. */
class Draw {
 public:
  Draw() : stream_(default_generator().next_stream()) {}

  /** Returns a uniform number in [low, high). */
  double uniform(double low, double high) {
    const PhiloxBlock block = philox_block(stream_, next_++);
    return low + (high - low) * uniform_f64(block.word[0], block.word[1]);
  }
  /** Returns a uniform number in 0..n-1. */
  std::int64_t below(std::int64_t n) {
    const PhiloxBlock block = philox_block(stream_, next_++);
    return static_cast<std::int64_t>(
        uniform_below(static_cast<std::uint64_t>(n), block.word[0], block.word[1]));
  }
  /** Returns two standard normal numbers. */
  NormalPair normals() { return normal_pair(philox_block(stream_, next_++)); }

 private:
  PhiloxStream stream_;
  std::uint64_t next_ = 0;
};

void require_dims(const char* op, const Tensor& image, int dims) {
  if (image.dim() < dims)
    fail<ShapeError>(op, {.what = "not an image",
                          .got = str(image),
                          .expected = dims == 2 ? "[...,H,W]" : "[...,C,H,W]"});
}

/** Height and width of a window. */
struct Window {
  std::int64_t rows, columns;
};

Window window_of(const char* op, const WindowSizes& size) {
  const auto sizes = size.expanded(2, op, "size");
  if (sizes[0] < 1 || sizes[1] < 1)
    fail<ValueError>(
        op,
        {.what = "invalid size", .got = str(sizes[0], "x", sizes[1]), .expected = "at least 1x1"});
  return {sizes[0], sizes[1]};
}

Tensor cut(const Tensor& image, std::int64_t top, std::int64_t left, Window window) {
  return image.narrow(-2, top, window.rows).narrow(-1, left, window.columns);
}

/** Errors: ValueError unless 0 < first <= second. */
void require_range(const char* op, const char* name, const std::pair<double, double>& range) {
  if (!(range.first > 0 && range.first <= range.second && std::isfinite(range.second)))
    fail<ValueError>(op, {.what = str("invalid ", name),
                          .got = str("(", range.first, ", ", range.second, ")"),
                          .expected = "two numbers above 0, the smaller first"});
}

/** A window and its place. */
struct PlacedWindow {
  std::int64_t top, left;
  Window window;
};

std::int64_t rounded(double x) { return static_cast<std::int64_t>(std::nearbyint(x)); }

/** Draws windows until one fits into the image of this size, ten at most. Source:
 *  torchvision.transforms.RandomResizedCrop. */
PlacedWindow random_window(Window image, const std::pair<double, double>& scale,
                           const std::pair<double, double>& ratio) {
  Draw draw;
  const double area = static_cast<double>(image.rows) * static_cast<double>(image.columns);
  for (int i = 0; i < 10; ++i) {
    const double part = area * draw.uniform(scale.first, scale.second),
                 sides = std::exp(draw.uniform(std::log(ratio.first), std::log(ratio.second)));
    const double rows = std::nearbyint(std::sqrt(part / sides)),
                 columns = std::nearbyint(std::sqrt(part * sides));
    if (!(rows >= 1 && rows <= static_cast<double>(image.rows) && columns >= 1 &&
          columns <= static_cast<double>(image.columns)))
      continue;
    const Window window{rounded(rows), rounded(columns)};
    const std::int64_t top = draw.below(image.rows - window.rows + 1);
    return {top, draw.below(image.columns - window.columns + 1), window};
  }
  Window window = image;
  const double sides = static_cast<double>(image.columns) / static_cast<double>(image.rows);
  if (sides < ratio.first)
    window.rows = rounded(static_cast<double>(image.columns) / ratio.first);
  else if (sides > ratio.second)
    window.columns = rounded(static_cast<double>(image.rows) * ratio.second);
  window = {std::clamp<std::int64_t>(window.rows, 1, image.rows),
            std::clamp<std::int64_t>(window.columns, 1, image.columns)};
  return {(image.rows - window.rows) / 2, (image.columns - window.columns) / 2, window};
}

/** Returns the window that RandomErasing erases; of no rows if ten do not fit. Source:
 *  torchvision.transforms.RandomErasing. */
PlacedWindow window_to_erase(Draw& draw, Window image, const std::pair<double, double>& scale,
                             const std::pair<double, double>& ratio) {
  const double area = static_cast<double>(image.rows) * static_cast<double>(image.columns);
  for (int i = 0; i < 10; ++i) {
    const double part = area * draw.uniform(scale.first, scale.second),
                 sides = std::exp(draw.uniform(std::log(ratio.first), std::log(ratio.second)));
    const double rows = std::nearbyint(std::sqrt(part * sides)),
                 columns = std::nearbyint(std::sqrt(part / sides));
    if (!(rows < static_cast<double>(image.rows) && columns < static_cast<double>(image.columns)))
      continue;
    const Window window{rounded(rows), rounded(columns)};
    const std::int64_t top = draw.below(image.rows - window.rows + 1);
    return {top, draw.below(image.columns - window.columns + 1), window};
  }
  return {0, 0, {0, 0}};
}

void require_probability(const char* op, double p) {
  if (!(p >= 0 && p <= 1))
    fail<ValueError>(op, {.what = "invalid probability", .got = str(p), .expected = "0..1"});
}

Tensor flipped(const char* op, const Tensor& image, double p, std::int64_t dim) {
  require_probability(op, p);
  return Draw().uniform(0, 1) < p ? flip(image, {dim}) : image;
}

/** Returns the number for a channel, of one for each or one for all. */
float of_channel(const std::vector<float>& numbers, std::int64_t channel) {
  return numbers[numbers.size() == 1 ? 0 : static_cast<std::size_t>(channel)];
}

void require_channels(const std::vector<float>& numbers, const Tensor& image) {
  if (numbers.size() != 1 && static_cast<std::int64_t>(numbers.size()) != image.size(-3))
    fail<ShapeError>("Normalize", {.what = "the numbers do not fit the channels",
                                   .got = str(numbers.size(), " numbers for ", image),
                                   .expected = "one for each channel, or one for all"});
}

}  // namespace

Tensor ConvertImageDtype::operator()(const Tensor& image) const {
  const bool bytes = image.dtype() == u8;
  if (!is_floating(dtype) || !(bytes || is_floating(image.dtype())))
    fail<DtypeError>("ConvertImageDtype", {.what = "cannot convert the image",
                                           .got = str(image, " to ", dtype),
                                           .expected = "u8 or floating-point to floating-point"});
  if (!bytes) return image.to(dtype);
  const Tensor from = image.contiguous(), out = empty_tensor(image.shape(), f32, cpu);
  const auto* source = from.data<std::uint8_t>();
  auto* target = out.data<float>();
  for (std::int64_t i = 0; i < out.numel(); ++i) target[i] = static_cast<float>(source[i]) / 255.0f;
  return out.to(dtype);
}

Tensor Normalize::operator()(const Tensor& image) const {
  require_dims("Normalize", image, 3);
  if (image.dtype() != f32)
    fail<DtypeError>("Normalize", {.what = "wrong dtype",
                                   .got = str(image),
                                   .expected = "f32",
                                   .hint = "data::ConvertImageDtype converts u8"});
  require_channels(mean, image);
  require_channels(deviation, image);
  if (std::find(deviation.begin(), deviation.end(), 0.0f) != deviation.end())
    fail<ValueError>("Normalize", {.what = "a deviation is 0", .expected = "another number"});
  const Tensor from = image.contiguous(), out = empty_tensor(image.shape(), f32, cpu);
  const std::int64_t plane = image.size(-2) * image.size(-1), channels = image.size(-3);
  const auto* source = from.data<float>();
  auto* target = out.data<float>();
  for (std::int64_t first = 0; first < out.numel(); first += plane) {
    const std::int64_t channel = first / plane % channels;
    const float m = of_channel(mean, channel), d = of_channel(deviation, channel);
    for (std::int64_t i = first; i < first + plane; ++i) target[i] = (source[i] - m) / d;
  }
  return out;
}

Tensor Resize::operator()(const Tensor& image) const {
  require_dims("Resize", image, 3);
  if (image.dtype() != u8 && !is_floating(image.dtype()))
    fail<DtypeError>(
        "Resize", {.what = "wrong dtype", .got = str(image), .expected = "u8 or floating-point"});
  constexpr std::int64_t kMost = 65536;
  if (size < 1 || size > kMost || width < 0 || width > kMost)
    fail<ValueError>("Resize", {.what = "invalid size",
                                .got = str(size, ", width ", width),
                                .expected = str("a size in 1..", kMost)});
  const std::int64_t rows = image.size(-2), columns = image.size(-1);
  if (rows == 0 || columns == 0)
    fail<ShapeError>("Resize", {.what = "the image has no pixel", .got = str(image)});
  const std::int64_t shorter = std::min(rows, columns);
  const Window to =
      width > 0 ? Window{size, width} : Window{size * rows / shorter, size * columns / shorter};
  if (to.rows == rows && to.columns == columns) return image;
  const Tensor batch = image.reshape({-1, image.size(-3), rows, columns});
  const bool bytes = image.dtype() == u8;
  Tensor out = interpolate(
      bytes ? batch.to(f32) : batch,
      {.size = {to.rows, to.columns}, .mode = InterpolateMode::bilinear, .antialias = true});
  if (bytes) {
    auto* v = out.data<float>();
    for (std::int64_t i = 0; i < out.numel(); ++i)
      v[i] = std::clamp(std::nearbyint(v[i]), 0.0f, 255.0f);
    out = out.to(u8);
  }
  Shape shape = image.shape();
  shape[shape.rank() - 2] = to.rows;
  shape[shape.rank() - 1] = to.columns;
  return out.view(shape);
}

Tensor CenterCrop::operator()(const Tensor& image) const {
  require_dims("CenterCrop", image, 2);
  const Window window = window_of("CenterCrop", size);
  const std::int64_t more_rows = std::max<std::int64_t>(0, window.rows - image.size(-2)),
                     more_columns = std::max<std::int64_t>(0, window.columns - image.size(-1));
  const Tensor whole = more_rows == 0 && more_columns == 0
                           ? image
                           : pad(image, {more_columns / 2, more_columns - more_columns / 2,
                                         more_rows / 2, more_rows - more_rows / 2});
  // torchvision rounds the half of an odd rest to even
  const auto half = [](std::int64_t n) {
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(n) / 2));
  };
  return cut(whole, half(whole.size(-2) - window.rows), half(whole.size(-1) - window.columns),
             window);
}

Tensor RandomCrop::operator()(const Tensor& image) const {
  require_dims("RandomCrop", image, 2);
  const Window window = window_of("RandomCrop", size);
  if (padding < 0)
    fail<ValueError>("RandomCrop",
                     {.what = "invalid padding", .got = str(padding), .expected = "at least 0"});
  const Tensor whole =
      padding == 0 ? image : pad(image, {padding, padding, padding, padding}, {.value = fill});
  const std::int64_t rows = whole.size(-2) - window.rows, columns = whole.size(-1) - window.columns;
  if (rows < 0 || columns < 0)
    fail<ShapeError>("RandomCrop",
                     {.what = "the image is smaller than the window",
                      .got = str(image, " with padding ", padding),
                      .expected = str("at least ", window.rows, "x", window.columns, " pixels")});
  Draw draw;
  const std::int64_t top = draw.below(rows + 1), left = draw.below(columns + 1);
  return cut(whole, top, left, window);
}

Tensor RandomResizedCrop::operator()(const Tensor& image) const {
  constexpr const char* op = "RandomResizedCrop";
  require_dims(op, image, 3);
  const Window to = window_of(op, size);
  require_range(op, "scale", scale);
  require_range(op, "ratio", ratio);
  if (image.size(-2) == 0 || image.size(-1) == 0)
    fail<ShapeError>(op, {.what = "the image has no pixel", .got = str(image)});
  const auto [top, left, window] = random_window({image.size(-2), image.size(-1)}, scale, ratio);
  return Resize{to.rows, to.columns}(cut(image, top, left, window));
}

Tensor RandomHorizontalFlip::operator()(const Tensor& image) const {
  return flipped("RandomHorizontalFlip", image, p, -1);
}

Tensor RandomVerticalFlip::operator()(const Tensor& image) const {
  return flipped("RandomVerticalFlip", image, p, -2);
}

Tensor RandomRotation::operator()(const Tensor& image) const {
  if (!(degrees >= 0) || !std::isfinite(degrees))
    fail<ValueError>("RandomRotation",
                     {.what = "invalid degrees", .got = str(degrees), .expected = "at least 0"});
  return rotate(image, Draw().uniform(-degrees, degrees), fill);
}

Tensor ColorJitter::operator()(const Tensor& image) const {
  for (const double strength : {brightness, contrast, saturation, hue})
    if (!(strength >= 0) || !std::isfinite(strength) || hue > 0.5)
      fail<ValueError>("ColorJitter", {.what = "invalid strength",
                                       .got = str(hue > 0.5 ? hue : strength),
                                       .expected = "at least 0, for hue 0..0.5"});
  Draw draw;
  std::array<int, 4> order{0, 1, 2, 3};
  for (std::size_t i = 3; i > 0; --i)
    std::swap(order[i],
              order[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(i) + 1))]);
  const auto factor = [&](double b) { return draw.uniform(std::max(0.0, 1 - b), 1 + b); };
  const double light = factor(brightness), span = factor(contrast), colour = factor(saturation),
               turn = draw.uniform(-hue, hue);
  Tensor out = image;
  for (const int step : order) {
    if (step == 0 && brightness > 0) out = adjust_brightness(out, light);
    if (step == 1 && contrast > 0) out = adjust_contrast(out, span);
    if (step == 2 && saturation > 0) out = adjust_saturation(out, colour);
    if (step == 3 && hue > 0) out = adjust_hue(out, turn);
  }
  return out;
}

Tensor RandomErasing::operator()(const Tensor& image) const {
  constexpr const char* op = "RandomErasing";
  require_dims(op, image, 3);
  require_probability(op, p);
  require_range(op, "scale", scale);
  require_range(op, "ratio", ratio);
  if (scale.second > 1)
    fail<ValueError>(op, {.what = "invalid scale", .got = str(scale.second), .expected = "0..1"});
  if (!value && !is_floating(image.dtype()))
    fail<DtypeError>(op, {.what = "random pixels need a floating-point image",
                          .got = str(image),
                          .hint = "set value, or convert with data::ConvertImageDtype"});
  Draw draw;
  if (draw.uniform(0, 1) >= p) return image;
  const auto [top, left, window] =
      window_to_erase(draw, {image.size(-2), image.size(-1)}, scale, ratio);
  if (window.rows == 0 || window.columns == 0) return image;
  const Tensor out = image.clone(), erased = cut(out, top, left, window);
  if (value) {
    erased.fill_(*value);
    return out;
  }
  const Tensor pixels = empty_tensor(erased.shape(), f64, cpu);
  auto* to = pixels.data<double>();
  for (std::int64_t i = 0; i < pixels.numel(); i += 2) {
    const NormalPair pair = draw.normals();
    to[i] = pair.first;
    if (i + 1 < pixels.numel()) to[i + 1] = pair.second;
  }
  erased.copy_(pixels);
  return out;
}

Tensor GaussianBlur::operator()(const Tensor& image) const {
  require_range("GaussianBlur", "sigma", sigma);
  return gaussian_blur(image, kernel_size, Draw().uniform(sigma.first, sigma.second));
}

Tensor RandomAffine::operator()(const Tensor& image) const {
  constexpr const char* op = "RandomAffine";
  require_dims(op, image, 2);
  if (!(degrees >= 0) || !std::isfinite(degrees))
    fail<ValueError>(op,
                     {.what = "invalid degrees", .got = str(degrees), .expected = "at least 0"});
  for (const double part : {translate.first, translate.second})
    if (!(part >= 0 && part <= 1))
      fail<ValueError>(op, {.what = "invalid translate", .got = str(part), .expected = "0..1"});
  require_range(op, "scale", scale);
  if (!(shear.first <= shear.second && std::isfinite(shear.first) && std::isfinite(shear.second)))
    fail<ValueError>(op, {.what = "invalid shear",
                          .got = str("(", shear.first, ", ", shear.second, ")"),
                          .expected = "two angles, the smaller first"});
  Draw draw;
  const double angle = draw.uniform(-degrees, degrees);
  const auto moved = [&](double part, std::int64_t size) {
    const double most = part * static_cast<double>(size);
    return std::nearbyint(draw.uniform(-most, most));
  };
  const double right = moved(translate.first, image.size(-1)),
               down = moved(translate.second, image.size(-2));
  const double factor = draw.uniform(scale.first, scale.second);
  return affine(image, {.angle = angle,
                        .translate = {right, down},
                        .scale = factor,
                        .shear = {draw.uniform(shear.first, shear.second), 0},
                        .fill = fill});
}

namespace {

/** Returns the logarithm of a number with the gamma distribution, which for a small shape may be
 *  below the least double. Source: Marsaglia, Tsang, ACM TOMS 26 (2000). */
double log_gamma_number(Draw& draw, double shape) {
  if (shape < 1)
    return log_gamma_number(draw, shape + 1) + std::log(1 - draw.uniform(0, 1)) / shape;
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draw.normals().first, root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(1 - draw.uniform(0, 1)) < 0.5 * x * x + d - d * v + d * std::log(v))
      return std::log(d * v);
  }
}

double beta_number(Draw& draw, double alpha) {
  const double a = log_gamma_number(draw, alpha), b = log_gamma_number(draw, alpha);
  return 1 / (1 + std::exp(b - a));
}

}  // namespace

Batch MixUp::operator()(const Batch& batch) const {
  constexpr const char* op = "MixUp";
  if (!(alpha > 0) || !std::isfinite(alpha))
    fail<ValueError>(op, {.what = "invalid alpha", .got = str(alpha), .expected = "above 0"});
  if (num_classes < 0)
    fail<ValueError>(
        op, {.what = "invalid num_classes", .got = str(num_classes), .expected = "at least 0"});
  if (!is_floating(batch.x.dtype()))
    fail<DtypeError>(op, {.what = "x is not floating-point", .got = str(batch.x)});
  Tensor target = batch.y;
  if (!is_floating(target.dtype())) {
    if (num_classes == 0)
      fail<DtypeError>(op,
                       {.what = "targets that are classes need num_classes", .got = str(batch.y)});
    if (target.dim() != 1)
      fail<ShapeError>(op, {.what = "wrong targets", .got = str(batch.y), .expected = "[N]"});
    target = one_hot(target.to(i64), num_classes).to(batch.x.dtype());
  }
  Draw draw;
  const double lambda = beta_number(draw, alpha);
  const auto blended = [&](const Tensor& x) {
    return x.size(0) == 0 ? x : x * lambda + roll(x, {1}, {0}) * (1 - lambda);
  };
  return {blended(batch.x), blended(target)};
}

}  // namespace mezzo::data
