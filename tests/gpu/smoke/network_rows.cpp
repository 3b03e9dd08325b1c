// Rows: convolutions, attention and recurrent layers by cuDNN, compared with our own kernels.
#include "row.h"

namespace smoke {

namespace {

std::string text(DType dtype) { return std::string(name(dtype)); }

// ---- convolutions -------------------------------------------------------------------------------

enum class Pass { forward, input, weight };

/** A padded 3 x 3 convolution: y, or the gradient of x or of the weight. */
Row conv_row(DType dtype, MemoryFormat format, Pass pass) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t batch = make.pick(2, 4, 64), channels = make.pick(4, 32, 128),
                       pixels = make.pick(6, 14, 28);
    const Shape image{batch, channels, pixels, pixels}, kernel{channels, channels, 3, 3};
    const auto to_format = [=](const Tensor& x) { return x.contiguous(format); };
    const auto f = [=](const Tensor& x, const Tensor& w, const Tensor& bias) {
      return conv2d(to_format(x), to_format(w), bias, {.padding = 1});
    };
    const double flops =
        2.0 * static_cast<double>(batch * channels * channels * 9 * pixels * pixels);
    Case c{{make.normal(image, dtype), make.normal(kernel, dtype), make.normal({channels}, dtype)},
           {},
           0,
           flops};
    if (pass != Pass::forward) c.operands.push_back(make.normal(image, dtype));
    c.prepare = [=](const Tensors& operands) -> Step {
      const Tensor x = to_format(operands[0]), w = to_format(operands[1]), bias = operands[2];
      if (pass == Pass::forward)
        return [=] {
          const NoGrad no_grad;
          return Tensors{f(x, w, bias)};
        };
      const Tensor leaf = (pass == Pass::input ? x : w).detach().requires_grad_();
      const Tensor y = pass == Pass::input ? f(leaf, w, bias) : f(x, leaf, bias),
                   g = to_format(operands[3]);
      return [=] { return Tensors{grad(y, leaf, {.retain_graph = true}, g)}; };
    };
    return c;
  };
  const char* names[] = {" y", " dx", " dw"};
  return {"conv2d " + text(dtype) + (format == MemoryFormat::contiguous ? " NCHW" : " NHWC") +
              names[static_cast<int>(pass)],
          cases, tolerance(dtype), Expected::close, true};
}

Row other_conv_row(const std::string& kind, DType dtype) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t n = make.pick(5, 10, 32), channels = make.pick(4, 16, 64);
    if (kind == "conv1d")
      return backward_case(
          {make.normal({2, channels, n}, dtype), make.normal({channels, channels, 3}, dtype),
           make.normal({2, channels, n}, dtype)},
          3, [](const Tensors& x) { return conv1d(x[0], x[1], {}, {.padding = 1}); });
    if (kind == "conv3d")
      return backward_case({make.normal({2, channels, n, n, n}, dtype),
                            make.normal({channels, channels, 3, 3, 3}, dtype),
                            make.normal({2, channels, n, n, n}, dtype)},
                           3,
                           [](const Tensors& x) { return conv3d(x[0], x[1], {}, {.padding = 1}); });
    if (kind == "conv2d, groups, stride 2")
      return backward_case({make.normal({2, channels, 2 * n, 2 * n}, dtype),
                            make.normal({channels, channels / 4, 3, 3}, dtype),
                            make.normal({2, channels, n, n}, dtype)},
                           3, [](const Tensors& x) {
                             return conv2d(x[0], x[1], {},
                                           {.stride = 2, .padding = 1, .groups = 4});
                           });
    return backward_case(
        {make.normal({2, channels, n, n}, dtype), make.normal({channels, channels, 4, 4}, dtype),
         make.normal({2, channels, 2 * n, 2 * n}, dtype)},
        3, [](const Tensors& x) {
          return conv_transpose2d(x[0], x[1], {}, {.stride = 2, .padding = 1});
        });
  };
  return {kind + " " + text(dtype) + " backward", cases, tolerance(dtype), Expected::close, true};
}

// ---- attention ----------------------------------------------------------------------------------

/** A mask that hides the last keys of all queries, as padding does. */
Tensor padding(const Tensor& keys) {
  return arange(keys.size(-2), {.device = keys.device()}) < keys.size(-2) - 3;
}

/** What the scores go through, beside softmax. The last four: a random mask that broadcasts over
 *  entries, heads or queries, or over nothing. */
enum class Scores : std::uint8_t {
  all,
  causal,
  padded,
  dropout,
  causal_dropout,
  over_entries,
  over_heads,
  over_queries,
  masked
};
constexpr Scores kScores[] = {Scores::all,        Scores::causal,         Scores::padded,
                              Scores::dropout,    Scores::causal_dropout, Scores::over_entries,
                              Scores::over_heads, Scores::over_queries,   Scores::masked};

Row attention_row(DType dtype, Scores kind, bool backward) {
  const bool is_causal = kind == Scores::causal || kind == Scores::causal_dropout,
             drops = kind == Scores::dropout || kind == Scores::causal_dropout,
             has_mask = kind >= Scores::over_entries;
  const auto cases = [=](const Maker& make) {
    const std::int64_t batch = make.pick(2, 2, 8), heads = make.pick(2, 4, 12),
                       length = make.pick(20, 200, 1024);
    const Shape shape{batch, heads, length, 64};
    const auto f = [=](const Tensors& x) {
      AttentionOptions options{.is_causal = is_causal};
      if (kind == Scores::padded) options.mask = padding(x[1]);
      if (has_mask) options.mask = x[3];
      if (drops) options.dropout_p = 0.1;
      manual_seed(1);
      return scaled_dot_product_attention(x[0], x[1], x[2], options);
    };
    const double flops =
        4.0 * static_cast<double>(batch * heads * length * length * 64) * (is_causal ? 0.5 : 1);
    Tensors operands{make.normal(shape, dtype), make.normal(shape, dtype),
                     make.normal(shape, dtype)};
    if (has_mask)
      operands.push_back(make.indices(8, {kind == Scores::over_entries ? 1 : batch,
                                          kind == Scores::over_heads ? 1 : heads,
                                          kind == Scores::over_queries ? 1 : length, length}) > 0);
    if (!backward) return forward_case(operands, 4, f, flops);
    operands.push_back(make.normal(shape, dtype));
    return backward_case(operands, 8, f, 2.5 * flops);
  };
  // cuDNN also rounds the probabilities.
  constexpr const char* kKinds[] = {"",
                                    " causal",
                                    " padded",
                                    " dropout",
                                    " causal dropout",
                                    " mask, 1 entry",
                                    " mask, 1 head",
                                    " mask, 1 query",
                                    " mask"};
  return {"attention " + text(dtype) + kKinds[static_cast<std::size_t>(kind)] +
              (backward ? " backward" : " forward"),
          cases, 2 * tolerance(dtype), Expected::close, is_low(dtype)};
}

/** A mask that hides nothing, 64 keys modulo 128, and scores near -120: the gradients that cuDNN
 *  9.19 returns nan for (pytorch's issue 196678). */
Row low_scores_row(DType dtype) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t length = make.pick(64, 192, 1088);
    const Shape shape{1, 2, length, 64};
    const auto f = [=](const Tensors& x) {
      // Without gradients of the large numbers, which are sums that cancel each other.
      const Tensor others = arange(64.0, {.device = x[0].device()}) > 0;
      const Tensor q = where(others, x[0], 1.0), k = where(others, x[1], -960.0);
      return scaled_dot_product_attention(q, k, x[2], {.mask = x[3]});
    };
    return backward_case({make.normal(shape, dtype) * 0.1, make.normal(shape, dtype) * 0.1,
                          make.normal(shape, dtype), make.fill({length}, 1, DType::boolean),
                          make.normal(shape, dtype)},
                         8, f);
  };
  return {"attention " + text(dtype) + " low scores backward", cases, 2 * tolerance(dtype),
          Expected::close, true};
}

/** Causal self-attention within one projection. */
Row self_attention_row(DType dtype, bool backward) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t batch = make.pick(1, 2, 8), heads = make.pick(2, 4, 12),
                       length = make.pick(20, 200, 1024);
    const auto f = [=](const Tensors& x) { return nn::causal_self_attention(x[0], heads); };
    const double flops = 2.0 * static_cast<double>(batch * heads * length * length * 64);
    Tensors operands{make.normal({batch, length, 3 * heads * 64}, dtype)};
    if (!backward) return forward_case(operands, 4, f, flops);
    operands.push_back(make.normal({batch, length, heads * 64}, dtype));
    return backward_case(operands, 8, f, 2.5 * flops);
  };
  return {"self-attention " + text(dtype) + (backward ? " backward" : " forward"), cases,
          4 * tolerance(dtype), Expected::close, is_low(dtype)};
}

// ---- recurrent layers ---------------------------------------------------------------------------

/** Allows cuDNN for recurrent layers, which is nondeterministic. */
struct Nondeterministic {
  Nondeterministic() { set_allow_nondeterministic(true); }
  ~Nondeterministic() { set_allow_nondeterministic(false); }
  Nondeterministic(const Nondeterministic&) = delete;
  Nondeterministic& operator=(const Nondeterministic&) = delete;
};

Row recurrent_row(const std::string& kind, DType dtype, bool backward) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t gates = kind == "lstm"  ? 4
                               : kind == "gru" ? 3
                                               : 1,
                       steps = make.pick(3, 8, 128), batch = make.pick(2, 4, 64),
                       hidden = make.pick(8, 64, 512);
    const auto weight = [&](const Shape& shape) { return make.normal(shape, dtype) * 0.1; };
    const auto f = [=](const Tensors& x) {
      const Nondeterministic scope;
      const std::vector<RecurrentWeights> weights{{x[1], x[2], x[3], x[4]}};
      if (kind == "lstm") return lstm(x[0], {}, weights).output;
      return kind == "gru" ? gru(x[0], {}, weights).output : rnn_tanh(x[0], {}, weights).output;
    };
    Tensors operands{make.normal({steps, batch, hidden}, dtype), weight({gates * hidden, hidden}),
                     weight({gates * hidden, hidden}), weight({gates * hidden}),
                     weight({gates * hidden})};
    const double flops = 4.0 * static_cast<double>(steps * batch * gates * hidden * hidden);
    if (!backward) return forward_case(operands, 2, f, flops);
    operands.push_back(make.normal({steps, batch, hidden}, dtype));
    return backward_case(operands, 4, f, 2 * flops);
  };
  // Every step rounds its state.
  return {kind + " " + text(dtype) + (backward ? " backward" : " forward"),
          cases,
          8 * tolerance(dtype),
          Expected::close,
          true,
          true};
}

}  // namespace

void add_network_rows(std::vector<Row>& rows) {
  for (const DType dtype : {f32, f16, bf16, f64})
    for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last})
      for (const Pass pass : {Pass::forward, Pass::input, Pass::weight})
        rows.push_back(conv_row(dtype, format, pass));
  for (const char* kind : {"conv1d", "conv3d", "conv2d, groups, stride 2", "conv_transpose2d"})
    for (const DType dtype : {f32, bf16}) rows.push_back(other_conv_row(kind, dtype));
  for (const DType dtype : {f32, f16, bf16})
    for (const Scores kind : kScores)
      for (const bool backward : {false, true})
        rows.push_back(attention_row(dtype, kind, backward));
  for (const DType dtype : {f16, bf16}) rows.push_back(low_scores_row(dtype));
  for (const Scores kind : {Scores::all, Scores::causal_dropout, Scores::over_queries})
    for (const bool backward : {false, true}) rows.push_back(attention_row(f64, kind, backward));
  for (const DType dtype : {f32, f16, bf16})
    for (const bool backward : {false, true}) rows.push_back(self_attention_row(dtype, backward));
  for (const char* kind : {"rnn_tanh", "gru", "lstm"})
    for (const DType dtype : {f32, f16})
      for (const bool backward : {false, true})
        rows.push_back(recurrent_row(kind, dtype, backward));
}

}  // namespace smoke
