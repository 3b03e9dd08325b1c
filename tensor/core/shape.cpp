#include "shape.h"

#include <algorithm>

#include "../text/text.h"
#include "checked_size.h"
#include "reduce_options.h"

namespace mezzo {

Shape::Shape(std::initializer_list<std::int64_t> sizes) : Shape(sizes.begin(), sizes.size()) {}
Shape::Shape(const std::vector<std::int64_t>& sizes) : Shape(sizes.data(), sizes.size()) {}

Dims::Dims(std::initializer_list<std::int64_t> dims) : items_(dims) {}
Dims::Dims(const std::vector<std::int64_t>& dims) : items_(dims) {}
Dims::operator std::span<const std::int64_t>() const { return items_; }

Shape::operator std::span<const std::int64_t>() const { return {sizes_, size()}; }

Shape::Shape(const std::int64_t* sizes, std::size_t rank) {
  if (rank > kMaxRank)
    fail<ShapeError>("shape", {.what = "too many dimensions",
                               .got = str(rank, " dimensions"),
                               .expected = str("at most ", kMaxRank)});
  rank_ = static_cast<std::int8_t>(rank);
  std::copy(sizes, sizes + rank, sizes_);
}

Shape Shape::filled(int rank, std::int64_t value) {
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(value);
  return shape;
}

void Shape::push_back(std::int64_t value) { insert(rank_, value); }

void Shape::insert(int at, std::int64_t value) {
  if (rank_ == kMaxRank)
    fail<ShapeError>("shape", {.what = "too many dimensions",
                               .got = str(*this, " and one more"),
                               .expected = str("at most ", kMaxRank)});
  std::copy_backward(sizes_ + at, sizes_ + rank_, sizes_ + rank_ + 1);
  sizes_[at] = value;
  ++rank_;
}

void Shape::erase(int at) {
  std::copy(sizes_ + at + 1, sizes_ + rank_, sizes_ + at);
  --rank_;
}

std::string str(const Shape& shape) {
  std::string out = "[";
  for (const std::int64_t size : shape) {
    if (out.size() > 1) out += ',';
    detail::append(out, size);
  }
  return out + "]";
}

std::int64_t checked_numel(const Shape& shape, const char* op) {
  // A size of 0 would hide an overflow of the others in the product, so zeros are left out of it.
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0)
      fail<ValueError>(op, {.what = "negative size", .got = str(shape), .expected = "sizes >= 0"});
    if (size == 0)
      empty = true;
    else if (__builtin_mul_overflow(product, size, &product) || product > kMaxElements)
      fail<SizeError>(op, {.what = "number of elements overflows",
                           .got = str(shape),
                           .expected = "at most 2^59 elements"});
  }
  return empty ? 0 : product;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op) {
  if (a == b) return a;
  Shape out = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  const int lead = out.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    const std::int64_t x = out[lead + i], y = shorter[i];
    if (x != y && x != 1 && y != 1)
      fail<ShapeError>(op, {.what = "shapes do not broadcast",
                            .got = str(a, " and ", b),
                            .expected = str("equal sizes or 1 in dimension ", i - shorter.rank())});
    if (x == 1) out[lead + i] = y;
  }
  return out;
}

bool is_expandable(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  const int lead = to.rank() - from.rank();
  for (int i = 0; i < from.rank(); ++i)
    if (from[i] != to[lead + i] && from[i] != 1) return false;
  return true;
}

int wrap_dim(std::int64_t dim, int rank, const char* op) {
  const std::int64_t span = std::max(rank, 1);
  if (dim < -span || dim >= span)
    fail<IndexError>(op, {.what = "dimension out of range",
                          .got = str(dim),
                          .expected = str(-span, "..", span - 1)});
  return static_cast<int>(dim < 0 ? dim + span : dim);
}

std::uint32_t dim_mask(std::span<const std::int64_t> dims, int rank, const char* op) {
  if (dims.empty()) return (1u << rank) - 1;
  std::uint32_t mask = 0;
  for (const std::int64_t dim : dims) {
    const std::uint32_t bit = 1u << wrap_dim(dim, rank, op);
    if (mask & bit)
      fail<IndexError>(
          op,
          {.what = "dimension named twice", .got = str(dim), .expected = "each dimension once"});
    mask |= bit;
  }
  return rank == 0 ? 0 : mask;
}

std::string_view name(MemoryFormat format) {
  return format == MemoryFormat::channels_last ? "channels_last" : "contiguous";
}

Strides strides_in(MemoryFormat format, const Shape& shape) {
  if (format == MemoryFormat::contiguous) return contiguous_strides(shape);
  Strides strides = shape;
  std::int64_t step = 1;
  for (int place = shape.rank() - 1; place >= 0; --place) {
    const int d = dim_at(format, shape.rank(), place);
    strides[d] = step;
    step *= shape[d];
  }
  return strides;
}

bool are_dense(MemoryFormat format, const Shape& shape, const Strides& strides) {
  const bool last = format == MemoryFormat::channels_last;
  if (last && !may_be_channels_last(shape.rank())) return false;
  std::int64_t step = 1;
  for (int place = shape.rank() - 1; place >= 0; --place) {
    const int d = dim_at(format, shape.rank(), place);
    if (!last && shape[d] == 0) return true;
    if (shape[d] != 1 && strides[d] != step) return false;
    step *= shape[d];
  }
  return true;
}

MemoryFormat suggested_format(const Shape& shape, const Strides& strides) {
  const int rank = shape.rank();
  if (!may_be_channels_last(rank) || strides[1] == 0) return MemoryFormat::contiguous;
  std::int64_t least = 0;  // minimum stride of the next dimension
  for (int place = rank - 1; place >= 0; --place) {
    const int d = dim_at(MemoryFormat::channels_last, rank, place);
    if (shape[d] == 0 || strides[d] < least) return MemoryFormat::contiguous;
    // [N,1,1,1] with one stride for all but the batch: both formats fit.
    if (d == 0 && least == strides[1]) return MemoryFormat::contiguous;
    least = strides[d] * shape[d];
  }
  return MemoryFormat::channels_last;
}

}  // namespace mezzo
