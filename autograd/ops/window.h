// Sizes, strides and paddings of windows that slide over 1, 2 or 3 dimensions: how options of convolutions and pooling are written.
// Sees: tensor.
// Read next: conv.h, pool.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "../../tensor/ops/conv.h"

namespace mezzo {

/** One number for every dimension, or one for each: 2, or {2, 1}. Empty means "not given". */
class MZ_API WindowSizes {
 public:
  WindowSizes() = default;
  WindowSizes(std::int64_t value) : values_{value}, count_(1) {}  // NOLINT: a number is meant to convert
  WindowSizes(std::initializer_list<std::int64_t> values);

  bool given() const { return count_ > 0; }
  /** One number per dimension. Errors: ValueError unless 1 or `dims` were given, below 2^31 each. */
  op::Extent expanded(int dims, std::string_view op, std::string_view option) const;

 private:
  std::array<std::int64_t, 3> values_{};
  int count_ = 0;
};

/** Zeros around the input of a convolution: sizes, "valid" (none), or "same" (as many as keep the sizes; the odd one goes to the end). */
class MZ_API ConvPadding {
 public:
  ConvPadding(std::int64_t value) : sizes_(value) {}  // NOLINT: a number is meant to convert
  ConvPadding(std::initializer_list<std::int64_t> values) : sizes_(values) {}  // NOLINT
  /** Errors: ValueError for any other word. */
  template <std::size_t N> ConvPadding(const char (&word)[N]) : same_(is_same(word)) {}  // NOLINT

  bool same() const { return same_; }
  const WindowSizes& sizes() const { return sizes_; }

 private:
  static bool is_same(std::string_view word);

  WindowSizes sizes_{0};
  bool same_ = false;
};

}  // namespace mezzo
