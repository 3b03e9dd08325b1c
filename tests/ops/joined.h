// Helpers of the tests of fused ops: leaves, comparing lists bit for bit, recording op names.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "../../tensor/core/dispatch.h"
#include "samples.h"

namespace cases::joined {

using mezzo::Inputs, mezzo::OpInfo, mezzo::Outputs;

/** Returns normally distributed values on the device under test. */
inline Tensor leaf(const Shape& shape, DType dtype, double scale) {
  const mezzo::NoGrad no_grad;
  const Tensor x = (mezzo::randn(shape) * scale).to(dtype);
  return to_tensor(to_array(x), {}, dtype, Layout::contiguous).requires_grad_();
}

inline Agreement same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return all_agree(a, b, [](const Tensor& x, const Tensor& y) { return cases::same_bits(x, y); });
}
inline Agreement same_numbers(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return all_agree(a, b,
                   [](const Tensor& x, const Tensor& y) { return cases::same_numbers(x, y); });
}

/** Records the names of the ops that are called while in scope. */
struct Names final : mezzo::NestedTrace {
  std::vector<std::string> names;
  void trace(const OpInfo& info, Inputs in, Outputs out) override {
    NestedTrace::trace(info, in, out);
    names.emplace_back(info.traits.name);
  }
};

inline int count(const std::vector<std::string>& names, std::string_view name) {
  return static_cast<int>(std::count(names.begin(), names.end(), name));
}

/** Returns the name of the node that made x. */
inline std::string origin(const Tensor& x) { return mezzo::find_grad_state(x)->grad_fn->name(); }

}  // namespace cases::joined
