// List kernels on the CPU: axpby with its check for non-finite values, and norms.
#include <atomic>
#include <bit>
#include <cmath>
#include <numeric>

#include "blocks_cpu.h"
#include "norm_sums.h"

namespace mezzo::optim {

using namespace blocks;

namespace {

template <class V> bool is_finite(V x) { return x - x == 0; }

template <class V> bool any_non_finite(const V* x, std::int64_t n) {
  using Bits = std::conditional_t<sizeof(V) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kInfinity =
      sizeof(V) == 4 ? Bits{0x7F800000u} : static_cast<Bits>(0x7FF0000000000000ull);
  Bits found = 0;
  for (std::int64_t k = 0; k < n; ++k)
    found |= static_cast<Bits>((std::bit_cast<Bits>(x[k]) & kInfinity) == kInfinity);
  return found != 0;
}

enum AxpbyList : std::uint8_t { kX, kY, kOut };

/** Computes a x + b y; out may be x or y. */
template <class V>
void axpby_block(V a, const V* x, V b, const V* y, V* out, bool has_y, std::int64_t n) {
  if (has_y)
    for (std::int64_t k = 0; k < n; ++k) out[k] = a * x[k] + b * y[k];
  else
    for (std::int64_t k = 0; k < n; ++k) out[k] = a * x[k];
}

/** Returns the location of the first non-finite value among the n values of x, which are the item's
 *  elements from `begin` on; kNone if there is none. */
template <class V>
NonfiniteWord first_nonfinite(const TensorListEntry& item, std::int64_t begin, const V* x,
                              std::int64_t n) {
  for (std::int64_t k = 0; k < n; ++k)
    if (!is_finite(x[k])) return nonfinite_word(item.index, begin + k, x[k]);
  return kAllFinite;
}

/** Computes one chunk and returns the location of its first non-finite value. */
template <class V>
NonfiniteWord axpby_chunk(const TensorListEntry& item, const Chunk& chunk, const AxpbyCall& call) {
  const V a = static_cast<V>(call.a.value()), b = static_cast<V>(call.b.value());
  const bool has_y = item.data[kY] != nullptr;
  const bool checks = call.found_inf != nullptr;
  Block<V> operands[3];
  NonfiniteWord bad = kAllFinite;
  for (std::int64_t begin = chunk.begin; begin < chunk.end; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, chunk.end - begin);
    const V* x = operands[kX].open(item, kX, begin, n, true);
    const V* y = operands[kY].open(item, kY, begin, n, true);
    if (checks && bad == kAllFinite && any_non_finite(x, n))
      bad = first_nonfinite(item, begin, x, n);
    if (!item.data[kOut]) continue;
    V* out = operands[kOut].open(item, kOut, begin, n, false);
    axpby_block<V>(a, x, b, y, out, has_y, n);
    operands[kOut].store(n);
  }
  return bad;
}

/** Stores the word if it is larger than the stored one: the first location wins. */
void raise(NonfiniteWord* most, NonfiniteWord word) {
  const std::atomic_ref noted(*most);
  NonfiniteWord now = noted.load(std::memory_order_relaxed);
  while (word > now && !noted.compare_exchange_weak(now, word, std::memory_order_relaxed)) {}
}

}  // namespace

void axpby_on_cpu(std::span<const TensorListEntry> items, const AxpbyCall& call) {
  for_each_chunk(items, 0.7, [&](const Chunk& chunk, std::size_t) {
    const TensorListEntry& item = items[chunk.item];
    const bool wide = item.dtype[item.data[kOut] ? kOut : kX] == DType::f64;
    const NonfiniteWord bad =
        wide ? axpby_chunk<double>(item, chunk, call) : axpby_chunk<float>(item, chunk, call);
    if (bad != kAllFinite) raise(call.found_inf, bad);
  });
}

namespace {

/** Returns the sum of squares, in eight lanes: the order is fixed and the loop vectorises. */
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

/** Returns the larger of two magnitudes; NaN if b is NaN. */
double larger(double a, double b) { return b > a || std::isnan(b) ? b : a; }

template <class V> double norm_of_block(const V* x, std::int64_t n, double p) {
  if (p == 2) return squares(x, n);
  double result = 0;
  if (std::isinf(p)) {
    for (std::int64_t k = 0; k < n; ++k)
      result = std::isnan(result) ? result : larger(result, std::fabs(static_cast<double>(x[k])));
  } else {
    for (std::int64_t k = 0; k < n; ++k)
      result += std::pow(std::fabs(static_cast<double>(x[k])), p);
  }
  return result;
}

double combine(double a, double b, double p) {
  return std::isinf(p) ? (std::isnan(a) ? a : larger(a, b)) : a + b;
}

/** Calls f(x, n) for the blocks of a chunk, multiplied by a factor. */
template <class V, class F>
void for_each_block(const TensorListEntry& item, const Chunk& chunk, V factor, F&& f) {
  Block<V> block;
  V scaled[kBlock];
  for (std::int64_t begin = chunk.begin; begin < chunk.end; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, chunk.end - begin);
    const V* x = block.open(item, kX, begin, n, true);
    if (factor != 1) {
      for (std::int64_t k = 0; k < n; ++k) scaled[k] = x[k] * factor;
      x = scaled;
    }
    f(x, n);
  }
}

/** Returns the norm from the sum of its powers. */
double root(double sum, double p) {
  if (std::isinf(p)) return sum;
  return p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
}

/** Returns the partial of a chunk, as norm_sums.h. */
template <class V>
double norm_of_chunk(const TensorListEntry& item, const Chunk& chunk, double p, V factor) {
  double sum = 0;
  for_each_block<V>(item, chunk, factor, [&](const V* x, std::int64_t n) {
    sum = combine(sum, norm_of_block<V>(x, n, p), p);
  });
  if (!is_out_of_range<V>(sum, p)) return sum;
  double largest = 0, scaled = 0;
  for_each_block<V>(item, chunk, factor, [&](const V* x, std::int64_t n) {
    for (std::int64_t k = 0; k < n; ++k)
      largest = std::max(largest, std::fabs(static_cast<double>(x[k])));
  });
  if (!can_divide_by(largest)) return sum;
  for_each_block<V>(item, chunk, factor, [&](const V* x, std::int64_t n) {
    for (std::int64_t k = 0; k < n; ++k)
      scaled += std::pow(std::fabs(static_cast<double>(x[k])) / largest, p);
  });
  return norm_partial(largest * root(scaled, p));
}

/** Combines partials that at(i) gives into one. */
template <class At> double combine_partials(std::size_t count, double p, const At& at) {
  double sum = 0;
  bool has_norms = false;
  for (std::size_t i = 0; i < count; ++i) {
    sum = combine(sum, at(i), p);
    has_norms = has_norms || is_norm(at(i));
  }
  if (!has_norms) return sum;
  const auto norm = [&](std::size_t i) { return is_norm(at(i)) ? norm_of(at(i)) : root(at(i), p); };
  double largest = 0, scaled = 0;
  for (std::size_t i = 0; i < count; ++i)
    largest = std::isnan(largest) ? largest : larger(largest, norm(i));
  if (!can_divide_by(largest)) return largest;
  for (std::size_t i = 0; i < count; ++i) scaled += std::pow(norm(i) / largest, p);
  return norm_partial(largest * root(scaled, p));
}

}  // namespace

void norm_on_cpu(std::span<const TensorListEntry> items, const NormCall& call) {
  std::vector<double>&partials = Scratch::here().partials, &sums = Scratch::here().sums;
  const std::vector<Chunk>& chunks = chunks_of(items);
  partials.assign(chunks.size(), 0);
  sums.assign(items.size(), 0);
  for_each_chunk(items, 0.5, [&](const Chunk& chunk, std::size_t index) {
    const TensorListEntry& item = items[chunk.item];
    partials[index] =
        item.dtype[kX] == DType::f64
            ? norm_of_chunk<double>(item, chunk, call.p, call.inv_scale.value())
            : norm_of_chunk<float>(item, chunk, call.p, static_cast<float>(call.inv_scale.value()));
  });
  const auto finished = [&](double partial) {
    return is_norm(partial) ? norm_of(partial) : root(partial, call.p);
  };
  *call.total =
      finished(combine_partials(chunks.size(), call.p, [&](std::size_t i) { return partials[i]; }));
  for (std::size_t i = 0, first = 0; i < items.size(); ++i) {
    std::size_t end = first;
    while (end < chunks.size() && chunks[end].item == i) ++end;
    call.each[items[i].index] = finished(
        combine_partials(end - first, call.p, [&](std::size_t k) { return partials[first + k]; }));
    first = end;
  }
  if (call.found_inf && !std::isfinite(*call.total)) *call.found_inf = 1;
}

}  // namespace mezzo::optim
