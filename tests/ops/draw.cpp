// Drawing arguments for the fuzzer, and formulas for the shapes of results.
#include "fuzz.h"

#include <algorithm>
#include <limits>
#include <set>

#include "../support/device.h"

namespace fuzz {

using namespace mezzo;

std::vector<NamedRow>& all_rows() {
  static std::vector<NamedRow> rows;
  return rows;
}

// ---- drawing ------------------------------------------------------------------------------------

namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min(),
                       kMax = std::numeric_limits<std::int64_t>::max();
constexpr Wide kLargest = 100000;  // larger tensors are one element expanded
constexpr std::int64_t pow2(int n) { return std::int64_t{1} << n; }

constexpr std::int64_t kEnds[] = {kMax, kMax - 1, kMax - 2, kMax - 5, kMin, kMin + 1};
constexpr std::int64_t kNumbers[] = {kMin / 2,
                                     kMin / 4,
                                     -pow2(53),
                                     -pow2(32),
                                     -pow2(31),
                                     -pow2(31) - 1,
                                     -1000,
                                     -7,
                                     -3,
                                     -2,
                                     -1,
                                     0,
                                     1,
                                     2,
                                     7,
                                     100,
                                     65536,
                                     pow2(31) - 1,
                                     pow2(31),
                                     pow2(32),
                                     pow2(32) + 1,
                                     pow2(40),
                                     pow2(53) + 1,
                                     pow2(58),
                                     pow2(59),
                                     pow2(60),
                                     pow2(61),
                                     pow2(62),
                                     pow2(62) + 1,
                                     kMax / 3,
                                     kMax / 2 + 1};

const double kReals[] = {0.0,
                         -0.0,
                         1e-300,
                         5e-324,
                         1e-45,
                         -1e-8,
                         1e8,
                         -65520,
                         0x1p31,
                         0x1p32,
                         0x1p53,
                         0x1p59,
                         -0x1p63,
                         0x1p63,
                         1e19,
                         -1e19,
                         1e38,
                         1e300,
                         -1e300,
                         std::numeric_limits<double>::max(),
                         -std::numeric_limits<double>::max(),
                         std::numeric_limits<double>::infinity(),
                         -std::numeric_limits<double>::infinity(),
                         std::numeric_limits<double>::quiet_NaN()};

}  // namespace

FuzzDraw::FuzzDraw(std::uint64_t seed) : state_(seed) {
  calm_ = chance(0.4);
  wants_grad_ = chance(0.3);
}

/** The splitmix64 generator. */
std::uint64_t FuzzDraw::next() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

std::int64_t FuzzDraw::below(std::int64_t n) {
  return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
}

std::int64_t FuzzDraw::number(std::int64_t low, std::int64_t high) {
  if (!extreme()) return note(low + below(high - low + 1));
  return note(chance(0.4) ? kEnds[below(std::size(kEnds))] : kNumbers[below(std::size(kNumbers))]);
}

double FuzzDraw::real(double low, double high) {
  if (extreme()) return note(kReals[below(std::size(kReals))]);
  return note(low + (high - low) * uniform());
}

std::vector<std::int64_t> FuzzDraw::numbers(std::size_t most, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> items(
      static_cast<std::size_t>(below(static_cast<std::int64_t>(most) + 1)));
  for (std::int64_t& item : items) item = number(low, high);
  return items;
}

DType FuzzDraw::dtype() {
  if (chance(0.6)) return floating();
  return one_of({DType::i64, DType::i32, DType::u8, DType::boolean});
}

DType FuzzDraw::floating() {
  return chance(0.6) ? note(DType::f32) : one_of({DType::f64, DType::f16, DType::bf16});
}

Shape FuzzDraw::shape(int min_rank, int max_rank) {
  Shape shape;
  const std::int64_t rank = min_rank + below(max_rank - min_rank + 1);
  const bool has_zeros = chance(0.15);
  for (std::int64_t i = 0; i < rank; ++i)
    shape.push_back(has_zeros && chance(0.4) ? 0 : 1 + below(rank < 4 && chance(0.1) ? 40 : 5));
  if (rank >= 2 && extreme()) {
    const std::int64_t empty = below(rank), huge = (empty + 1 + below(rank - 1)) % rank;
    for (std::int64_t& size : shape) size = std::min<std::int64_t>(size, 2);
    shape[empty] = 0;
    shape[huge] =
        std::initializer_list<std::int64_t>{pow2(31), pow2(33), pow2(53)}.begin()[below(3)];
  }
  return note(shape);
}

Shape FuzzDraw::short_shape(int min_rank, int max_rank) {
  Shape shape = this->shape(min_rank, max_rank);
  for (std::int64_t& size : shape) size = std::min<std::int64_t>(size, 9);
  return shape;
}

Shape FuzzDraw::raw_shape(int rank, std::int64_t low, std::int64_t high) {
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(number(low, high));
  return shape;
}

Shape FuzzDraw::like(const Shape& shape) {
  if (chance(0.5)) return shape;
  if (chance(0.1)) return this->shape();
  Shape other;
  for (std::int64_t i = below(shape.rank() + 1); i < shape.rank(); ++i)
    other.push_back(chance(0.3) ? 1 : shape[i]);
  return note(other);
}

Tensor FuzzDraw::tensor(const Shape& wanted, DType dtype) {
  const NoGrad no_grad;
  const TensorOptions options{.dtype = dtype, .device = testing::test_device()};
  text_ += str(dtype, wanted, " ");
  if (count(sizes(wanted)) > kLargest) {
    const Tensor one = full(Shape::filled(wanted.rank(), 1), 0.5, options);
    if (wants_grad_ && is_floating(dtype)) leaves_.push_back(one.requires_grad_());
    return one.expand(wanted);
  }
  Shape shape = wanted;
  const bool turned = shape.rank() >= 2 && chance(0.15);
  const bool stepped = count(sizes(wanted)) > 0 && shape.rank() >= 1 && chance(0.15);
  if (turned) std::swap(shape[0], shape[shape.rank() - 1]);
  Shape stored = shape;
  if (stepped) stored[shape.rank() - 1] = 2 * shape.back() + 1;
  Tensor x = empty(stored, options);
  if (x.numel() > 0) {
    if (dtype == DType::boolean)
      bernoulli_(x);
    else if (is_floating(dtype))
      uniform_(x, -2, 2);
    else
      randint_(x, 0, 4);
    if (extreme() && dtype != DType::boolean)
      x.view({-1}).slice(0, below(x.numel()), x.numel(), 3).fill_(kReals[below(std::size(kReals))]);
  }
  if (stepped) x = x.slice(-1, 1, stored.back(), 2);
  if (turned) x = x.transpose(0, -1);
  x = x.detach();
  if (wants_grad_ && is_floating(dtype)) leaves_.push_back(x.requires_grad_());
  return x;
}

Tensor FuzzDraw::maybe_huge(int max_rank) {
  if (!extreme()) return tensor(shape(0, max_rank), dtype());
  Shape huge = shape(1, max_rank);
  for (std::int64_t& size : huge) size = 1;
  huge[below(huge.rank())] = one_of({pow2(25), pow2(31), pow2(33), pow2(59)});
  return tensor(huge, dtype());
}

Tensor FuzzDraw::index(const Shape& shape, std::int64_t size) {
  const NoGrad no_grad;
  const DType dtype = one_of({DType::i64, DType::i64, DType::i32});
  const TensorOptions options{.dtype = dtype, .device = testing::test_device()};
  text_ += str(dtype, shape, " ");
  if (count(sizes(shape)) > kLargest)
    return zeros(Shape::filled(shape.rank(), 1), options).expand(shape);
  const Tensor x = empty(shape, options);
  if (x.numel() > 0) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < x.numel(); ++i)
      values.push_back(static_cast<double>(below(std::max<std::int64_t>(size, 1))));
    if (extreme()) values[0] = static_cast<double>(kNumbers[below(std::size(kNumbers))]);
    x.copy_(mezzo::tensor(values, shape, {.dtype = x.dtype()}));
  }
  return x;
}

Tensor FuzzDraw::optional(const Shape& shape, DType dtype) {
  if (chance(0.5)) return {};
  return extreme() ? tensor() : tensor(shape, dtype);
}

// ---- formulas -----------------------------------------------------------------------------------

Sizes sizes(const Shape& shape) { return {shape.begin(), shape.end()}; }

Wide count(const Sizes& sizes) {
  constexpr Wide kMany = Wide{1} << 100;
  Wide product = 1;
  for (const Wide size : sizes)
    if (size == 0) return 0;
  for (const Wide size : sizes) product = size > kMany / product ? kMany : product * size;
  return product;
}

bool none_negative(const Sizes& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](Wide size) { return size >= 0; });
}

std::optional<std::size_t> resolved(std::int64_t dim, std::size_t rank) {
  const auto most = static_cast<std::int64_t>(rank == 0 ? 1 : rank);
  if (dim >= most || dim < -most) return std::nullopt;
  return static_cast<std::size_t>(dim < 0 ? dim + most : dim);
}

std::int64_t length_along(const Tensor& x, std::int64_t dim) {
  const auto at = resolved(dim, x.shape().size());
  return at && x.dim() > 0 ? x.shape()[static_cast<std::int64_t>(*at)] : 1;
}

std::optional<Sizes> broadcast(const std::optional<Sizes>& a, const Sizes& b) {
  if (!a) return a;
  Sizes out(std::max(a->size(), b.size()));
  for (std::size_t i = 1; i <= out.size(); ++i) {
    const Wide x = i <= a->size() ? (*a)[a->size() - i] : 1,
               y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out[out.size() - i] = x == 1 ? y : x;
  }
  return out;
}

std::optional<Sizes> reduced(const Sizes& x, const std::vector<std::int64_t>& dims, bool keepdim) {
  std::set<std::size_t> gone;
  for (const std::int64_t dim : dims) {
    const auto d = resolved(dim, x.size());
    if (!d || !gone.insert(*d).second) return std::nullopt;
  }
  Sizes out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool stays = !dims.empty() && !gone.count(i);
    if (stays || keepdim) out.push_back(stays ? x[i] : 1);
  }
  return out;
}

std::optional<Sizes> resized(Sizes x, std::int64_t dim, Wide size) {
  const auto d = resolved(dim, x.size());
  if (!d) return std::nullopt;
  if (!x.empty()) x[*d] = size;
  return x;
}

Wide window_places(Wide padded, Wide kernel, Wide stride, Wide dilation) {
  if (kernel < 1 || stride < 1 || dilation < 1) return 0;
  const Wide room = padded - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

}  // namespace fuzz
