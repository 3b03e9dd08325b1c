// Sizes, strides and paddings of windows over 1, 2 or 3 dimensions, for the options of convolutions
// and pooling.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "../../core/macros.h"

namespace mezzo {

namespace op {

/** One number per spatial dimension, outermost first; entries from `dims` on are unused. */
using Extent = std::array<std::int64_t, 3>;

}  // namespace op

/** One number for all dimensions or one for each, as in 2 or {2, 1}. Empty means "not given". */
class MZ_API WindowSizes {
 public:
  WindowSizes() = default;
  /** Takes one number for all dimensions. */
  WindowSizes(std::int64_t value) : values_{value}, count_(1) {}  // NOLINT: implicit on purpose
  /** Takes one number for all dimensions, or one for each. Errors: ValueError unless there are 1
   *  to 3. */
  WindowSizes(std::initializer_list<std::int64_t> values);

  /** Returns whether there is a number. */
  bool given() const { return count_ > 0; }
  /** Returns one number per dimension. Errors: ValueError unless 1 or `dims` numbers below 2^31
   *  were given. */
  op::Extent expanded(int dims, std::string_view op, std::string_view option) const;

 private:
  std::array<std::int64_t, 3> values_{};
  int count_ = 0;
};

/** The zeros around the input of a convolution: sizes, "valid" (none), or "same" (as many as keep
 *  the sizes; an odd one goes to the end). */
class MZ_API ConvPadding {
 public:
  /** Takes the zeros on either side, for all dimensions. */
  ConvPadding(std::int64_t value) : sizes_(value) {}  // NOLINT: implicit on purpose
  /** Takes the zeros on either side of each dimension. */
  ConvPadding(std::initializer_list<std::int64_t> values) : sizes_(values) {}  // NOLINT
  /** Takes "valid" or "same". Errors: ValueError for any other word. */
  template <std::size_t N> ConvPadding(const char (&word)[N]) : same_(is_same(word)) {}  // NOLINT

  /** Returns whether the padding is "same". */
  bool same() const { return same_; }
  /** Returns the sizes; 0 for "same" and "valid". */
  const WindowSizes& sizes() const { return sizes_; }

 private:
  static bool is_same(std::string_view word);

  WindowSizes sizes_{0};
  bool same_ = false;
};

}  // namespace mezzo
