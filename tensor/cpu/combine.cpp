#include "combine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "convert.h"

namespace mezzo::cpu_kernels {

namespace {

using comm::Op;

constexpr std::int64_t kStage = 1024;  // elements per buffer, which fits the L1 cache

template <class T> constexpr bool kIsLow = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <Op op, class T> MZ_ALWAYS_INLINE T combined(T a, T b) {
  if constexpr (op == Op::sum && std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else if constexpr (op == Op::sum) {
    return a + b;
  } else if constexpr (std::is_integral_v<T>) {
    return op == Op::max ? std::max(a, b) : std::min(a, b);
  } else {
    if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) == (op == Op::max) ? b : a;
    return (a > b) == (op == Op::max) ? a : b;
  }
}

template <Op op, class T> void combine_typed(const T* from, T* into, std::int64_t n) {
  if constexpr (kIsLow<T>) {
    alignas(64) float a[kStage], b[kStage];
    for (std::int64_t at = 0; at < n; at += kStage) {
      const std::int64_t count = std::min(kStage, n - at);
      widen(into + at, a, count);
      widen(from + at, b, count);
      for (std::int64_t i = 0; i < count; ++i) a[i] = combined<op>(a[i], b[i]);
      narrow(a, into + at, count);
    }
  } else {
    MZ_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) into[i] = combined<op>(into[i], from[i]);
  }
}

template <class T>
void sum_low_typed(std::span<const void* const> parts, float factor, T* out, std::int64_t n) {
  alignas(64) float sum[kStage], part[kStage];
  for (std::int64_t at = 0; at < n; at += kStage) {
    const std::int64_t block = std::min(kStage, n - at);
    widen(static_cast<const T*>(parts[0]) + at, sum, block);
    for (const void* const other : parts.subspan(1)) {
      widen(static_cast<const T*>(other) + at, part, block);
      for (std::int64_t i = 0; i < block; ++i) sum[i] += part[i];
    }
    for (std::int64_t i = 0; i < block; ++i) sum[i] *= factor;
    narrow(sum, out + at, block);
  }
}

template <class T> void multiply_typed(double factor, T* data, std::int64_t n) {
  if constexpr (kIsLow<T>) {
    alignas(64) float a[kStage];
    for (std::int64_t at = 0; at < n; at += kStage) {
      const std::int64_t count = std::min(kStage, n - at);
      widen(data + at, a, count);
      for (std::int64_t i = 0; i < count; ++i) a[i] *= static_cast<float>(factor);
      narrow(a, data + at, count);
    }
  } else {
    MZ_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) data[i] *= static_cast<T>(factor);
  }
}

}  // namespace

void combine(DType dtype, Op op, const void* from, void* into, std::int64_t n) {
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, bool>) {
      const auto* a = static_cast<const T*>(from);
      auto* b = static_cast<T*>(into);
      switch (op) {
        case Op::sum: return combine_typed<Op::sum>(a, b, n);
        case Op::max: return combine_typed<Op::max>(a, b, n);
        case Op::min: return combine_typed<Op::min>(a, b, n);
      }
    }
  });
}

void sum_low_in_f32(DType dtype, std::span<const void* const> parts, float factor, void* out,
                    std::int64_t n) {
  if (dtype == f16)
    sum_low_typed(parts, factor, static_cast<Half*>(out), n);
  else
    sum_low_typed(parts, factor, static_cast<BFloat16*>(out), n);
}

void multiply(DType dtype, double factor, void* data, std::int64_t n) {
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_integral_v<T>) multiply_typed(factor, static_cast<T*>(data), n);
  });
}

}  // namespace mezzo::cpu_kernels
