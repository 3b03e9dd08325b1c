// What stands between the brackets of x[{...}] and x.index({...}): indices, slices, None, Ellipsis.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <variant>

#include "tensor.h"

namespace mezzo {

/** Inserts a dimension of size 1, as None in Python; as a bound of a Slice: no bound. */
inline constexpr std::nullopt_t None = std::nullopt;

/** The type of Ellipsis. */
struct EllipsisType {};
/** Stands for all dimensions that the other indices leave over, as ... in Python. */
inline constexpr EllipsisType Ellipsis;

/** The elements start, start + step, ... below stop along a dimension, as start:stop:step in
 *  Python. Negative bounds count from the end; bounds are clamped. */
struct Slice {
  /** Slice() is the whole dimension, Slice(2) begins at 2, Slice(None, 2) ends before 2. */
  explicit Slice(std::optional<std::int64_t> first = {}, std::optional<std::int64_t> end = {},
                 std::int64_t distance = 1)
      : start(first), stop(end), step(distance) {}

  /** First element; none: 0. */
  std::optional<std::int64_t> start;
  /** Where the elements end; none: at the end of the dimension. */
  std::optional<std::int64_t> stop;
  /** Distance of the elements, at least 1. */
  std::int64_t step;
};

/** One index of x[{...}]: a number, a Slice, None, Ellipsis, or a tensor of indices or bools. */
class Index {
 public:
  /** What an index can be. */
  using Value = std::variant<std::int64_t, Slice, std::nullopt_t, EllipsisType, Tensor>;

  /** Takes a number; negative ones count from the end. */
  template <std::integral I>
  requires(!std::same_as<I, bool>) Index(I index)  // NOLINT: converts like a number
      : value_(std::in_place_index<0>, static_cast<std::int64_t>(index)) {}
  /** Takes a slice. */
  Index(const Slice& slice) : value_(slice) {}  // NOLINT
  /** Takes None. */
  Index(std::nullopt_t none) : value_(none) {}  // NOLINT
  /** Takes Ellipsis. */
  Index(EllipsisType all) : value_(all) {}  // NOLINT
  /** Takes a tensor of i64 or i32 indices, or a mask of bools. */
  Index(const Tensor& index) : value_(index) {}  // NOLINT

  /** Returns what the index is. */
  const Value& value() const { return value_; }

 private:
  Value value_;
};

}  // namespace mezzo
