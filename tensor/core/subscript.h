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
class MZ_API Index {
 public:
  /** What an index can be. */
  using Value = std::variant<std::int64_t, Slice, std::nullopt_t, EllipsisType, Tensor>;

  /** Takes a number; negative ones count from the end. */
  template <std::integral I>
  requires(!std::same_as<I, bool>)
  Index(I index)  // NOLINT: converts like a number
      : Index(Kind::number, Slice(static_cast<std::int64_t>(index))) {}
  /** Takes a slice. */
  Index(const Slice& slice) : Index(Kind::slice, slice) {}  // NOLINT
  /** Takes None. */
  Index(std::nullopt_t) : Index(Kind::none, Slice()) {}  // NOLINT
  /** Takes Ellipsis. */
  Index(EllipsisType) : Index(Kind::ellipsis, Slice()) {}  // NOLINT
  /** Takes a tensor of i64 or i32 indices, or a mask of bools. */
  Index(const Tensor& index) : kind_(Kind::tensor), tensor_(index) {}  // NOLINT

  /** Returns what the index is. */
  Value value() const;

 private:
  // Not a Value, which costs every user 2.5 MB of compiler memory.
  enum class Kind : std::uint8_t { number, slice, none, ellipsis, tensor };
  Index(Kind kind, const Slice& slice) : kind_(kind), slice_(slice) {}

  Kind kind_;
  Slice slice_;    // the number is its start
  Tensor tensor_;  // undefined unless `kind_` is tensor
};

}  // namespace mezzo
