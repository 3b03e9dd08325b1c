// Attention where the generated tests do not reach: long sequences, rows without keys, threads,
// invalid operands.
#include <mezzo.h>

#include <cmath>

#include "../../tensor/device/parallel.h"
#include "../support/throws.h"
#include "support.h"

using namespace mezzo;

namespace {

/** Computes softmax(scale q k^T + mask) v with public ops. */
Tensor plain_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  Tensor scores = matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  if (mask.defined()) scores = where(mask, scores, -INFINITY);
  return matmul(softmax(scores, -1), v);
}

struct Run {
  Tensor y;
  std::vector<Tensor> grads;
};

template <class F> Run run(const std::vector<Tensor>& x, const Tensor& g, F&& f) {
  Run r{f(x), {}};
  r.grads = grad(std::span(&r.y, 1), x, {}, std::span(&g, 1));
  return r;
}

Tensor lower_triangle(std::int64_t l, std::int64_t s) {
  return arange(static_cast<double>(l), {.dtype = i64}).unsqueeze(1) >=
         arange(static_cast<double>(s), {.dtype = i64});
}

}  // namespace

TEST_CASE("long sequences agree with the plain formula for any number of threads", "[attention]") {
  manual_seed(8);
  const int before = num_threads();
  for (const bool causal : {false, true})
    for (const DType dtype : {f64, f32, bf16})
      for (const auto& s :
           std::vector<std::vector<std::int64_t>>{{2, 300, 600, 20, 40}, {1, 33, 520, 7, 3}}) {
        CAPTURE(causal, name(dtype), s[1], s[2]);
        const TensorOptions options{.dtype = dtype};
        const std::vector<Tensor> x = {randn({s[0], s[1], s[3]}, options).requires_grad_(),
                                       randn({s[0], s[2], s[3]}, options).requires_grad_(),
                                       randn({s[0], s[2], s[4]}, options).requires_grad_()};
        const Tensor g = randn({s[0], s[1], s[4]}, options);
        const auto fused = [&](const std::vector<Tensor>& in) {
          return scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = causal});
        };
        const Run got = run(x, g, fused);
        std::vector<Tensor> wide;
        for (const Tensor& t : x) wide.push_back(t.detach().to(f64).requires_grad_());
        const Run expected = run(wide, g.to(f64), [&](const std::vector<Tensor>& in) {
          return plain_attention(in[0], in[1], in[2],
                                 causal ? lower_triangle(s[1], s[2]) : Tensor{});
        });
        const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 2e-5 : 6e-2;
        CHECK(largest_difference(got.y, expected.y) < tolerance);
        for (std::size_t i = 0; i < 3; ++i)
          CHECK(largest_difference(got.grads[i], expected.grads[i]) < tolerance);
        for (const int threads : {1, 3}) {
          set_num_threads(threads);
          const Run again = run(x, g, fused);
          CHECK(again.y.to_vector<double>() == got.y.to_vector<double>());
          for (std::size_t i = 0; i < 3; ++i)
            CHECK(again.grads[i].to_vector<double>() == got.grads[i].to_vector<double>());
        }
        set_num_threads(before);
      }
}

TEST_CASE("fully masked queries give 0 and get no gradient", "[attention]") {
  manual_seed(2);
  const Tensor q = randn({2, 3}, {.requires_grad = true}),
               k = randn({4, 3}, {.requires_grad = true}),
               v = randn({4, 2}, {.requires_grad = true});
  const Tensor keeps = tensor({0, 0, 0, 0, 1, 1, 0, 1}, {2, 4}, {.dtype = boolean});
  const Tensor bias = where(keeps, 0.0, -INFINITY).to(f32).requires_grad_();
  for (const bool graph : {false, true})
    for (const Tensor& mask : {keeps, bias}) {
      const Tensor y = scaled_dot_product_attention(q, k, v, {.mask = mask});
      CHECK(y.select(0, 0).to_vector<double>() == std::vector<double>{0, 0});
      const Tensor loss = sum(y * y);
      const std::vector<Tensor> wanted = {q, k, v};
      const auto g = grad(std::span(&loss, 1), wanted, {.create_graph = graph});
      CHECK(g[0].select(0, 0).to_vector<double>() == std::vector<double>{0, 0, 0});
      for (const Tensor& t : g)
        CHECK(isfinite(t).to_vector<bool>() == std::vector<bool>(t.to_vector<bool>().size(), true));
    }
}

TEST_CASE("attention dropout draws a new mask at each call and keeps the mean", "[attention]") {
  manual_seed(3);
  const Tensor q = zeros({64, 4}), k = zeros({64, 4}), v = ones({64, 1});
  const Tensor y = scaled_dot_product_attention(q, k, v, {.dropout_p = 0.25});
  CHECK(std::abs(mean(y).item<double>() - 1) < 0.03);
  CHECK(scaled_dot_product_attention(q, k, v, {.dropout_p = 0.25}).to_vector<double>() !=
        y.to_vector<double>());
  CHECK(sum(scaled_dot_product_attention(q, k, v, {.dropout_p = 1})).item<double>() == 0);
}

TEST_CASE("attention rejects mismatched operands", "[attention]") {
  const Tensor q = zeros({2, 3, 4}), k = zeros({2, 5, 4}), v = zeros({2, 5, 6});
  CHECK_THROWS_WITH_AS_TEXT(
      scaled_dot_product_attention(q, k, zeros({2, 4, 6})), ShapeError,
      "scaled_dot_product_attention: query, key and value do not fit; got f32[2,3,4]@cpu, "
      "f32[2,5,4]@cpu and f32[2,4,6]@cpu, expected [..., l, e], [..., s, e] and [..., s, f]");
  CHECK_THROWS_AS(scaled_dot_product_attention(zeros({4}), k, v), ShapeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, zeros({2, 5, 3}), v), ShapeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, zeros({3, 5, 4}), v), ShapeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, Tensor{}, v), ValueError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, k, v.to(f16)), DtypeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, k, v, {.mask = zeros({4, 5})}), ShapeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, k, v, {.mask = zeros({3, 5}, {.dtype = i64})}),
                  DtypeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, k, v, {.mask = zeros({3, 5}, {.dtype = f16})}),
                  DtypeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, k, v, {.mask = zeros({3, 5}), .is_causal = true}),
                  ValueError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, k, v, {.dropout_p = 1.5}), ValueError);
}
