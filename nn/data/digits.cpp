#include "image_sets.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "../../tensor/device/parallel.h"
#include "../../tensor/math/math.h"
#include "../../tensor/ops/create.h"
#include "../../tensor/random/generator.h"
#include "../../tensor/random/philox.h"
#include "../../tensor/text/text.h"

namespace mezzo::data {

namespace {

/** A point in the unit square; y points down. */
struct Point {
  float x = 0, y = 0;
};

/** A pen stroke through points: straight lines, or a smooth curve. */
struct Stroke {
  bool smooth;
  std::span<const Point> points;
};

/** One handwriting of a digit: up to three strokes. */
struct Glyph {
  int digit;
  std::array<Stroke, 3> strokes;
};

// clang-format off
constexpr Point kZero[] = {{.5f, 0}, {.22f, .12f}, {.1f, .5f}, {.22f, .88f}, {.5f, 1}, {.78f, .88f}, {.9f, .5f}, {.78f, .12f}, {.5f, 0}};
constexpr Point kZeroOpen[] = {{.62f, .02f}, {.3f, .1f}, {.12f, .45f}, {.2f, .85f}, {.52f, 1}, {.82f, .8f}, {.86f, .4f}, {.7f, .1f}, {.42f, .08f}};
constexpr Point kOne[] = {{.5f, 0}, {.5f, 1}};
constexpr Point kOneHook[] = {{.3f, .22f}, {.52f, 0}, {.52f, 1}};
constexpr Point kOneFoot[] = {{.28f, 1}, {.76f, 1}};
constexpr Point kTwo[] = {{.14f, .26f}, {.28f, .06f}, {.58f, 0}, {.82f, .18f}, {.76f, .44f}, {.46f, .72f}, {.12f, .98f}};
constexpr Point kTwoFoot[] = {{.12f, .98f}, {.9f, .98f}};
constexpr Point kTwoLoop[] = {{.16f, .22f}, {.42f, .02f}, {.74f, .12f}, {.74f, .4f}, {.48f, .74f}, {.2f, .96f}, {.1f, .86f}, {.28f, .8f}, {.58f, .96f}, {.92f, .92f}};
constexpr Point kThree[] = {{.14f, .12f}, {.45f, 0}, {.8f, .14f}, {.76f, .38f}, {.42f, .48f}, {.78f, .58f}, {.86f, .82f}, {.5f, 1}, {.12f, .88f}};
constexpr Point kThreeTop[] = {{.14f, .02f}, {.82f, .02f}, {.42f, .42f}};
constexpr Point kThreeBelly[] = {{.42f, .42f}, {.78f, .52f}, {.86f, .78f}, {.54f, 1}, {.12f, .9f}};
constexpr Point kFourOpen[] = {{.26f, .02f}, {.12f, .58f}, {.9f, .58f}};
constexpr Point kFourStem[] = {{.7f, .04f}, {.68f, 1}};
constexpr Point kFourClosed[] = {{.68f, 1}, {.68f, 0}, {.08f, .66f}, {.92f, .66f}};
constexpr Point kFiveTop[] = {{.86f, .02f}, {.26f, .02f}, {.2f, .46f}};
constexpr Point kFiveBelly[] = {{.2f, .46f}, {.5f, .36f}, {.84f, .5f}, {.84f, .82f}, {.5f, 1}, {.12f, .9f}};
constexpr Point kFiveCurl[] = {{.84f, .04f}, {.46f, .02f}, {.24f, .2f}, {.34f, .4f}, {.7f, .54f}, {.8f, .8f}, {.46f, 1}, {.12f, .9f}};
constexpr Point kSix[] = {{.74f, 0}, {.4f, .2f}, {.17f, .55f}, {.2f, .85f}, {.5f, 1}, {.82f, .86f}, {.8f, .62f}, {.5f, .5f}, {.22f, .68f}};
constexpr Point kSixStraight[] = {{.6f, 0}, {.34f, .36f}, {.18f, .68f}, {.3f, .94f}, {.62f, .98f}, {.82f, .76f}, {.62f, .56f}, {.3f, .62f}, {.2f, .76f}};
constexpr Point kSeven[] = {{.1f, .03f}, {.88f, .03f}, {.42f, 1}};
constexpr Point kSevenRoof[] = {{.1f, .1f}, {.12f, .03f}, {.88f, .03f}};
constexpr Point kSevenStem[] = {{.88f, .03f}, {.62f, .38f}, {.5f, .68f}, {.46f, 1}};
constexpr Point kSevenBar[] = {{.3f, .5f}, {.78f, .48f}};
constexpr Point kEight[] = {{.78f, .16f}, {.5f, 0}, {.22f, .16f}, {.3f, .36f}, {.7f, .62f}, {.82f, .82f}, {.5f, 1}, {.18f, .82f}, {.3f, .62f}, {.7f, .36f}, {.78f, .16f}};
constexpr Point kEightTop[] = {{.5f, .46f}, {.24f, .34f}, {.26f, .1f}, {.5f, 0}, {.74f, .1f}, {.76f, .34f}, {.5f, .46f}};
constexpr Point kEightBottom[] = {{.5f, .46f}, {.18f, .62f}, {.2f, .88f}, {.5f, 1}, {.8f, .88f}, {.82f, .62f}, {.5f, .46f}};
constexpr Point kNineLoop[] = {{.8f, .24f}, {.54f, .02f}, {.22f, .16f}, {.24f, .42f}, {.56f, .5f}, {.8f, .24f}};
constexpr Point kNineStem[] = {{.8f, .24f}, {.76f, .6f}, {.68f, 1}};
constexpr Point kNineCurl[] = {{.8f, .24f}, {.82f, .62f}, {.66f, .94f}, {.26f, .94f}};

constexpr Glyph kGlyphs[] = {
    {0, {{{true, kZero}}}},
    {0, {{{true, kZeroOpen}}}},
    {1, {{{false, kOne}}}},
    {1, {{{false, kOneHook}}}},
    {1, {{{false, kOneHook}, {false, kOneFoot}}}},
    {2, {{{true, kTwo}, {false, kTwoFoot}}}},
    {2, {{{true, kTwoLoop}}}},
    {3, {{{true, kThree}}}},
    {3, {{{false, kThreeTop}, {true, kThreeBelly}}}},
    {4, {{{false, kFourOpen}, {false, kFourStem}}}},
    {4, {{{false, kFourClosed}}}},
    {5, {{{false, kFiveTop}, {true, kFiveBelly}}}},
    {5, {{{true, kFiveCurl}}}},
    {6, {{{true, kSix}}}},
    {6, {{{true, kSixStraight}}}},
    {7, {{{false, kSeven}}}},
    {7, {{{false, kSevenRoof}, {true, kSevenStem}}}},
    {7, {{{false, kSeven}, {false, kSevenBar}}}},
    {8, {{{true, kEight}}}},
    {8, {{{true, kEightTop}, {true, kEightBottom}}}},
    {9, {{{true, kNineLoop}, {true, kNineStem}}}},
    {9, {{{true, kNineLoop}, {true, kNineCurl}}}},
};
// clang-format on

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
