// The element types a tensor may have, and the C++ type behind each.
// Sees: the standard library only.
// Read next: half.h (the two 16-bit storage types), shape.h, tensor.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace mezzo {

struct Half;
struct BFloat16;

enum class DType : std::uint8_t { boolean, u8, i32, i64, f16, bf16, f32, f64 };

inline constexpr int kNumDTypes = 8;

// Short names, so that user code reads x.to(f16).
inline constexpr DType boolean = DType::boolean;
inline constexpr DType u8 = DType::u8;
inline constexpr DType i32 = DType::i32;
inline constexpr DType i64 = DType::i64;
inline constexpr DType f16 = DType::f16;
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType f32 = DType::f32;
inline constexpr DType f64 = DType::f64;

namespace detail {
struct DTypeFacts {
  std::string_view name;
  std::uint8_t bytes;
};
inline constexpr std::array<DTypeFacts, kNumDTypes> kDTypeFacts{
    {{"bool", 1}, {"u8", 1}, {"i32", 4}, {"i64", 8}, {"f16", 2}, {"bf16", 2}, {"f32", 4}, {"f64", 8}}};
}  // namespace detail

/** Name as printed in shapes and errors: "f16", "bool", ... */
constexpr std::string_view name(DType t) { return detail::kDTypeFacts[static_cast<std::size_t>(t)].name; }

/** Bytes of one element. */
constexpr std::size_t item_size(DType t) { return detail::kDTypeFacts[static_cast<std::size_t>(t)].bytes; }

constexpr bool is_floating(DType t) { return t >= DType::f16; }
constexpr bool is_integer(DType t) { return t == DType::u8 || t == DType::i32 || t == DType::i64; }
constexpr bool is_low(DType t) { return t == DType::f16 || t == DType::bf16; }

/** The type arithmetic on `t` runs in: f32 for the 16-bit types and f32, f64 for f64, i64 for integers and bool. */
constexpr DType compute_dtype(DType t) {
  if (t == DType::f64) return DType::f64;
  return is_floating(t) ? DType::f32 : DType::i64;
}

template <class T> constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return DType::boolean;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return DType::u8;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<T, Half>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else {
    static_assert(std::is_same_v<T, double>, "no tensor element type corresponds to T");
    return DType::f64;
  }
}

/** Calls `f(std::type_identity<T>{})` with the C++ storage type of `t`; returns what f returns. */
template <class F> decltype(auto) visit_dtype(DType t, F&& f) {
  switch (t) {
    case DType::boolean: return f(std::type_identity<bool>{});
    case DType::u8: return f(std::type_identity<std::uint8_t>{});
    case DType::i32: return f(std::type_identity<std::int32_t>{});
    case DType::i64: return f(std::type_identity<std::int64_t>{});
    case DType::f16: return f(std::type_identity<Half>{});
    case DType::bf16: return f(std::type_identity<BFloat16>{});
    case DType::f32: return f(std::type_identity<float>{});
    case DType::f64: break;
  }
  return f(std::type_identity<double>{});
}

/** Widest of two floating types; f16 with bf16 gives f32 (AMP.md 5.4). Within integers the larger; bool < integer < floating. */
constexpr DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_low(a) && is_low(b)) return DType::f32;
  return a > b ? a : b;
}

}  // namespace mezzo
