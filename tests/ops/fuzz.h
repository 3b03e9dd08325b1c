// The argument fuzzer: calls every op with drawn arguments and checks the result's shape with an
// independent formula.
//
// A row draws arguments and gives the expected shapes (row.h). A registered op without a row fails
// the suite.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mezzo.h>

namespace fuzz {

using mezzo::DType;
using mezzo::Shape;
using mezzo::Tensor;

__extension__ using Wide = __int128;  // holds every sum of products of two 64-bit numbers

/** Sizes of one result. kAny: a size that depends on the values of the operands. */
using Sizes = std::vector<Wide>;
inline constexpr Wide kAny = -1;

/** The expected shapes of a call's results, or nothing where it must throw. */
using Expected = std::optional<std::vector<Sizes>>;

inline Expected refused() { return std::nullopt; }
inline Expected gives(Sizes sizes) { return std::vector<Sizes>{std::move(sizes)}; }
inline Expected gives(const std::optional<Sizes>& sizes) {
  return sizes ? gives(*sizes) : refused();
}
inline Expected gives_both(const std::optional<Sizes>& sizes) {
  return sizes ? Expected(std::vector<Sizes>{*sizes, *sizes}) : refused();
}

/** A call with its arguments. It is made once, after everything was drawn. */
struct Trial {
  std::function<std::vector<Tensor>()> call;
  Expected expected;
};

/** Draws sizes, numbers and values, reproducibly from the seed. */
class FuzzDraw {
 public:
  explicit FuzzDraw(std::uint64_t seed);

  /** Describes all arguments drawn so far. */
  const std::string& text() const { return text_; }
  /** Returns the floating operands that require a gradient. */
  const std::vector<Tensor>& leaves() const { return leaves_; }

  std::int64_t below(std::int64_t n);
  bool chance(double p) { return uniform() < p; }
  template <class T> T one_of(std::initializer_list<T> items) {
    return note(items.begin()[below(static_cast<std::int64_t>(items.size()))]);
  }
  bool flag() { return note(chance(0.5)); }

  /** Draws a number from low..high, sometimes an extreme one. */
  std::int64_t number(std::int64_t low = 0, std::int64_t high = 4);
  /** Draws a value from [low, high), sometimes nan, infinite, huge or tiny. */
  double real(double low = -2, double high = 2);
  /** Draws a dimension of a tensor of `rank`, sometimes one out of range. */
  std::int64_t dim(int rank) { return number(-rank, rank > 0 ? rank - 1 : 0); }
  std::vector<std::int64_t> numbers(std::size_t most, std::int64_t low = 0, std::int64_t high = 4);

  DType dtype();
  DType floating();
  /** Draws small sizes, zeros among them, sometimes sizes up to 2^62 together with a zero. */
  Shape shape(int min_rank = 0, int max_rank = 4);
  /** The same with at most 9 elements along each dimension: for calls that make one view for each,
   *  and for results larger than the operand. */
  Shape short_shape(int min_rank = 0, int max_rank = 4);
  /** Draws numbers to pass as sizes, which may be out of range. */
  Shape raw_shape(int rank, std::int64_t low = 0, std::int64_t high = 4);
  /** Draws a shape that usually broadcasts with `shape`. */
  Shape like(const Shape& shape);

  /** Draws a tensor in some memory layout. Huge sizes occur only together with a zero. */
  Tensor tensor(const Shape& shape, DType dtype);
  Tensor tensor() { return tensor(shape(), dtype()); }
  Tensor floats(const Shape& shape) { return tensor(shape, floating()); }
  Tensor floats(int min_rank, int max_rank) { return floats(shape(min_rank, max_rank)); }
  /** Draws a tensor, sometimes one element expanded to up to 2^59: for ops whose result is as large
   *  as the operand, so that the allocation fails. */
  Tensor maybe_huge(int max_rank = 4);
  /** Draws indices below `size`, sometimes out of range. */
  Tensor index(const Shape& shape, std::int64_t size);
  Tensor mask(const Shape& shape) { return tensor(shape, DType::boolean); }
  /** Draws a tensor of this shape, sometimes one of another shape or an undefined one. */
  Tensor optional(const Shape& shape, DType dtype);

 private:
  std::uint64_t next();
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  bool extreme() { return !calm_ && chance(0.2); }
  template <class T> T note(T value) {
    text_ += mezzo::str(value, " ");
    return value;
  }

  std::uint64_t state_;
  bool calm_;        // no extreme arguments in this trial
  bool wants_grad_;  // floating operands are leaves
  std::string text_;
  std::vector<Tensor> leaves_;
};

using Row = std::function<Trial(FuzzDraw& d)>;

struct NamedRow {
  std::string op;
  Row draw;
};

std::vector<NamedRow>& all_rows();
inline void add_row(const std::string& op, Row row) { all_rows().push_back({op, std::move(row)}); }

// ---- formulas in 128 bits, independent of the library -------------------------------------------

Sizes sizes(const Shape& shape);
inline Sizes sizes(const Tensor& x) { return sizes(x.shape()); }
/** Returns the product of all sizes. Saturates far above 2^64. */
Wide count(const Sizes& sizes);
bool none_negative(const Sizes& sizes);
/** Resolves a dimension; nothing where it is out of range. A 0-dim tensor has dimension 0. */
std::optional<std::size_t> resolved(std::int64_t dim, std::size_t rank);
/** Returns the size of x along dim; 1 where that dimension does not exist. */
std::int64_t length_along(const Tensor& x, std::int64_t dim);
std::optional<Sizes> broadcast(const std::optional<Sizes>& a, const Sizes& b);
std::optional<Sizes> reduced(const Sizes& x, const std::vector<std::int64_t>& dims, bool keepdim);
/** Returns x with the size of a dimension replaced; nothing where the dimension does not exist. */
std::optional<Sizes> resized(Sizes x, std::int64_t dim, Wide size);
/** Returns the number of windows over a padded dimension; 0 where none fits. */
Wide window_places(Wide padded, Wide kernel, Wide stride, Wide dilation);

}  // namespace fuzz
