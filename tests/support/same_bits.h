// same_bits(), same_numbers(): comparisons whose failures name the first place that differs.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "../../tensor/text/text.h"
#include "catch.h"
#include "device.h"

namespace mezzo::testing {

/** The result of a comparison; true where it holds. A CHECK that fails prints the text. */
struct Agreement {
  bool holds = true;
  std::string text = "the same";
  operator bool() const { return holds; }
};

namespace detail {

/** Returns the bits of an element. */
inline std::uint64_t bits_at(const Tensor& x, std::int64_t i) {
  const std::size_t bytes = item_size(x.dtype());
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(x.raw_data()) + static_cast<std::size_t>(i) * bytes,
              bytes);
  return bits;
}

/** Returns how many numbers of the dtype lie between two floating-point elements, plus one; 0 where
 *  they are equal, ±0 included. */
inline std::uint64_t steps_between(DType dtype, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sign = std::uint64_t{1} << (8 * item_size(dtype) - 1);
  const bool apart = (a & sign) != (b & sign);
  a &= ~sign;
  b &= ~sign;
  return apart ? a + b : a > b ? a - b : b - a;
}

/** Returns the places of x as indices, for example "[1, 3]". */
inline std::string place(const Shape& shape, std::int64_t i) {
  std::vector<std::int64_t> index;
  for (int d = shape.rank() - 1; d >= 0; i /= shape[d--]) index.push_back(i % shape[d]);
  std::string text = "[";
  for (std::size_t d = index.size(); d > 0; --d) text += str(index[d - 1], d > 1 ? ", " : "");
  return text + "]";
}

inline Tensor at_home(const Tensor& x) { return x.detach().contiguous().to(cpu); }

/** Compares with equal(place) and describes the first place that differs. */
template <class Equal>
Agreement compared(const Tensor& got, const Tensor& expected, const Tensor& operand,
                   const Equal& equal) {
  const std::int64_t n = got.numel();
  std::int64_t first = -1, count = 0;
  for (std::int64_t i = 0; i < n; ++i)
    if (!equal(i)) {
      if (count++ == 0) first = i;
    }
  if (count == 0) return {};
  const std::vector<double> a = got.to_vector<double>(), b = expected.to_vector<double>();
  const auto at = static_cast<std::size_t>(first);
  std::string text = str(place(got.shape(), first), ": got ", a[at], ", expected ", b[at]);
  if (operand.defined() && operand.numel() == n)
    text += str(", of operand ", at_home(operand).to_vector<double>()[at]);
  if (is_floating(got.dtype()) && !std::isnan(a[at]) && !std::isnan(b[at]))
    text += str(", ",
                static_cast<std::int64_t>(
                    steps_between(got.dtype(), bits_at(got, first), bits_at(expected, first))),
                " ulps apart");
  return {false, str(text, "; ", count, " of ", n, " differ")};
}

inline Agreement same_kind(const Tensor& got, const Tensor& expected) {
  if (got.shape() == expected.shape() && got.dtype() == expected.dtype()) return {};
  return {false, str("got ", got.dtype(), " ", got.shape(), ", expected ", expected.dtype(), " ",
                     expected.shape())};
}

}  // namespace detail

/** Compares shape, dtype and bits. On a GPU any nan equals any nan: an instruction may return
 *  another payload. `operand`: printed beside the first place that differs, if of this size. */
inline Agreement same_bits(const Tensor& got, const Tensor& expected, const Tensor& operand = {}) {
  if (const Agreement kind = detail::same_kind(got, expected); !kind) return kind;
  const Tensor a = detail::at_home(got), b = detail::at_home(expected);
  if (a.numel() == 0 ||
      std::memcmp(a.raw_data(), b.raw_data(),
                  static_cast<std::size_t>(a.numel()) * item_size(a.dtype())) == 0)
    return {};
  std::vector<double> x, y;
  if (is_floating(a.dtype()) && is_gpu(test_device())) {
    x = a.to_vector<double>();
    y = b.to_vector<double>();
  }
  return detail::compared(a, b, operand, [&](std::int64_t i) {
    if (detail::bits_at(a, i) == detail::bits_at(b, i)) return true;
    const auto at = static_cast<std::size_t>(i);
    return !x.empty() && std::isnan(x[at]) && std::isnan(y[at]);
  });
}

/** Compares bits on the CPU and the emulated device. On a GPU, where a library may choose another
 *  algorithm for another layout, or zeros have another sign, compares numbers: `roundings` half
 *  units of the dtype at the largest one. */
inline Agreement same_numbers(const Tensor& got, const Tensor& expected, double roundings = 8) {
  const Agreement bits = same_bits(got, expected);
  if (bits || !is_gpu(test_device()) || !is_floating(got.dtype()) ||
      !detail::same_kind(got, expected))
    return bits;
  const Tensor a = detail::at_home(got), b = detail::at_home(expected);
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double largest = 0;
  for (const double number : y)
    if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
  const double unit = a.dtype() == DType::f16    ? 0x1p-11
                      : a.dtype() == DType::bf16 ? 0x1p-8
                      : a.dtype() == DType::f32  ? 0x1p-21
                                                 : 0x1p-46;
  return detail::compared(a, b, {}, [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    return x[at] == y[at] || (std::isnan(x[at]) && std::isnan(y[at])) ||
           std::abs(x[at] - y[at]) <= roundings * unit * largest;
  });
}

/** Compares bits on the CPU and the emulated device; on a GPU, whose approximate instructions
 *  differ in the last bits of f32, accepts numbers that are one step of their 16-bit dtype
 *  apart. */
inline Agreement within_one_step(const Tensor& got, const Tensor& expected, const Tensor& operand) {
  const Agreement bits = same_bits(got, expected, operand);
  if (bits || !is_gpu(test_device()) || !detail::same_kind(got, expected)) return bits;
  const Tensor a = detail::at_home(got), b = detail::at_home(expected);
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  Agreement near = detail::compared(a, b, operand, [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    if (std::isnan(x[at]) || std::isnan(y[at])) return std::isnan(x[at]) && std::isnan(y[at]);
    return detail::steps_between(a.dtype(), detail::bits_at(a, i), detail::bits_at(b, i)) <= 1;
  });
  if (near) near.text = "within one step; " + bits.text;
  return near;
}

/** Compares lists, each pair by `compare`. */
template <class Compare>
Agreement all_agree(const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                    const Compare& compare) {
  if (got.size() != expected.size())
    return {false, str("got ", got.size(), " results, expected ", expected.size())};
  for (std::size_t i = 0; i < got.size(); ++i)
    if (const Agreement one = compare(got[i], expected[i]); !one)
      return {false, str("result ", i, " at ", one.text)};
  return {};
}

}  // namespace mezzo::testing

namespace Catch {
template <> struct StringMaker<mezzo::testing::Agreement> {
  static std::string convert(const mezzo::testing::Agreement& a) { return a.text; }
};
}  // namespace Catch
