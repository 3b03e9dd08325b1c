// List arithmetic on the CPU: axpby with its check, and norms.
#include <atomic>
#include <bit>
#include <cmath>
#include <numeric>

#include "blocks_cpu.h"

namespace mezzo::optim {

using namespace blocks;

namespace {

template <class V> bool is_finite(V x) { return x - x == 0; }

template <class V> bool any_non_finite(const V* x, std::int64_t n) {
  using Bits = std::conditional_t<sizeof(V) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kInfinity = sizeof(V) == 4 ? Bits{0x7F800000u} : static_cast<Bits>(0x7FF0000000000000ull);
  Bits found = 0;
  for (std::int64_t k = 0; k < n; ++k)
    found |= static_cast<Bits>((std::bit_cast<Bits>(x[k]) & kInfinity) == kInfinity);
  return found != 0;
}

enum AxpbyList : std::uint8_t { kX, kY, kOut };

/** out may be x or y, element for element. */
template <class V> void axpby_block(V a, const V* x, V b, const V* y, V* out, bool has_y, std::int64_t n) {
  if (has_y)
    for (std::int64_t k = 0; k < n; ++k) out[k] = a * x[k] + b * y[k];
  else
    for (std::int64_t k = 0; k < n; ++k) out[k] = a * x[k];
}

/** The first of n elements, of which the first is number `begin`, where a checked operand is not finite; there is one. */
template <class V>
BadValue::Word first_bad(const MultiItem& item, std::int64_t begin, const V* x, const V* y, std::int64_t n) {
  for (std::int64_t k = 0; k < n; ++k) {
    if (x && !is_finite(x[k])) return BadValue::word(item.index, begin + k, x[k]);
    if (y && !is_finite(y[k])) return BadValue::word(item.index, begin + k, y[k]);
  }
  return BadValue::kNone;
}

/** The first bad value. */
template <class V>
BadValue::Word axpby_piece(const MultiItem& item, const Piece& piece, const AxpbyCall& call) {
  const V a = static_cast<V>(call.a.value()), b = static_cast<V>(call.b.value());
  const bool has_y = item.data[kY] != nullptr;
  const bool check_x = call.check == CheckFinite::x || call.check == CheckFinite::either;
  const bool check_y = has_y && (call.check == CheckFinite::y || call.check == CheckFinite::either);
  Block<V> operands[3];
  BadValue::Word bad = BadValue::kNone;
  for (std::int64_t begin = piece.begin; begin < piece.end; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, piece.end - begin);
    const V* x = operands[kX].open(item, kX, begin, n, true);
    const V* y = operands[kY].open(item, kY, begin, n, true);
    if (bad == BadValue::kNone && ((check_x && any_non_finite(x, n)) || (check_y && any_non_finite(y, n))))
      bad = first_bad(item, begin, check_x ? x : nullptr, check_y ? y : nullptr, n);
    if (!item.data[kOut]) continue;
    V* out = operands[kOut].open(item, kOut, begin, n, false);
    axpby_block<V>(a, x, b, y, out, has_y, n);
    operands[kOut].store(n);
  }
  return bad;
}

void raise(float* flag) {
  if (flag) std::atomic_ref(*flag).store(1.0f, std::memory_order_relaxed);
}

void lower(BadValue::Word* least, BadValue::Word word) {
  if (!least) return;
  const std::atomic_ref noted(*least);
  BadValue::Word now = noted.load(std::memory_order_relaxed);
  while (word < now && !noted.compare_exchange_weak(now, word, std::memory_order_relaxed)) {}
}

void axpby_all(std::span<const MultiItem> items, const AxpbyCall& call) {
  for_each_piece(items, 0.7, [&](const Piece& piece, std::size_t) {
    const MultiItem& item = items[piece.item];
    const bool wide = item.dtype[item.data[kOut] ? kOut : kX] == DType::f64;
    const BadValue::Word bad =
        wide ? axpby_piece<double>(item, piece, call) : axpby_piece<float>(item, piece, call);
    if (bad == BadValue::kNone) return;
    raise(call.found_inf);
    lower(call.first, bad);
  });
}

/** Sum of squares in eight lanes, so that the order is fixed and the loop vectorises. */
template <class V> double squares(const V* x, std::int64_t n) {
  constexpr std::int64_t kLanes = 8;
  double lanes[kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j)
      lanes[j] += static_cast<double>(x[k + j]) * static_cast<double>(x[k + j]);
  for (; k < n; ++k) lanes[k % kLanes] += static_cast<double>(x[k]) * static_cast<double>(x[k]);
  return std::accumulate(std::begin(lanes), std::end(lanes), 0.0);
}

/** The larger of two magnitudes; NaN wins. */
double larger(double a, double b) { return b > a || std::isnan(b) ? b : a; }

template <class V> double norm_of_block(const V* x, std::int64_t n, double p) {
  if (p == 2) return squares(x, n);
  double result = 0;
  if (std::isinf(p)) {
    for (std::int64_t k = 0; k < n; ++k)
      result = std::isnan(result) ? result : larger(result, std::fabs(static_cast<double>(x[k])));
  } else {
    for (std::int64_t k = 0; k < n; ++k) result += std::pow(std::fabs(static_cast<double>(x[k])), p);
  }
  return result;
}

double combine(double a, double b, double p) {
  return std::isinf(p) ? (std::isnan(a) ? a : larger(a, b)) : a + b;
}

template <class V> double norm_of_piece(const MultiItem& item, const Piece& piece, double p, V factor) {
  Block<V> block;
  V scaled[kBlock];
  double result = 0;
  for (std::int64_t begin = piece.begin; begin < piece.end; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, piece.end - begin);
    const V* x = block.open(item, kX, begin, n, true);
    if (factor != 1) {
      for (std::int64_t k = 0; k < n; ++k) scaled[k] = x[k] * factor;
      x = scaled;
    }
    result = combine(result, norm_of_block<V>(x, n, p), p);
  }
  return result;
}

/** The norm whose powers add up to `sum`. */
double root(double sum, double p) {
  if (std::isinf(p)) return sum;
  return p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
}

void norm_all(std::span<const MultiItem> items, const NormCall& call) {
  std::vector<double>&partials = Scratch::here().partials, &sums = Scratch::here().sums;
  const std::vector<Piece>& pieces = cut(items);
  partials.assign(pieces.size(), 0);
  sums.assign(items.size(), 0);
  for_each_piece(items, 0.5, [&](const Piece& piece, std::size_t index) {
    const MultiItem& item = items[piece.item];
    partials[index] =
        item.dtype[kX] == DType::f64
            ? norm_of_piece<double>(item, piece, call.p, call.inv_scale.value())
            : norm_of_piece<float>(item, piece, call.p, static_cast<float>(call.inv_scale.value()));
  });
  double total = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    total = combine(total, partials[i], call.p);
    sums[pieces[i].item] = combine(sums[pieces[i].item], partials[i], call.p);
  }
  *call.total = root(total, call.p);
  for (std::size_t i = 0; i < items.size(); ++i) call.each[items[i].index] = root(sums[i], call.p);
  if (!std::isfinite(*call.total)) raise(call.found_inf);
}

}  // namespace

ListKernels& list_kernels(DeviceKind kind) {
  static std::array<ListKernels, kNumDeviceKinds> kernels{{{.axpby = &axpby_all, .norm = &norm_all}}};
  return kernels[static_cast<std::size_t>(kind)];
}

}  // namespace mezzo::optim
