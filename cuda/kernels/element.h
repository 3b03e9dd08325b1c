// Loads and stores of elements of any dtype, converted to and from the compute type.
#pragma once

#include "../../tensor/core/convert_value.h"
#include "../../tensor/core/dtype.h"
#include "kernel.h"

namespace mezzo::gpu {

/** Converts a 16-bit float to f32, with the GPU's instruction. */
__device__ inline float widened(Half x) {
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
#else
  return static_cast<float>(x);
#endif
}
__device__ inline float widened(BFloat16 x) { return static_cast<float>(x); }

/** Rounds a float to a 16-bit type, to nearest even. */
template <class T> __device__ inline T narrowed(float x);
template <> __device__ inline Half narrowed<Half>(float x) {
#ifdef __CUDA_ARCH__
  Half half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(x));
  return half;
#else
  return Half(x);
#endif
}
template <> __device__ inline BFloat16 narrowed<BFloat16>(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  BFloat16 value;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(value.bits) : "f"(x));
  return value;
#else
  return BFloat16(x);
#endif
}

/** Converts a value as mezzo::converted does, with the instructions above. */
template <class To, class From> __device__ inline To element_as(From x) {
  if constexpr (mezzo::detail::kIsHalf<From> && !std::is_same_v<To, From>)
    return element_as<To>(widened(x));
  else if constexpr (mezzo::detail::kIsHalf<To> && std::is_same_v<From, float>)
    return narrowed<To>(x);
  else
    return converted<To>(x);
}

/** Loads element `at` of an array of any dtype, converted to C. */
template <class C>
__device__ inline C load_element(const void* data, DType dtype, std::int64_t at) {
  switch (dtype) {
    case DType::boolean:  // any byte may come from a file
      return static_cast<C>(static_cast<const std::uint8_t*>(data)[at] != 0);
    case DType::u8: return element_as<C>(static_cast<const std::uint8_t*>(data)[at]);
    case DType::i32: return element_as<C>(static_cast<const std::int32_t*>(data)[at]);
    case DType::i64: return element_as<C>(static_cast<const std::int64_t*>(data)[at]);
    case DType::f16: return element_as<C>(static_cast<const Half*>(data)[at]);
    case DType::bf16: return element_as<C>(static_cast<const BFloat16*>(data)[at]);
    case DType::f32: return element_as<C>(static_cast<const float*>(data)[at]);
    case DType::f64: break;
  }
  return element_as<C>(static_cast<const double*>(data)[at]);
}

template <class C>
__device__ inline void store_element(void* data, DType dtype, std::int64_t at, C value) {
  switch (dtype) {
    case DType::boolean: static_cast<bool*>(data)[at] = element_as<bool>(value); break;
    case DType::u8: static_cast<std::uint8_t*>(data)[at] = element_as<std::uint8_t>(value); break;
    case DType::i32: static_cast<std::int32_t*>(data)[at] = element_as<std::int32_t>(value); break;
    case DType::i64: static_cast<std::int64_t*>(data)[at] = element_as<std::int64_t>(value); break;
    case DType::f16: static_cast<Half*>(data)[at] = element_as<Half>(value); break;
    case DType::bf16: static_cast<BFloat16*>(data)[at] = element_as<BFloat16>(value); break;
    case DType::f32: static_cast<float*>(data)[at] = element_as<float>(value); break;
    case DType::f64: static_cast<double*>(data)[at] = element_as<double>(value); break;
  }
}

/** `count` adjacent elements, which the GPU moves in words of up to 16 bytes. */
template <class T, int count> struct alignas(sizeof(T) * count < 16 ? sizeof(T) * count : 16) Pack {
  T item[count];
};

}  // namespace mezzo::gpu
