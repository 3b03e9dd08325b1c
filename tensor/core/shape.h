// Shape: the sizes (or strides) of a tensor's dimensions, stored without allocation, the arithmetic
// on them, and the order of the elements in memory.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"
#include "macros.h"

namespace mezzo {

// Functions that construct spans are not inline: a type of span that is constructed in a header
// costs every user 1.4 to 2.9 MB of compiler memory.

/** Up to kMaxRank sizes. Rank 0, a single element, is allowed. */
class MZ_API Shape {
 public:
  static constexpr int kMaxRank = 8;  // the most dimensions that a tensor can have

  /** Constructs a shape of rank 0. */
  Shape() = default;
  /** Constructs from sizes in order, as in Shape{2, 3}. Errors: ShapeError beyond kMaxRank. */
  Shape(std::initializer_list<std::int64_t> sizes);
  /** As above, from a vector. */
  Shape(const std::vector<std::int64_t>& sizes);  // NOLINT: converts like a span
  /** As above, from a span; the sizes are copied. A template, so that a copy of a Shape does not
   *  consider its conversion to a span, which costs every user 3 MB of compiler memory. */
  template <std::same_as<std::span<const std::int64_t>> S>
  Shape(const S& sizes) : Shape(sizes.data(), sizes.size()) {}  // NOLINT: converts like a span
  /** As above, from anything that converts to a span. */
  template <class S>
  requires(!std::derived_from<S, Shape> && !std::same_as<S, std::span<const std::int64_t>> &&
           std::convertible_to<const S&, std::span<const std::int64_t>>)
  explicit Shape(const S& sizes) : Shape(std::span<const std::int64_t>(sizes)) {}
  /** Returns a shape of `rank` sizes, all equal to `value`. */
  static Shape filled(int rank, std::int64_t value);

  /** Returns the number of dimensions. */
  int rank() const { return rank_; }
  /** Returns the number of dimensions, as containers do. */
  std::size_t size() const { return static_cast<std::size_t>(rank_); }
  /** Returns true for rank 0. */
  bool empty() const { return rank_ == 0; }
  /** Returns the size of dimension i in 0..rank-1; the index is not checked. */
  std::int64_t operator[](std::int64_t i) const { return sizes_[i]; }
  /** As above, for writing. */
  std::int64_t& operator[](std::int64_t i) { return sizes_[i]; }
  /** Returns the last size; the rank must be at least 1. */
  std::int64_t back() const { return sizes_[rank_ - 1]; }
  /** Returns the address of the first size. */
  const std::int64_t* begin() const { return sizes_; }
  /** Returns the address after the last size. */
  const std::int64_t* end() const { return sizes_ + rank_; }
  /** Returns the address of the first size, for writing. */
  std::int64_t* begin() { return sizes_; }
  /** Returns the address after the last size, for writing. */
  std::int64_t* end() { return sizes_ + rank_; }
  /** Converts to a span over the sizes; it is valid as long as the shape. */
  operator std::span<const std::int64_t>() const;  // NOLINT: converts like a vector

  /** Appends a size. Errors: ShapeError beyond kMaxRank. */
  void push_back(std::int64_t value);
  /** Inserts a size before index `at`. Errors: ShapeError beyond kMaxRank. */
  void insert(int at, std::int64_t value);
  /** Removes the size at index `at`. */
  void erase(int at);

  /** Returns true for equal ranks and sizes. */
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.sizes_[i] != b.sizes_[i]) return false;
    return true;
  }

 private:
  Shape(const std::int64_t* sizes, std::size_t rank);

  std::int64_t sizes_[kMaxRank];  // only the first rank_ are initialised
  std::int8_t rank_ = 0;
};

/** Strides are stored like sizes. */
using Strides = Shape;

/** Returns "[2,3]"; "[]" for rank 0. */
MZ_API std::string str(const Shape& shape);

/** Returns the number of elements. Errors: ValueError for a negative size, SizeError if the product
 *  overflows, both naming `op`. */
MZ_API std::int64_t checked_numel(const Shape& shape, const char* op);

/** Returns row-major strides, in elements. */
MZ_API Strides contiguous_strides(const Shape& shape);

/** Returns the shape that two operands broadcast to: right-aligned, sizes equal or 1. Errors:
 *  ShapeError naming `op`, both shapes and the dimension. */
MZ_API Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op);

/** Returns true if a tensor of shape `from` can be expanded to `to` without losing dimensions. */
MZ_API bool is_expandable(const Shape& from, const Shape& to);

/** Returns the dimension that a possibly negative `dim` refers to for `rank`; a 0-dim tensor
 *  accepts 0 and -1. Errors: IndexError naming `op`. */
MZ_API int wrap_dim(std::int64_t dim, int rank, const char* op);

/** Returns a mask of the dimensions that `dims` refer to: bit i is set for dimension i. An empty
 *  list means all. Errors: IndexError naming `op` for a dimension out of range or named twice. */
MZ_API std::uint32_t dim_mask(std::span<const std::int64_t> dims, int rank, const char* op);

/** The order of a tensor's elements in memory. PyTorch has a second channels_last for volumes; here
 *  the rank selects between images and volumes. */
enum class MemoryFormat : std::uint8_t {
  contiguous,     // row-major
  channels_last,  // channels innermost: [N,C,H,W] as N, H, W, C and [N,C,D,H,W] as N, D, H, W, C
};

/** Returns the name: "contiguous" or "channels_last". */
MZ_API std::string_view name(MemoryFormat format);

/** Returns true if tensors of that many dimensions can be channels-last: 4 or 5. */
constexpr bool may_be_channels_last(int rank) { return rank == 4 || rank == 5; }

/** Returns the dimension at position `place` of the format's memory order; place 0 is the
 *  outermost. */
constexpr int dim_at(MemoryFormat format, int rank, int place) {
  if (format == MemoryFormat::contiguous || place == 0) return place;
  return place == rank - 1 ? 1 : place + 1;
}

/** Returns `wanted` for a batch of images with `spatial` dimensions after batch and channels.
 *  Returns row-major for images without a batch, whose dimensions have other meanings than those of
 *  channels-last tensors. */
constexpr std::optional<MemoryFormat> format_of_images(
    int rank, int spatial, std::optional<MemoryFormat> wanted = std::nullopt) {
  return rank == spatial + 2 ? wanted : MemoryFormat::contiguous;
}

/** Returns strides without gaps, in elements, equal to PyTorch's for sizes of 0 and 1 too. The rank
 *  must fit the format. */
MZ_API Strides strides_in(MemoryFormat format, const Shape& shape);

/** Returns true if the elements are stored in the order of the format without gaps. The strides of
 *  dimensions of size 1 are ignored. */
MZ_API bool are_dense(MemoryFormat format, const Shape& shape, const Strides& strides);

/** Returns the format that PyTorch deduces from strides, with or without gaps: row-major if the
 *  strides fit both formats or neither. */
MZ_API MemoryFormat suggested_format(const Shape& shape, const Strides& strides);

}  // namespace mezzo
