// Shape: the sizes (or strides) of a tensor's dimensions, held without allocation, and the arithmetic on them.
// Sees: error.h, text.h.
// Read next: tensor.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "error.h"
#include "macros.h"

namespace mezzo {

/** Up to kMaxRank sizes. Rank 0 (a single element) is as good a shape as any. */
class MZ_API Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  Shape(const std::vector<std::int64_t>& sizes) : Shape(std::span(sizes)) {}  // NOLINT: converts like a span
  Shape(std::span<const std::int64_t> sizes);  // NOLINT: the class is a span that owns
  static Shape filled(int rank, std::int64_t value);

  int rank() const { return rank_; }
  std::size_t size() const { return static_cast<std::size_t>(rank_); }
  bool empty() const { return rank_ == 0; }
  std::int64_t operator[](std::int64_t i) const { return sizes_[i]; }
  std::int64_t& operator[](std::int64_t i) { return sizes_[i]; }
  std::int64_t back() const { return sizes_[rank_ - 1]; }
  const std::int64_t* begin() const { return sizes_; }
  const std::int64_t* end() const { return sizes_ + rank_; }
  std::int64_t* begin() { return sizes_; }
  std::int64_t* end() { return sizes_ + rank_; }
  operator std::span<const std::int64_t>() const { return {sizes_, size()}; }  // NOLINT

  void push_back(std::int64_t value);
  void insert(int at, std::int64_t value);
  void erase(int at);

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.sizes_[i] != b.sizes_[i]) return false;
    return true;
  }

 private:
  std::int64_t sizes_[kMaxRank];  // only the first rank_ are ever read
  std::int8_t rank_ = 0;
};

using Strides = Shape;

/** "[2,3]"; "[]" for rank 0. */
MZ_API std::string str(const Shape& shape);

/** Number of elements. Errors: ValueError for a negative size, SizeError when the product overflows, both naming `op`. */
MZ_API std::int64_t checked_numel(const Shape& shape, const char* op);

/** Row-major strides, in elements. */
MZ_API Strides contiguous_strides(const Shape& shape);

/** The shape two operands broadcast to: right-aligned, sizes equal or 1. Errors: ShapeError naming `op`, both shapes and the dimension. */
MZ_API Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op);

/** True when a tensor of shape `from` can be expanded to `to` without losing dimensions. */
MZ_API bool is_expandable(const Shape& from, const Shape& to);

/** Resolves a possibly negative dimension against `rank`; a 0-dim tensor accepts 0 and -1. Errors: IndexError naming `op`. */
MZ_API int wrap_dim(std::int64_t dim, int rank, const char* op);

/** Resolves several dimensions, refusing duplicates (IndexError); an empty list means all. Bit i of the result stands for dimension i. */
MZ_API std::uint32_t dim_mask(std::span<const std::int64_t> dims, int rank, const char* op);

}  // namespace mezzo
