// Attention, the transformer and positional encodings, beyond the comparison with PyTorch in
// tests/golden/layers.cpp.
#include <cmath>
#include <limits>

#include "support.h"

using namespace mezzo;
using nn::AttentionCall;

namespace {

void check_near(const Tensor& a, const Tensor& b, double margin = 1e-6) {
  REQUIRE(a.shape() == b.shape());
  CHECK(amax(abs(a - b)).item<double>() < margin);
}

}  // namespace

TEST_CASE("attention gives the same result with and without returned weights") {
  manual_seed(1);
  const nn::MultiheadAttention layer(8, 2, {.add_bias_kv = true, .add_zero_attn = true});
  const nn::MultiheadAttention plain(8, 2, {.batch_first = true});
  CHECK(str(plain).find("MultiheadAttention(8, 2, batch_first)") == 0);
  const Tensor x = randn({5, 3, 8}), y = randn({3, 5, 8});
  const Tensor padding =
      tensor({0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0}, {3, 5}, {.dtype = boolean});
  const Tensor bias = randn({6, 5, 5});
  for (const bool causal : {false, true})
    for (const Tensor& mask : {Tensor{}, bias, gt(bias, 1.0)})
      for (const Tensor& keys : {Tensor{}, padding}) {
        AttentionCall call{.key_padding_mask = keys, .attn_mask = mask, .is_causal = causal};
        const Tensor a = layer(x, x, x, call).output, b = plain(y, y, y, call).output;
        call.need_weights = false;
        check_near(layer(x, x, x, call).output, a);
        check_near(plain(y, y, y, call).output, b);
        CHECK_FALSE(plain(y, y, y, call).weights.defined());
      }
}

TEST_CASE("a causal mask equals a triangular mask") {
  manual_seed(2);
  const nn::MultiheadAttention layer(4, 2);
  const Tensor x = randn({3, 2, 4});
  const Tensor triangle = nn::generate_square_subsequent_mask(3);
  CHECK(values(triangle.select(1, 2)) ==
        std::vector<double>{-std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity(), 0});
  const nn::AttentionResult a = layer(x, x, x, AttentionCall{.is_causal = true}),
                            b = layer(x, x, x, AttentionCall{.attn_mask = triangle});
  check_near(a.output, b.output);
  check_near(a.weights, b.weights);
  CHECK(a.weights.shape() == Shape{2, 3, 3});
  CHECK(values(a.weights[0][0]) == std::vector<double>{1, 0, 0});
  check_near(sum(a.weights, 2), ones({2, 3}));
}

TEST_CASE("fully masked queries get zero weights and gradients, not NaN") {
  manual_seed(3);
  const nn::MultiheadAttention layer(4, 2, {.batch_first = true});
  const Tensor x = randn({1, 3, 4}, {.requires_grad = true});
  const Tensor nothing = ones({3, 3}, {.dtype = boolean});
  const Tensor minus_infinity = full({3, 3}, -std::numeric_limits<double>::infinity());
  for (const Tensor& mask : {nothing, minus_infinity})
    for (const bool need_weights : {true, false}) {
      const nn::AttentionResult r =
          layer(x, x, x, AttentionCall{.need_weights = need_weights, .attn_mask = mask});
      if (need_weights) CHECK(values(r.weights) == std::vector<double>(9, 0));
      CHECK(values(r.output) == std::vector<double>(12, 0));
      x.set_grad({});
      sum(r.output).backward();
      CHECK(values(x.grad()) == std::vector<double>(12, 0));
    }
}

TEST_CASE("attention weights have dropout in training mode only") {
  manual_seed(4);
  const nn::MultiheadAttention layer(4, 2, {.dropout = 0.5});
  const Tensor x = randn({4, 2, 4});
  for (const bool need_weights : {true, false}) {
    const AttentionCall call{.need_weights = need_weights};
    layer.train();
    CHECK(values(layer(x, x, x, call).output) != values(layer(x, x, x, call).output));
    layer.eval();
    CHECK(values(layer(x, x, x, call).output) == values(layer(x, x, x, call).output));
  }
}

TEST_CASE("attention refuses mismatched operands") {
  CHECK_THROWS_AS(nn::MultiheadAttention(0, 1), ValueError);
  CHECK_THROWS_AS(nn::MultiheadAttention(4, 0), ValueError);
  CHECK_THROWS_AS(nn::MultiheadAttention(4, 3), ValueError);
  CHECK_THROWS_AS(nn::MultiheadAttention(4, 2, {.dropout = -0.1}), ValueError);
  CHECK_THROWS_AS(nn::MultiheadAttention(4, 2, {.kdim = -1}), ValueError);
  const nn::MultiheadAttention layer(4, 2);
  const Tensor x = ones({3, 2, 4}), y = ones({5, 2, 4});
  CHECK_THROWS_AS(layer(Tensor{}, x, x), ValueError);
  CHECK_THROWS_AS(layer(x, x[0], x), ShapeError);
  CHECK_THROWS_AS(layer(ones({3, 2, 5}), x, x), ShapeError);
  CHECK_THROWS_AS(layer(x, ones({3, 1, 4}), ones({3, 1, 4})), ShapeError);
  CHECK_THROWS_AS(layer(x, x, y), ShapeError);
  CHECK_THROWS_AS(layer(x, y, y, AttentionCall{.attn_mask = ones({5, 3})}), ShapeError);
  CHECK_THROWS_AS(layer(x, y, y, AttentionCall{.key_padding_mask = ones({5, 2})}), ShapeError);
  CHECK_THROWS_AS(layer(x, y, y, AttentionCall{.attn_mask = ones({3, 5}, {.dtype = i64})}),
                  DtypeError);
}

TEST_CASE("first and second derivatives of attention") {
  manual_seed(5);
  const nn::MultiheadAttention layer(4, 2, {.add_bias_kv = true});
  layer.to(f64);
  const TensorOptions wanted{.dtype = f64, .requires_grad = true};
  const std::vector<Tensor> x{randn({2, 1, 4}, wanted), randn({3, 1, 4}, wanted)};
  for (const bool need_weights : {true, false}) {
    const auto run = [&](const std::vector<Tensor>& v) {
      return std::vector<Tensor>{
          layer(v[0], v[1], v[1], AttentionCall{.need_weights = need_weights}).output};
    };
    const GradcheckResult first = gradcheck(run, x), second = gradgradcheck(run, x);
    INFO(first.report << second.report);
    CHECK(first.ok);
    CHECK(second.ok);
  }
}

TEST_CASE("a stack copies its layer's values into independent layers") {
  manual_seed(6);
  const nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 4, .dropout = 0});
  const nn::TransformerEncoder stack(layer, 2, nn::LayerNorm{8});
  CHECK(stack.layers().size() == 2);
  CHECK(values(stack.parameter("layers.1.linear1.weight")) ==
        values(layer.parameter("linear1.weight")));
  CHECK_FALSE(stack.parameter("layers.0.linear1.weight")
                  .is_same(stack.parameter("layers.1.linear1.weight")));
  const Tensor x = randn({3, 2, 8});
  const nn::LayerNorm norm{8};
  check_near(stack(x), norm(stack.layers()[1](layer(x))), 1e-5);
  CHECK(values(nn::TransformerEncoder(layer, 0)(x)) == values(x));
  CHECK_THROWS_AS(nn::TransformerEncoder(layer, -1), ValueError);
}

TEST_CASE("a causal encoder does not depend on later positions") {
  manual_seed(7);
  const nn::TransformerEncoderLayer layer(
      8, 2, {.dim_feedforward = 4, .dropout = 0.2, .batch_first = true});
  layer.eval();
  const Tensor x = randn({2, 5, 8});
  const nn::EncoderCall causal{.is_causal = true};
  check_near(layer(x, causal).narrow(1, 0, 3), layer(x.narrow(1, 0, 3), causal));
  check_near(layer(x, causal),
             layer(x, nn::EncoderCall{.src_mask = nn::generate_square_subsequent_mask(5)}));
  check_near(layer(x, causal)[0], layer(x[0], causal));
}

TEST_CASE("the transformer starts from Glorot initialisation") {
  manual_seed(8);
  const nn::Transformer net({.d_model = 16,
                             .nhead = 4,
                             .num_encoder_layers = 1,
                             .num_decoder_layers = 1,
                             .dim_feedforward = 32});
  const double bound = std::sqrt(6.0 / (16 + 32));
  const double most = amax(abs(net.parameter("encoder.layers.0.linear1.weight"))).item<double>();
  CHECK(most <= bound);
  CHECK(most > 0.95 * bound);
  CHECK_THROWS_AS(nn::Transformer({.d_model = 6, .nhead = 4}), ValueError);
  CHECK_THROWS_AS(nn::generate_square_subsequent_mask(-1), ValueError);
  CHECK_THROWS_AS(nn::generate_square_subsequent_mask(2, {.dtype = i64}), DtypeError);
}

TEST_CASE("positional encodings are added to every step") {
  manual_seed(9);
  const nn::LearnedPositionalEmbedding learned(6, 4, {.batch_first = true});
  CHECK(keys(learned) == "weight [6,4]");
  const Tensor x = randn({2, 3, 4});
  check_near(learned(x)[1], x[1] + learned.weight().narrow(0, 0, 3));
  check_near(learned(x, 3)[1], x[1] + learned.weight().narrow(0, 3, 3));
  const nn::SinusoidalPositionalEmbedding waves(6, 4);
  CHECK(keys(waves).empty());
  const Tensor at = waves(zeros({3, 1, 4}));
  CHECK(values(at[0][0]) == std::vector<double>{0, 1, 0, 1});
  const std::vector<double> second = values(at[2][0]);
  CHECK(second[0] == Approx(std::sin(2.0)));
  CHECK(second[1] == Approx(std::cos(2.0)));
  CHECK(second[2] == Approx(std::sin(0.02)));
  CHECK(second[3] == Approx(std::cos(0.02)));
  CHECK(waves(zeros({2, 4}, {.dtype = f16})).dtype() == f16);
  CHECK_THROWS_AS(learned(x, 4), IndexError);
  CHECK_THROWS_AS(learned(x, -1), IndexError);
  CHECK_THROWS_AS(learned(ones({2, 3, 5})), ShapeError);
  CHECK_THROWS_AS(waves(Tensor{}), ValueError);
  CHECK_THROWS_AS(nn::LearnedPositionalEmbedding(0, 4), ValueError);
}

namespace {

/** Returns causal self-attention by its formula. */
Tensor by_formula(const Tensor& qkv, std::int64_t heads) {
  const std::int64_t steps = qkv.size(1), width = qkv.size(2) / 3;
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < 3; ++i)
    parts.push_back(
        qkv.narrow(2, i * width, width).unflatten(-1, {heads, width / heads}).transpose(1, 2));
  const Tensor later = triu(ones({steps, steps}, {.dtype = DType::boolean}), 1);
  const double scale = 1 / std::sqrt(static_cast<double>(width / heads));
  const Tensor scores = masked_fill(matmul(parts[0] * scale, parts[1].transpose(-2, -1)), later,
                                    -std::numeric_limits<double>::infinity());
  return matmul(softmax(scores, -1), parts[2]).transpose(1, 2).flatten(2);
}

}  // namespace

TEST_CASE("causal self-attention equals its formula, with first and second derivatives",
          "[attention]") {
  manual_seed(8);
  for (const std::int64_t heads : {1, 2}) {
    const Tensor x = randn({2, 5, 3 * 6}, {.dtype = f64}),
                 weight = randn({2, 5, 6}, {.dtype = f64});
    std::vector<Tensor> values, firsts, seconds;
    for (const bool formula : {true, false}) {
      const Tensor leaf = x.clone().requires_grad_();
      const Tensor y = formula ? by_formula(leaf, heads) : nn::causal_self_attention(leaf, heads);
      const Tensor first = grad({sum(y * weight)}, {leaf}, {.create_graph = true})[0];
      values.push_back(y.detach());
      firsts.push_back(first.detach());
      seconds.push_back(grad({sum(first * first)}, {leaf})[0]);
    }
    CHECK(allclose(values[0], values[1], {.rtol = 1e-12, .atol = 1e-12}));
    CHECK(allclose(firsts[0], firsts[1], {.rtol = 1e-11, .atol = 1e-11}));
    CHECK(allclose(seconds[0], seconds[1], {.rtol = 1e-10, .atol = 1e-10}));
  }
}

TEST_CASE("causal self-attention refuses other shapes", "[attention]") {
  CHECK_THROWS_WITH_AS_TEXT(nn::causal_self_attention(zeros({2, 5, 8}), 1), ShapeError,
                            "a multiple of 3");
  CHECK_THROWS_AS(nn::causal_self_attention(zeros({5, 6}), 1), ShapeError);
  CHECK_THROWS_AS(nn::causal_self_attention(zeros({2, 5, 6}), 0), ValueError);
  CHECK_THROWS_AS(nn::causal_self_attention({}, 1), ValueError);
}
