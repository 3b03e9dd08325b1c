// Gradients of weights that are 16-bit conversions of f32 tensors, as autocast makes them: they are
// rounded to 16 bits and stored in f32 at once, with the bits of two steps. Where contributions
// overflow to infinities of both signs, both are nan; its payload is not promised on a GPU, whose
// conversions have other payloads than its sums.
#include <mezzo.h>

#include "../support/catch.h"
#include "joined.h"

using namespace mezzo;
using namespace cases::joined;

namespace {

/** Computes y from converted weights, and the gradients of all leaves. With `watched`, a hook reads
 *  the gradients of the conversions, so that they are computed in 16 bits. */
template <class F>
std::vector<Tensor> weight_gradients(const std::vector<Tensor>& weights, const Tensor& x,
                                     DType dtype, bool watched, F&& apply) {
  for (const Tensor& weight : weights) weight.set_grad({});
  x.set_grad({});
  std::vector<Tensor> low;
  for (const Tensor& weight : weights) {
    low.push_back(weight.to(dtype));
    if (watched)
      register_hook(low.back(), [dtype](const Tensor& g) {
        CHECK(g.dtype() == dtype);
        return Tensor{};
      });
  }
  // In f16 some gradients overflow.
  (sum(apply(x, low).to(f32)) * 3000).backward();
  std::vector<Tensor> found{x.grad().to(cpu)};
  for (const Tensor& weight : weights) found.push_back(weight.grad().to(cpu));
  return found;
}

template <class F>
void compare_watched(const std::vector<Tensor>& weights, const Tensor& x, F&& apply) {
  const DType dtype = x.dtype();
  const std::vector<Tensor> plain = weight_gradients(weights, x, dtype, false, apply),
                            watched = weight_gradients(weights, x, dtype, true, apply);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    INFO("gradient " << i);
    CHECK(plain[i].dtype() == (i == 0 ? dtype : f32));
    CHECK(cases::same_bits(plain[i], watched[i]));
    CHECK(cases::same_bits(plain[i], plain[i].to(dtype).to(plain[i].dtype())));
  }
}

}  // namespace

TEST_CASE("converted weights of linear layers get rounded gradients in f32", "[ops]") {
  manual_seed(11);
  const std::int64_t sizes[][3] = {{1, 40, 30}, {7, 1, 33}, {300, 130, 70}, {3, 5, 1}};
  for (const DType dtype : {bf16, f16})
    for (const auto& [rows, in, out] : sizes) {
      INFO(name(dtype) << " [" << rows << ", " << in << ", " << out << "]");
      const Tensor x = leaf({rows, in}, dtype, 3);
      const std::vector<Tensor> weights{leaf({out, in}, f32, 1), leaf({out, out}, f32, 1),
                                        leaf({out}, f32, 1)};
      const auto once = [](const Tensor& z, const std::vector<Tensor>& w) {
        return mlp(linear(z, w[0], w[2]), {w[1]}, {w[2]});
      };
      compare_watched(weights, x, once);
      compare_watched(weights, x, [&](const Tensor& z, const std::vector<Tensor>& w) {
        return once(z, w) + linear(z, w[0], w[2]) + linear(z, w[0]);
      });
    }
}

TEST_CASE("converted weights of convolutions get rounded gradients in f32", "[ops][conv]") {
  manual_seed(12);
  const std::int64_t sizes[][4] = {{2, 3, 5, 7}, {2, 40, 48, 9}};  // batch, in, out, pixels
  for (const DType dtype : {bf16, f16})
    for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last})
      for (const auto& [batch, in, out, pixels] : sizes) {
        INFO(name(dtype) << ", " << in << " to " << out << " channels, " << name(format));
        const auto in_format = [&, format = format](const Shape& shape, DType of, double size) {
          const Tensor x = leaf(shape, of, size).detach().to(format);
          return x.requires_grad_();
        };
        const Tensor x = in_format({batch, in, pixels, pixels}, dtype, 3);
        const std::vector<Tensor> weights{in_format({out, in, 3, 3}, f32, 1), leaf({out}, f32, 1)};
        compare_watched(weights, x, [](const Tensor& z, const std::vector<Tensor>& w) {
          return conv2d(z, w[0], w[1], {.padding = 1});
        });
        const std::vector<Tensor> transposed{in_format({in, out, 3, 3}, f32, 1),
                                             leaf({out}, f32, 1)};
        compare_watched(transposed, x, [](const Tensor& z, const std::vector<Tensor>& w) {
          return conv_transpose2d(z, w[0], w[1], {.stride = 2});
        });
      }
}
