// The element types of tensors, and the C++ type of each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace mezzo {

struct Half;
struct BFloat16;

/** The element type of a tensor. */
enum class DType : std::uint8_t { boolean, u8, i32, i64, f16, bf16, f32, f64 };

/** The number of enumerators of DType. */
inline constexpr int kNumDTypes = 8;

// Short names, so that user code reads x.to(f16).
inline constexpr DType boolean = DType::boolean;  // bool, one byte
inline constexpr DType u8 = DType::u8;            // unsigned 8-bit integer
inline constexpr DType i32 = DType::i32;          // signed 32-bit integer
inline constexpr DType i64 = DType::i64;          // signed 64-bit integer
inline constexpr DType f16 = DType::f16;          // IEEE half precision
inline constexpr DType bf16 = DType::bf16;        // bfloat16: the range of f32, 8 significant bits
inline constexpr DType f32 = DType::f32;          // IEEE single precision
inline constexpr DType f64 = DType::f64;          // IEEE double precision

/** The category of a dtype: bool is logical. Promotion orders them logical < integer < floating. */
enum class DTypeCategory : std::uint8_t { logical, integer, floating };

/** The facts about an element type. Whatever depends on a dtype is derived from them. */
struct DTypeInfo {
  std::string_view name;   // as printed: "bool", "f16", ...
  DTypeCategory category;  // promotion with another category takes the higher one
  std::uint8_t bits;       // of one element in memory
  std::uint8_t rank;  // promotion takes the higher rank; two types of one rank take their `wider`
  DType wider;        // the type that arithmetic runs in
};

/** One row per dtype, in the order of the enumerators. */
inline constexpr std::array<DTypeInfo, kNumDTypes> kDTypeTable{{
    {"bool", DTypeCategory::logical, 8, 0, DType::i64},
    {"u8", DTypeCategory::integer, 8, 1, DType::i64},
    {"i32", DTypeCategory::integer, 32, 2, DType::i64},
    {"i64", DTypeCategory::integer, 64, 3, DType::i64},
    {"f16", DTypeCategory::floating, 16, 4, DType::f32},
    {"bf16", DTypeCategory::floating, 16, 4, DType::f32},
    {"f32", DTypeCategory::floating, 32, 5, DType::f32},
    {"f64", DTypeCategory::floating, 64, 6, DType::f64},
}};

/** Returns the facts about a dtype. On the host only: device code has no such table. */
constexpr const DTypeInfo& dtype_info(DType t) { return kDTypeTable[static_cast<std::size_t>(t)]; }

/** Returns the name as printed in shapes and errors: "f16", "bool", ... */
constexpr std::string_view name(DType t) { return dtype_info(t).name; }

/** Returns the size of one element in bytes. */
constexpr std::size_t item_size(DType t) { return dtype_info(t).bits / 8u; }

/** Returns true for f16, bf16, f32 and f64. */
constexpr bool is_floating(DType t) { return dtype_info(t).category == DTypeCategory::floating; }
/** Returns true for u8, i32 and i64, not for bool. */
constexpr bool is_integer(DType t) { return dtype_info(t).category == DTypeCategory::integer; }
/** Returns true for the 16-bit types f16 and bf16. */
constexpr bool is_low(DType t) { return is_floating(t) && dtype_info(t).bits == 16; }

/** Returns the type that arithmetic on `t` uses: f32 for the 16-bit types and f32, f64 for f64, i64
 *  for integers and bool. */
constexpr DType compute_dtype(DType t) { return dtype_info(t).wider; }

/** Returns the dtype whose C++ storage type is T. Does not compile for other types. */
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

/** Returns the dtype that both promote to: the wider floating type, f32 for f16 with bf16, the
 *  larger integer; bool < integer < floating. */
constexpr DType promote(DType a, DType b) {
  if (a == b) return a;
  if (dtype_info(a).rank == dtype_info(b).rank) return dtype_info(a).wider;
  return dtype_info(a).rank > dtype_info(b).rank ? a : b;
}

}  // namespace mezzo
