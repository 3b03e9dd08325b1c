// Ops that take each element of the result from one position of the operand, dimension by
// dimension: pad, flip, roll, repeat.
#pragma once

#include <array>
#include <vector>

#include "../../core/macros.h"
#include "../../core/op.h"

namespace mezzo {

/** The values of the padding: one value, the elements mirrored about the outermost ones, the
 *  outermost elements, or the elements of the opposite end. */
enum class PadMode : std::uint8_t { constant, reflect, replicate, circular };

/** Options of pad. */
struct PadOptions {
  PadMode mode = PadMode::constant;  // the values of the padding
  double value = 0;                  // in mode constant: the value, rounded to x's dtype
};

/** Returns x with padding[0] elements before and padding[1] elements after its last dimension,
 *  padding[2] and padding[3] around the dimension before it, and so on. A negative number removes
 *  elements; in mode circular it removes them before padding.
 *  Shape: sizes grow by both numbers.
 *  Precision: match, exact.
 *  Gradient: for each element, the sum of g over the positions it was copied to, in f32 (f64),
 *  rounded once.
 *  Errors: ShapeError for an odd number of paddings, more than two per dimension, a negative size,
 *  a reflection not less than the dimension, circular padding greater than the dimension, or a mode
 *  other than constant around an empty dimension. */
MZ_API Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding,
                  const PadOptions& options = {});

/** Returns x with the elements along `dims` in reverse order.
 *  Precision: match, exact.
 *  Gradient: flip of g.
 *  Errors: IndexError. */
MZ_API Tensor flip(const Tensor& x, const Dims& dims);

/** Returns x repeated repeats[i] times along dimension i. If there are more repeats than
 *  dimensions, dimensions of size 1 are put in front.
 *  Precision: match, exact.
 *  Gradient: the sum of g over all copies, in f32 (f64), rounded once.
 *  Errors: ShapeError for fewer repeats than dimensions; ValueError for negative ones;
 *  SizeError. */
MZ_API Tensor repeat(const Tensor& x, const Shape& repeats);

/** Returns x with its elements moved by shifts[i] places along dims[i]; elements moved beyond the
 *  end re-enter at the other end. Without dims, x is rolled as if flattened.
 *  Precision: match, exact.
 *  Gradient: g rolled back.
 *  Errors: IndexError; ValueError unless there are as many shifts as dims. */
MZ_API Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {});

}  // namespace mezzo

namespace mezzo::op {

/** Source of the result's elements outside the operand's range. */
enum class PlaceMode : std::uint8_t {
  inside,     // none: a constant is used
  reflect,    // mirrored about the first and the last element, which are not repeated
  replicate,  // the first or the last element
  circular,   // wraps around, as often as needed
  reversed,   // last element first
};

/** One dimension of the result: `size` elements; element `begin` is the operand's first. */
struct PlaceDim {
  PlaceMode mode = PlaceMode::inside;
  std::int64_t begin = 0, size = 0;
};

/** Returns the operand's index, along a dimension of size n, of the element at position o of the
 *  result; -1 if there is none. */
MZ_HD inline std::int64_t place_source(const PlaceDim& dim, std::int64_t n, std::int64_t o) {
  std::int64_t i = o - dim.begin;
  switch (dim.mode) {
    case PlaceMode::inside: return i >= 0 && i < n ? i : -1;
    case PlaceMode::reflect: i = i < 0 ? -i : i; return i < n ? i : 2 * (n - 1) - i;
    case PlaceMode::replicate: return i < 0 ? 0 : i < n ? i : n - 1;
    case PlaceMode::circular: i %= n; return i < 0 ? i + n : i;
    case PlaceMode::reversed: break;
  }
  return n - 1 - o;
}

/** The inverse mapping: the positions in the result of element i of the operand. */
struct PlaceImages {
  PlaceDim dim;
  std::int64_t n, i, first, step, count;  // `count` candidates: first, first + step, ...

  MZ_HD PlaceImages(const PlaceDim& d, std::int64_t size, std::int64_t element)
      : dim(d), n(size), i(element), first(element + d.begin), step(1), count(1) {
    switch (d.mode) {
      case PlaceMode::inside: break;
      case PlaceMode::reflect: count = 3; break;
      case PlaceMode::replicate:
        if (i == n - 1) count = d.size - first;
        if (i == 0) {
          count += first;
          first = 0;
        }
        break;
      case PlaceMode::circular:
        first %= n;
        first += first < 0 ? n : 0;
        step = n;
        count = (d.size - first + n - 1) / n;
        break;
      case PlaceMode::reversed: first = n - 1 - i; break;
    }
    if (count < 0) count = 0;
  }
  /** Returns candidate k; -1 if it is outside the result or equals an earlier candidate. */
  MZ_HD std::int64_t at(std::int64_t k) const {
    std::int64_t o = first + k * step;
    if (dim.mode == PlaceMode::reflect) {
      if ((k == 1 && i == 0) || (k == 2 && i == n - 1)) return -1;
      o = dim.begin + (k == 0 ? i : k == 1 ? -i : 2 * (n - 1) - i);
    }
    return o >= 0 && o < dim.size ? o : -1;
  }
};

struct PlaceAttrs {
  std::array<PlaceDim, Shape::kMaxRank> dims{};  // one per dimension of the operand
  double value = 0;                              // the constant of PlaceMode::inside
};

/** Returns the attributes with their dimensions in channels-last order. */
PlaceAttrs channels_at_end(const PlaceAttrs& attrs, int rank);

/** Functions shared by all ops here, which differ only in name. */
struct PlaceFunctions {
  using Attrs = PlaceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Flip : PlaceFunctions {
  static constexpr OpTraits traits{.name = "flip",
                                   .precision = Precision::match,
                                   .summary = "reverses dimensions",
                                   .integers = Integers::keep,
                                   .booleans = true,
                                   .channels_last = ChannelsLast::like_first};
};

struct Pad : PlaceFunctions {
  static constexpr OpTraits traits{.name = "pad",
                                   .precision = Precision::match,
                                   .summary = "adds elements around a tensor, or crops it",
                                   .integers = Integers::keep,
                                   .booleans = true,
                                   .channels_last = ChannelsLast::like_first};
};

struct Repeat : PlaceFunctions {
  static constexpr OpTraits traits{.name = "repeat",
                                   .precision = Precision::match,
                                   .summary = "repeats a tensor along its dimensions",
                                   .integers = Integers::keep,
                                   .booleans = true};
};

struct Roll : PlaceFunctions {
  static constexpr OpTraits traits{.name = "roll",
                                   .precision = Precision::match,
                                   .summary = "shifts elements cyclically",
                                   .integers = Integers::keep,
                                   .booleans = true};
};

/** The adjoint: each element of the operand is the sum of g at the positions it was copied to. Sums
 *  run in f32 (f64) and are rounded once. */
struct PlaceBackward {
  static constexpr OpTraits traits{
      .name = "place_backward", .precision = Precision::match, .internal = true};
  struct Attrs {
    PlaceAttrs place;
    Shape sizes;                                     // of the forward input
    MemoryFormat format = MemoryFormat::contiguous;  // of the forward input
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using PlaceOps = type_list<Flip, Pad, PlaceBackward, Repeat, Roll>;

}  // namespace mezzo::op
