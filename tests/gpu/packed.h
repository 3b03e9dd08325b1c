// Comparison of the kernels on 16-byte packs with those that take any layout, and with the CPU.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <vector>

#include "alike.h"

namespace packed {

using namespace mezzo;
using alike::kDevice;

inline constexpr DType kDtypes[] = {f16, bf16, f32};

/** Returns the values of x at an address that is no multiple of 16 bytes. */
inline Tensor unaligned(const Tensor& x) {
  const Tensor all = zeros({x.numel() + 1}, {.dtype = x.dtype(), .device = x.device()});
  const Tensor view = all.slice(0, 1, x.numel() + 1).view(x.shape());
  view.copy_(x);
  return view;
}

/** Returns the largest difference of all values, relative to 1 + |expected|. */
inline double greatest_distance(const std::vector<Tensor>& got,
                                const std::vector<Tensor>& expected) {
  double greatest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double apart = alike::distance(got[i].to(cpu).to(f64), expected[i].to(cpu).to(f64));
    greatest = apart > greatest || apart != apart ? apart : greatest;
  }
  return greatest;
}

/** Checks f and its gradients for operands of which the first is of `dtype`: against the CPU in
 * f64, against the kernels for any layout, and that a second run gives the same bits. `loose` is a
 * factor for the first, where a gradient is computed from a rounded result. */
template <class F> void check(const std::vector<Tensor>& operands, const F& f, double loose = 1) {
  const DType dtype = operands[0].dtype();
  const double tolerance = dtype == bf16 ? 1e-2 : dtype == f16 ? 1.5e-3 : 3e-5;
  std::vector<Tensor> exact, there, elsewhere;
  for (const Tensor& x : operands) {
    exact.push_back(is_floating(x.dtype()) ? x.to(f64) : x);
    there.push_back(x.to(kDevice));
    elsewhere.push_back(unaligned(there.back()));
  }
  const std::vector<Tensor> expected = alike::results_on(cpu, exact, f),
                            got = alike::results_on(kDevice, there, f),
                            again = alike::results_on(kDevice, there, f),
                            generic = alike::results_on(kDevice, elsewhere, f);
  INFO(name(dtype) << " " << str(operands[0].shape()));
  CHECK(greatest_distance(got, expected) < loose * tolerance);
  CHECK(greatest_distance(generic, expected) < loose * tolerance);
  CHECK(greatest_distance(got, generic) < tolerance);
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(got[i].to_vector<double>() == again[i].to_vector<double>());
}

/** Calls f(dtype) for every dtype; on a slow device for one, that of this turn. */
template <class F> void for_each_dtype(std::size_t& turn, const F& f) {
  for (const DType dtype : kDtypes)
    if (!testing::is_slow(kDevice) || dtype == kDtypes[turn % std::size(kDtypes)]) f(dtype);
  ++turn;
}

/** Calls f(shape, dtype) for all of both; on a slow device with the dtypes in turn. */
template <class F> void for_each_shape(std::initializer_list<Shape> shapes, const F& f) {
  std::size_t turn = 0;
  for (const Shape& shape : shapes) for_each_dtype(turn, [&](DType dtype) { f(shape, dtype); });
}

/** Calls f(width, dtype) for widths of 1 to 1025: all small ones, then those of packs of f32 and
 * some others, with dtypes in turn; and for the widths of known nets. On a slow device one in nine
 * of those of 34 to 1025, and the dtypes always in turn. */
template <class F> void for_each_width(const F& f) {
  std::size_t turn = 0;
  const auto with_each = [&](std::int64_t width) {
    for_each_dtype(turn, [&](DType dtype) { f(width, dtype); });
  };
  for (std::int64_t width = 1; width <= 33; ++width) with_each(width);
  const std::int64_t step = testing::is_slow(kDevice) ? 9 : 1;
  for (std::int64_t width = 34; width <= 1025; ++width)
    if (width % (4 * step) == 0 || width % (32 * step) == 1)
      f(width, kDtypes[turn++ % std::size(kDtypes)]);
  for (const std::int64_t width : {384, 768, 4096, 50304}) with_each(width);
}

}  // namespace packed
