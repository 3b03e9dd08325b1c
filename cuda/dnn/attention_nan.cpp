// The check that cuDNN's attention keeps NaN.
#include <algorithm>
#include <cmath>
#include <vector>

#include "../../tensor/core/half.h"
#include "../../tensor/memory/transfer.h"
#include "../kernels/attention/attention_masks.h"
#include "../runtime/device.h"
#include "attention_library.h"

namespace mezzo::gpu {

namespace {

using dnn::Attention;

/** Returns workspace of `bytes` bytes, all of which are 0, or 0xFF, which is NaN in every dtype. */
Tensor filled(std::int64_t bytes, bool nan, Device device) {
  const CategoryScope scope(MemoryCategory::workspace);
  const Tensor x = empty_tensor({bytes}, DType::u8, device);
  const std::vector<unsigned char> values(static_cast<std::size_t>(bytes), nan ? 0xFF : 0);
  upload(x, values.data(), values.size());
  return x;
}

/** Returns true if the first `count` elements, of a floating-point dtype, are NaN. */
bool begins_with_nan(const Tensor& x, std::int64_t count, DType dtype) {
  return visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!is_floating(dtype_of<T>())) {
      return false;
    } else {
      std::vector<T> values(static_cast<std::size_t>(count));
      const auto bytes = static_cast<std::int64_t>(sizeof(T)) * count;
      download(alias(x, {bytes}, {1}, 0), values.data(), static_cast<std::size_t>(bytes));
      return std::all_of(values.begin(), values.end(),
                         [](T value) { return std::isnan(static_cast<double>(value)); });
    }
  });
}

}  // namespace

bool attention_keeps_nan(const Attention& kind, Device device) {
  const bool gradients = kind.wanted == Attention::Wanted::gradients;
  Attention problem = kind;
  std::vector<Tensor> memory;
  const auto array = [&](Attention::Rows& rows, std::int64_t heads, std::int64_t length,
                         std::int64_t columns, bool nan) {
    const std::int64_t elements = (kind.entries - 1) * rows.entry + (heads - 1) * rows.head +
                                  (length - 1) * rows.row + columns;
    memory.push_back(filled(2 * elements, nan, device));
    rows.data = memory.back().raw_data();
    return memory.back();
  };
  array(problem.q, kind.heads, kind.queries, kind.features, !gradients);
  array(problem.k, kind.key_heads, kind.keys, kind.features, false);
  array(problem.v, kind.key_heads, kind.keys, kind.values, false);
  const Tensor y = array(problem.y, kind.heads, kind.queries, kind.values, false);
  Tensor dq, dk, dv;
  if (gradients) {
    array(problem.g, kind.heads, kind.queries, kind.values, true);
    dq = array(problem.dq, kind.heads, kind.queries, kind.features, false);
    dk = array(problem.dk, kind.key_heads, kind.keys, kind.features, false);
    dv = array(problem.dv, kind.key_heads, kind.keys, kind.values, false);
  }
  const Tensor log_sums = filled(4 * kind.entries * kind.heads * kind.queries, false, device);
  problem.log_sums = log_sums.raw_data();
  Tensor bias, kept;
  if (kind.bias.exists()) {
    bias = filled(kind.bias_bytes(), false, device);
    problem.bias.data = bias.raw_data();
  }
  if (kind.drops) {
    kept = kept_probabilities(problem, {}, 0, device);
    problem.kept = kept.raw_data();
  }
  if (!dnn::attend(problem, device, current_stream(device))) return false;
  if (!gradients) return begins_with_nan(y, kind.values, kind.dtype);
  return begins_with_nan(dq, kind.features, kind.dtype) &&
         begins_with_nan(dk, kind.features, kind.dtype) &&
         begins_with_nan(dv, kind.values, kind.dtype);
}

}  // namespace mezzo::gpu
