#include "split_heads.h"

#include <algorithm>

#include "../autograd/custom_function.h"
#include "../tensor/ops/create.h"

namespace mezzo::nn::detail {

namespace {

template <bool kBatchFirst> struct SplitHeads {
  static constexpr const char* name = "split_heads";

  static std::vector<Tensor> forward(FunctionContext&, const Tensor& projected,
                                     std::int64_t heads) {
    const Tensor parts = projected.unflatten(-1, {3, heads, projected.size(-1) / (3 * heads)});
    std::vector<Tensor> out;
    for (int i = 0; i < 3; ++i) out.push_back(with_heads_first(parts.select(2, i), kBatchFirst));
    return out;
  }

  static Grads backward(FunctionContext&, const Grads& grads) {
    const Tensor& some =
        *std::find_if(grads.begin(), grads.end(), [](const Tensor& g) { return g.defined(); });
    const std::int64_t n = some.size(0), steps = some.size(2);
    const Tensor whole =
        empty({kBatchFirst ? n : steps, kBatchFirst ? steps : n, 3, some.size(1), some.size(3)},
              {.dtype = some.dtype(), .device = some.device()});
    for (int i = 0; i < 3; ++i) {
      const Tensor part = with_heads_first(whole.select(2, i), kBatchFirst);
      const Tensor& g = grads[static_cast<std::size_t>(i)];
      g.defined() ? part.copy_(g) : part.zero_();
    }
    return {whole.flatten(2)};
  }
};

}  // namespace

Tensor with_heads_first(const Tensor& x, bool batch_first) {
  return batch_first ? x.transpose(1, 2) : x.permute({1, 2, 0, 3});
}

std::vector<Tensor> split_heads(const Tensor& projected, std::int64_t heads, bool batch_first) {
  return batch_first ? custom_function<SplitHeads<true>>(projected, heads)
                     : custom_function<SplitHeads<false>>(projected, heads);
}

}  // namespace mezzo::nn::detail
