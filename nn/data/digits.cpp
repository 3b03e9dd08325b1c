#include "digits.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../../tensor/device/parallel.h"
#include "../../tensor/math/math.h"
#include "../../tensor/ops/create.h"
#include "../../tensor/random/generator.h"
#include "../../tensor/random/philox.h"
#include "../../tensor/text/text.h"
#include "digit_strokes.h"

namespace mezzo::data {

namespace {

using detail::Glyph;
using detail::kGlyphs;
using detail::Point;
using detail::Stroke;

constexpr int kSide = 28;
constexpr int kPixels = kSide * kSide;

/** The sequence of random numbers for one digit. */
class Dice {
 public:
  explicit Dice(PhiloxStream stream) : stream_(stream) {}

  std::uint32_t word() {
    if (used_ == 4) {
      block_ = philox_block(stream_, next_block_++);
      used_ = 0;
    }
    return block_.word[used_++];
  }
  float uniform(float low, float high) { return low + (high - low) * uniform_f32(word()); }
  /** Returns an approximately normal value with mean 0 and deviation 1: the scaled sum of a word's
   *  bytes. It is cheap and never exceeds 3.5 in magnitude. */
  float bell() {
    const std::uint32_t w = word();
    const auto sum = static_cast<float>((w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24));
    return (sum - 510.0f) * (1.0f / 147.8f);
  }
  int below(int n) {
    return static_cast<int>(static_cast<std::uint64_t>(word()) * static_cast<std::uint64_t>(n) >>
                            32);
  }

 private:
  PhiloxStream stream_;
  std::uint64_t next_block_ = 0;
  PhiloxBlock block_{};
  int used_ = 4;
};

/** Random affine map from the unit square to pixels: slant, rotation, scale and offset. */
struct Hand {
  float xx, xy, yx, yy, x0, y0;

  explicit Hand(Dice& dice) {
    const float turn = 0.17f * dice.bell(), slant = 0.22f * dice.bell() - 0.06f;
    const float width = 14.5f * dice.uniform(0.66f, 1.12f),
                height = 19.0f * dice.uniform(0.74f, 1.08f);
    const float c = math::cos(turn), s = math::sin(turn);
    xx = c * width;
    xy = (-s - c * slant) * height;
    yx = s * width;
    yy = (c - s * slant) * height;
    x0 = 14.0f + 1.3f * dice.bell() - 0.5f * (xx + xy);
    y0 = 14.0f + 1.3f * dice.bell() - 0.5f * (yx + yy);
  }
  Point operator()(Point p) const { return {x0 + xx * p.x + xy * p.y, y0 + yx * p.x + yy * p.y}; }
};

/** An image during drawing: the squared distance of each pixel's centre to the nearest stroke, at
 *  most kFar. */
class Canvas {
 public:
  Canvas() { std::fill_n(nearest_, kPixels, kFar); }

  void line(Point a, Point b) {
    constexpr float kReach = 4;
    const int left = first(std::min(a.x, b.x) - kReach), right = last(std::max(a.x, b.x) + kReach);
    const int top = first(std::min(a.y, b.y) - kReach), bottom = last(std::max(a.y, b.y) + kReach);
    const float dx = b.x - a.x, dy = b.y - a.y;
    const float inverse = 1.0f / std::max(dx * dx + dy * dy, 1e-6f);
    for (int row = top; row < bottom; ++row)
      for (int column = left; column < right; ++column) {
        const float px = static_cast<float>(column) + 0.5f - a.x,
                    py = static_cast<float>(row) + 0.5f - a.y;
        const float along = std::clamp((px * dx + py * dy) * inverse, 0.0f, 1.0f);
        const float ex = px - along * dx, ey = py - along * dy;
        float& nearest = nearest_[row * kSide + column];
        nearest = std::min(nearest, ex * ex + ey * ey);
      }
  }

  /** Returns the ink in a pixel, for a pen of the given radius in pixels and an edge that fades
   *  over `softness` pixels. */
  float ink(int pixel, float radius, float softness) const {
    const float depth = (radius - std::sqrt(nearest_[pixel])) / softness + 0.5f;
    return std::clamp(depth, 0.0f, 1.0f);
  }

 private:
  static constexpr float kFar = 1e6f;
  static int first(float at) { return std::clamp(static_cast<int>(std::floor(at)), 0, kSide); }
  static int last(float at) { return std::clamp(static_cast<int>(std::ceil(at)), 0, kSide); }

  float nearest_[kPixels];
};

/** Returns the point at t in 0..1 of the Catmull-Rom spline segment from p1 to p2, with p0 before
 *  and p3 after them. Source: Catmull, Rom 1974. */
Point on_curve(Point p0, Point p1, Point p2, Point p3, float t) {
  const auto mix = [t](float a, float b, float c, float d) {
    return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
  };
  return {mix(p0.x, p1.x, p2.x, p3.x), mix(p0.y, p1.y, p2.y, p3.y)};
}

void draw_stroke(Canvas& canvas, const Stroke& stroke, const Hand& hand, float jitter, Dice& dice) {
  constexpr std::size_t kMostPoints = 16;
  constexpr int kPieces = 4;  // straight lines in a curve segment
  Point points[kMostPoints];
  const std::size_t n = stroke.points.size();
  for (std::size_t i = 0; i < n; ++i) {
    const Point p = stroke.points[i];
    points[i] = hand({p.x + jitter * dice.bell(), p.y + jitter * dice.bell()});
  }
  for (std::size_t i = 0; i + 1 < n; ++i) {
    if (!stroke.smooth) {
      canvas.line(points[i], points[i + 1]);
      continue;
    }
    const Point before = points[i == 0 ? 0 : i - 1], after = points[std::min(i + 2, n - 1)];
    Point from = points[i];
    for (int piece = 1; piece <= kPieces; ++piece) {
      const Point to =
          on_curve(before, points[i], points[i + 1], after, static_cast<float>(piece) / kPieces);
      canvas.line(from, to);
      from = to;
    }
  }
}

/** Returns a random handwriting of a digit. */
const Glyph& pick_glyph(int digit, Dice& dice) {
  const auto of_digit = [&](const Glyph& g) { return g.digit == digit; };
  const Glyph* begin = std::find_if(std::begin(kGlyphs), std::end(kGlyphs), of_digit);
  const Glyph* end = std::find_if_not(begin, std::end(kGlyphs), of_digit);
  return begin[dice.below(static_cast<int>(end - begin))];
}

/** Draws a random digit into 784 values in 0..1 and returns the digit. */
std::int64_t draw_digit(PhiloxStream stream, float* pixels) {
  Dice dice(stream);
  const int digit = dice.below(10);
  const Glyph& glyph = pick_glyph(digit, dice);
  const Hand hand(dice);
  const float jitter = dice.uniform(0.015f, 0.055f);
  Canvas canvas;
  for (const Stroke& stroke : glyph.strokes) draw_stroke(canvas, stroke, hand, jitter, dice);
  const float radius = dice.uniform(0.7f, 1.9f), softness = dice.uniform(0.9f, 1.7f);
  const float strength = dice.uniform(0.7f, 1.0f), noise = dice.uniform(0.0f, 0.12f);
  for (int i = 0; i < kPixels; ++i)
    pixels[i] =
        std::clamp(strength * canvas.ink(i, radius, softness) + noise * dice.bell(), 0.0f, 1.0f);
  return digit;
}

}  // namespace

Dataset synthetic_digits(std::int64_t n, std::uint64_t seed, const ImageOptions& options) {
  if (n < 1)
    fail<ValueError>("synthetic_digits",
                     {.what = "n is out of range", .got = str(n), .expected = "at least 1"});
  const Tensor x = empty({n, kPixels}), y = empty({n}, {.dtype = i64});
  const std::uint64_t stream_seed = split(seed, 0).seed;
  constexpr std::int64_t kDigitsPerPanel = 64;
  parallel_chunks(
      n, kDigitsPerPanel,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          float* pixels = x.data<float>() + i * kPixels;
          y.data<std::int64_t>()[i] =
              draw_digit({stream_seed, static_cast<std::uint64_t>(i)}, pixels);
          if (options.normalise)
            for (int p = 0; p < kPixels; ++p)
              pixels[p] = (pixels[p] - kMnistMean) / kMnistDeviation;
        }
      },
      15000.0);
  return {options.flat ? x : x.view({n, 1, kSide, kSide}), y,
          "built-in digits, drawn by the program"};
}

}  // namespace mezzo::data
