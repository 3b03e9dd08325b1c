// Strokes of the digits 0..9 in a few handwritings, for synthetic_digits(). Private to nn/data/.
#pragma once

#include <array>
#include <span>

namespace mezzo::data::detail {

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
inline constexpr Point kZero[] = {{.5f, 0}, {.22f, .12f}, {.1f, .5f}, {.22f, .88f}, {.5f, 1}, {.78f, .88f}, {.9f, .5f}, {.78f, .12f}, {.5f, 0}};
inline constexpr Point kZeroOpen[] = {{.62f, .02f}, {.3f, .1f}, {.12f, .45f}, {.2f, .85f}, {.52f, 1}, {.82f, .8f}, {.86f, .4f}, {.7f, .1f}, {.42f, .08f}};
inline constexpr Point kOne[] = {{.5f, 0}, {.5f, 1}};
inline constexpr Point kOneHook[] = {{.3f, .22f}, {.52f, 0}, {.52f, 1}};
inline constexpr Point kOneFoot[] = {{.28f, 1}, {.76f, 1}};
inline constexpr Point kTwo[] = {{.14f, .26f}, {.28f, .06f}, {.58f, 0}, {.82f, .18f}, {.76f, .44f}, {.46f, .72f}, {.12f, .98f}};
inline constexpr Point kTwoFoot[] = {{.12f, .98f}, {.9f, .98f}};
inline constexpr Point kTwoLoop[] = {{.16f, .22f}, {.42f, .02f}, {.74f, .12f}, {.74f, .4f}, {.48f, .74f}, {.2f, .96f}, {.1f, .86f}, {.28f, .8f}, {.58f, .96f}, {.92f, .92f}};
inline constexpr Point kThree[] = {{.14f, .12f}, {.45f, 0}, {.8f, .14f}, {.76f, .38f}, {.42f, .48f}, {.78f, .58f}, {.86f, .82f}, {.5f, 1}, {.12f, .88f}};
inline constexpr Point kThreeTop[] = {{.14f, .02f}, {.82f, .02f}, {.42f, .42f}};
inline constexpr Point kThreeBelly[] = {{.42f, .42f}, {.78f, .52f}, {.86f, .78f}, {.54f, 1}, {.12f, .9f}};
inline constexpr Point kFourOpen[] = {{.26f, .02f}, {.12f, .58f}, {.9f, .58f}};
inline constexpr Point kFourStem[] = {{.7f, .04f}, {.68f, 1}};
inline constexpr Point kFourClosed[] = {{.68f, 1}, {.68f, 0}, {.08f, .66f}, {.92f, .66f}};
inline constexpr Point kFiveTop[] = {{.86f, .02f}, {.26f, .02f}, {.2f, .46f}};
inline constexpr Point kFiveBelly[] = {{.2f, .46f}, {.5f, .36f}, {.84f, .5f}, {.84f, .82f}, {.5f, 1}, {.12f, .9f}};
inline constexpr Point kFiveCurl[] = {{.84f, .04f}, {.46f, .02f}, {.24f, .2f}, {.34f, .4f}, {.7f, .54f}, {.8f, .8f}, {.46f, 1}, {.12f, .9f}};
inline constexpr Point kSix[] = {{.74f, 0}, {.4f, .2f}, {.17f, .55f}, {.2f, .85f}, {.5f, 1}, {.82f, .86f}, {.8f, .62f}, {.5f, .5f}, {.22f, .68f}};
inline constexpr Point kSixStraight[] = {{.6f, 0}, {.34f, .36f}, {.18f, .68f}, {.3f, .94f}, {.62f, .98f}, {.82f, .76f}, {.62f, .56f}, {.3f, .62f}, {.2f, .76f}};
inline constexpr Point kSeven[] = {{.1f, .03f}, {.88f, .03f}, {.42f, 1}};
inline constexpr Point kSevenRoof[] = {{.1f, .1f}, {.12f, .03f}, {.88f, .03f}};
inline constexpr Point kSevenStem[] = {{.88f, .03f}, {.62f, .38f}, {.5f, .68f}, {.46f, 1}};
inline constexpr Point kSevenBar[] = {{.3f, .5f}, {.78f, .48f}};
inline constexpr Point kEight[] = {{.78f, .16f}, {.5f, 0}, {.22f, .16f}, {.3f, .36f}, {.7f, .62f}, {.82f, .82f}, {.5f, 1}, {.18f, .82f}, {.3f, .62f}, {.7f, .36f}, {.78f, .16f}};
inline constexpr Point kEightTop[] = {{.5f, .46f}, {.24f, .34f}, {.26f, .1f}, {.5f, 0}, {.74f, .1f}, {.76f, .34f}, {.5f, .46f}};
inline constexpr Point kEightBottom[] = {{.5f, .46f}, {.18f, .62f}, {.2f, .88f}, {.5f, 1}, {.8f, .88f}, {.82f, .62f}, {.5f, .46f}};
inline constexpr Point kNineLoop[] = {{.8f, .24f}, {.54f, .02f}, {.22f, .16f}, {.24f, .42f}, {.56f, .5f}, {.8f, .24f}};
inline constexpr Point kNineStem[] = {{.8f, .24f}, {.76f, .6f}, {.68f, 1}};
inline constexpr Point kNineCurl[] = {{.8f, .24f}, {.82f, .62f}, {.66f, .94f}, {.26f, .94f}};

inline constexpr Glyph kGlyphs[] = {
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

}  // namespace mezzo::data::detail
