// The argument fuzzer: calls of every op with drawn arguments, and the result's shape by a formula
// of its own.
// Sees: mezzo.h.
// Read next: fuzz.cpp (the driver), fuzz_rows_*.cpp (the rows).
//
// A row draws arguments and says what they give. An op of the registry without a row fails the
// suite.
//
//   add_row("trace", [](Draw& d) {
//     const Tensor x = d.tensor();
//     return Trial{[=] { return list(trace(x)); }, x.dim() == 2 ? gives({}) : refused()};
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <mezzo.h>

namespace fuzz {

using mezzo::DType;
using mezzo::Shape;
using mezzo::Tensor;

__extension__ using Wide = __int128;  // holds every sum of products of two 64-bit numbers

/** Sizes of one result. kAny stands for a size that the values of the operands decide. */
using Sizes = std::vector<Wide>;
inline constexpr Wide kAny = -1;

/** What a call gives: the shapes of its results, or nothing where it has to throw. */
using Expected = std::optional<std::vector<Sizes>>;

inline Expected refused() { return std::nullopt; }
inline Expected gives(Sizes sizes) { return std::vector<Sizes>{std::move(sizes)}; }
inline Expected gives(const std::optional<Sizes>& sizes) { return sizes ? gives(*sizes) : refused(); }
inline Expected gives_both(const std::optional<Sizes>& sizes) {
  return sizes ? Expected(std::vector<Sizes>{*sizes, *sizes}) : refused();
}

/** A call with its arguments, made once and not before everything was drawn. */
struct Trial {
  std::function<std::vector<Tensor>()> call;
  Expected expected;
};

/** Where sizes, numbers and values come from: reproducible from the seed. */
class Draw {
 public:
  explicit Draw(std::uint64_t seed);

  /** All arguments so far, in words. */
  const std::string& text() const { return text_; }
  /** Floating operands that want a gradient. */
  const std::vector<Tensor>& leaves() const { return leaves_; }

  std::int64_t below(std::int64_t n);
  bool chance(double p) { return uniform() < p; }
  template <class T> T one_of(std::initializer_list<T> items) {
    return note(items.begin()[below(static_cast<std::int64_t>(items.size()))]);
  }
  bool flag() { return note(chance(0.5)); }

  /** A usual number from low..high, or at times an extreme one. */
  std::int64_t number(std::int64_t low = 0, std::int64_t high = 4);
  /** A usual value, or at times nan, infinite, huge or tiny. */
  double real(double low = -2, double high = 2);
  /** A dimension of `rank`, or at times one that does not exist. */
  std::int64_t dim(int rank) { return number(-rank, rank > 0 ? rank - 1 : 0); }
  std::vector<std::int64_t> numbers(std::size_t most, std::int64_t low = 0, std::int64_t high = 4);

  DType dtype();
  DType floating();
  /** Small sizes, zeros among them, or at times sizes up to 2^62 beside a zero. */
  Shape shape(int min_rank = 0, int max_rank = 4);
  /** The same with at most 9 elements along each dimension: for calls that make one view for each,
   *  and results that are larger. */
  Shape short_shape(int min_rank = 0, int max_rank = 4);
  /** Numbers in place of sizes, which may be out of range. */
  Shape raw_shape(int rank, std::int64_t low = 0, std::int64_t high = 4);
  /** Shape that broadcasts with `shape`, most of the time. */
  Shape like(const Shape& shape);

  /** A tensor in some memory layout; huge sizes are there only beside a zero. */
  Tensor tensor(const Shape& shape, DType dtype);
  Tensor tensor() { return tensor(shape(), dtype()); }
  Tensor floats(const Shape& shape) { return tensor(shape, floating()); }
  Tensor floats(int min_rank, int max_rank) { return floats(shape(min_rank, max_rank)); }
  /** At times one element seen as up to 2^59. For ops whose result is as large as the operand,
   *  which memory refuses. */
  Tensor maybe_huge(int max_rank = 4);
  /** Indices into `size` places, or at times beyond them. */
  Tensor index(const Shape& shape, std::int64_t size);
  Tensor mask(const Shape& shape) { return tensor(shape, DType::boolean); }
  /** A tensor of this shape, one of any shape at times, or none. */
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

using Row = Trial (*)(Draw& d);

struct NamedRow {
  std::string op;
  Row draw;
};

std::vector<NamedRow>& all_rows();
inline void add_row(const char* op, Row row) { all_rows().push_back({op, row}); }

/** Runs the additions of a file before the tests. */
struct Rows {
  explicit Rows(void (*add)()) { add(); }
};

// ---- results -----------------------------------------------------------------------------------

inline std::vector<Tensor> list(const Tensor& x) { return {x}; }
inline std::vector<Tensor> list(const mezzo::ValuesAndIndices& x) { return {x.values, x.indices}; }

// ---- formulas, in 128 bits and by none of the library's functions ------------------------------

Sizes sizes(const Shape& shape);
inline Sizes sizes(const Tensor& x) { return sizes(x.shape()); }
/** Product of all sizes. Saturates far above 2^64. */
Wide count(const Sizes& sizes);
bool none_negative(const Sizes& sizes);
/** The dimension meant; nothing where there is none. A 0-dim tensor has dimension 0. */
std::optional<std::size_t> resolved(std::int64_t dim, std::size_t rank);
/** The size of x along dim, where that dimension exists; 1 elsewhere. */
std::int64_t length_along(const Tensor& x, std::int64_t dim);
std::optional<Sizes> broadcast(const std::optional<Sizes>& a, const Sizes& b);
std::optional<Sizes> reduced(const Sizes& x, const std::vector<std::int64_t>& dims, bool keepdim);
/** x with the size of a dimension replaced; nothing where the dimension does not exist. */
std::optional<Sizes> resized(Sizes x, std::int64_t dim, Wide size);
/** Places of a window over a padded dimension; 0 where not one fits. */
Wide window_places(Wide padded, Wide kernel, Wide stride, Wide dilation);

}  // namespace fuzz
