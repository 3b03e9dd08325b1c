// Calls of attention and their error against f64 on the CPU.
// See also: attention.cpp (any device), attention_kernels.cpp (own kernels),
// attention_library.cpp (cuDNN).
#pragma once

#include <mezzo.h>

#include <cmath>
#include <functional>
#include <vector>

#include "device.h"
#include "unverified.h"

namespace attention {

using namespace mezzo;
using testing::kDevice;

/** Disables cuDNN attention until the end of the scope. */
struct OwnKernels {
  OwnKernels() { enable_cudnn_sdp(false); }
  ~OwnKernels() { enable_cudnn_sdp(true); }
  OwnKernels(const OwnKernels&) = delete;
  OwnKernels& operator=(const OwnKernels&) = delete;
};

/** A call: f64 operands with values that 16-bit dtypes represent, the gradient of its result, and
 *  the options. */
struct Call {
  Tensor q, k, v, mask, g;
  AttentionOptions options = {};
  bool wants_mask_gradient = true;  // of a floating mask
  std::function<Tensor(const Tensor&)> layout = [](const Tensor& x) { return x; };
};

/** Returns the result and the gradients of q, k, v and, if wanted, a floating mask, all in f64 on
 *  the CPU. */
inline std::vector<Tensor> attention_results(const Call& call, DType dtype, Device device) {
  const auto placed = [&](const Tensor& x) {
    return call.layout(x.to(dtype).to(device)).detach().requires_grad_();
  };
  std::vector<Tensor> operands{placed(call.q), placed(call.k), placed(call.v)};
  AttentionOptions options = call.options;
  if (call.mask.defined()) {
    const bool floating = is_floating(call.mask.dtype());
    options.mask = (floating ? call.mask.to(dtype) : call.mask).to(device).detach();
    if (floating && call.wants_mask_gradient) operands.push_back(options.mask.requires_grad_());
  }
  manual_seed(5);
  const Tensor y = scaled_dot_product_attention(operands[0], operands[1], operands[2], options);
  const Tensor g = call.layout(call.g.to(dtype).to(device));
  std::vector<Tensor> all{y};
  for (const Tensor& gradient : grad(TensorList(y), operands, {}, TensorList(g)))
    all.push_back(gradient);
  for (Tensor& x : all) x = x.detach().to(cpu).to(f64);
  return all;
}

/** Returns the largest difference in units of the dtype's precision at the largest expected
 *  number. */
inline double error(const Tensor& got, const Tensor& expected, DType dtype) {
  if (expected.numel() == 0) return got.shape() == expected.shape() ? 0 : INFINITY;
  const double size = amax(abs(expected)).item<double>(),
               apart = amax(abs(got - expected)).item<double>();
  const double precision = dtype == f32 ? 0x1p-24 : dtype == f16 ? 0x1p-11 : 0x1p-8;
  return apart == 0 ? 0 : apart / (size * precision);
}

struct Sizes {
  std::int64_t queries, keys, features, values;
};

/** Draws numbers that both f16 and bf16 represent. */
inline Tensor drawn(const Shape& shape, double size = 1) {
  return (randn(shape) * size).to(bf16).to(f16).to(f64);
}

inline Call drawn_call(const Shape& batch, const Sizes& s, double size = 1) {
  const auto shape = [&](std::int64_t rows, std::int64_t columns) {
    Shape all = batch;
    all.push_back(rows);
    all.push_back(columns);
    return all;
  };
  return {.q = drawn(shape(s.queries, s.features), size),
          .k = drawn(shape(s.keys, s.features), size),
          .v = drawn(shape(s.keys, s.values)),
          .mask = {},
          .g = drawn(shape(s.queries, s.values))};
}

/** Returns whether the same elements are finite. */
inline bool alike(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (isfinite(a[i]).to_vector<double>() != isfinite(b[i]).to_vector<double>()) return false;
  return true;
}

/** Returns true if the device's results, by cuDNN where it serves the call, agree with those of our
 *  own kernels. Both round a result once, and cuDNN rounds probabilities, too. */
inline bool agrees_with_own_kernels(const Call& call, DType dtype) {
  const Unverified scope;  // shows what the library computes
  const std::vector<Tensor> got = attention_results(call, dtype, kDevice);
  const OwnKernels own;
  const std::vector<Tensor> expected = attention_results(call, dtype, kDevice);
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(error(got[i], expected[i], dtype) <= 4 / (1 - call.options.dropout_p))) return false;
  return true;
}

/** Returns true if repeated calls give the same bits. */
inline bool repeats(const Call& call, DType dtype) {
  const std::vector<Tensor> first = attention_results(call, dtype, kDevice);
  for (int run = 0; run < 3; ++run) {
    const std::vector<Tensor> again = attention_results(call, dtype, kDevice);
    for (std::size_t i = 0; i < first.size(); ++i)
      if (first[i].to_vector<double>() != again[i].to_vector<double>()) return false;
  }
  return true;
}

/** Returns q, k or v as a slice of one projection. */
inline Tensor third_of_rows(const Tensor& x) {
  const Tensor rows = x.transpose(-3, -2).contiguous();
  return cat({rows, rows, rows}, -2).slice(-2, x.size(-3), 2 * x.size(-3)).transpose(-3, -2);
}

}  // namespace attention
