// Compares layers with stored results of PyTorch: names and shapes, values, gradients of inputs
// and parameters, buffers.
#include <cmath>
#include <map>
#include <set>

#include "../nn/support.h"
#include "drawn.h"
#include "folder.h"
#include "golden.h"

namespace golden {

namespace {

using namespace mezzo;

/** The contents of the file that layers.py wrote. */
struct StoredLayers {
  std::map<std::string, Tensor> tensors;
  TensorMetadata keys;

  const Tensor* find(const std::string& name) const {
    const auto at = tensors.find(name);
    return at == tensors.end() ? nullptr : &at->second;
  }
};

const StoredLayers& stored_layers() {
  static const StoredLayers all = [] {
    LoadedTensors loaded = load_tensors(str(folder(), "/layers.safetensors"));
    StoredLayers out;
    for (auto& [name, x] : loaded.tensors) out.tensors[name] = x;
    out.keys = std::move(loaded.metadata);
    return out;
  }();
  return all;
}

/** Describes the first difference; empty where the tensors agree within the tolerance. */
std::string layer_difference(const Tensor& got, const Tensor& wanted, bool in_f64) {
  if (!(got.shape() == wanted.shape())) return str("is ", str(got), ", PyTorch has ", str(wanted));
  const std::vector<double> a = values(got.detach()), b = values(wanted);
  const double tolerance = in_f64 ? 1e-10 : 2e-4;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i]))))
      return str("[", i, "] is ", a[i], ", PyTorch has ", b[i]);
  return "";
}

void compare_tensor(const std::string& name, const Tensor& got, bool in_f64) {
  INFO(name);
  const Tensor* wanted = stored_layers().find(name);
  REQUIRE(wanted);
  CHECK(layer_difference(got, *wanted, in_f64) == "");
}

std::set<std::string>& compared_layers() {
  static std::set<std::string> names;
  return names;
}

/** Runs `call` on a module and compares everything stored for it. */
template <class M, class F>
void compare_layer(const std::string& name, const M& module, DType dtype, F call) {
  INFO(name << " in " << mezzo::name(dtype));
  compared_layers().insert(name);
  REQUIRE(stored_layers().keys.count(name) == 1);
  CHECK(keys(module) == stored_layers().keys.at(name));
  const bool in_f64 = dtype == f64;
  module.to(dtype);
  Tensors x;
  while (const Tensor* gradient = stored_layers().find(str(name, ":g", x.size())))
    x.push_back(drawn(x.size(), gradient->shape(), dtype).requires_grad_());
  std::size_t k = x.size();
  for (const Tensor& p : module.parameters()) {
    const NoGrad no_grad;
    p.copy_(drawn(k++, p.shape(), dtype));
  }
  const Tensors y = call(module, x);
  Tensors recorded, seeds;
  for (std::size_t i = 0; i < y.size(); ++i) {
    compare_tensor(str(name, ":y", i), y[i], in_f64);
    CHECK(y[i].dtype() == dtype);
    if (!y[i].requires_grad()) continue;
    std::vector<double> seed;
    for (std::int64_t j = 0; j < y[i].numel(); ++j)
      seed.push_back(static_cast<double>(j % 7) * 0.25 - 0.5);
    recorded.push_back(y[i]);
    seeds.push_back(tensor(seed, y[i].shape(), {.dtype = dtype}));
  }
  CHECK_FALSE(stored_layers().find(str(name, ":y", y.size())));
  backward(recorded, seeds);
  const auto gradient = [](const Tensor& t) {
    return t.grad().defined() ? t.grad() : zeros_like(t);
  };
  for (std::size_t i = 0; i < x.size(); ++i)
    compare_tensor(str(name, ":g", i), gradient(x[i]), in_f64);
  for (const nn::NamedTensor& p : module.named_parameters())
    compare_tensor(str(name, ":d.", p.name), gradient(p.tensor), in_f64);
  for (const nn::NamedTensor& b : module.named_buffers())
    compare_tensor(str(name, ":b.", b.name), b.tensor, in_f64);
}

Tensors list(const Tensor& y) { return {y}; }
Tensors list(const Tensors& y) { return y; }
Tensors list(const RecurrentResult& r) { return {r.output, r.h}; }
Tensors list(const LstmResult& r) { return {r.output, r.h, r.c}; }
Tensors list(const LstmState& s) { return {s.h, s.c}; }
Tensors list(const nn::PackedRecurrentResult& r) { return {r.output.data, r.h}; }
Tensors list(const nn::PackedLstmResult& r) { return {r.output.data, r.h, r.c}; }
Tensors list(const nn::AttentionResult& r) {
  return r.weights.defined() ? Tensors{r.output, r.weights} : Tensors{r.output};
}

/** Compares a layer and its call in both dtypes. */
#define LAYER(name, layer, ...)                                                                  \
  for (const DType dtype : {f64, f32}) {                                                         \
    const auto made = layer;                                                                     \
    compare_layer(name, made, dtype,                                                             \
                  [](const auto& m, const Tensors& x) -> Tensors { return list(__VA_ARGS__); }); \
  }

template <class M> M evaluating(M module) {
  module.eval();
  return module;
}

template <class M> Tensor then_eval(const M& m, const Tensor& x) {
  m(x);
  m.eval();
  return m(x * 2);
}

Tensor padding_mask() { return tensor({0, 0, 1, 0, 1, 0, 1, 0, 0, 0}, {2, 5}, {.dtype = boolean}); }
Tensor hidden_mask() {
  return tensor({0, 1, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0}, {3, 5}, {.dtype = boolean});
}
Tensor triangle(DType dtype) { return nn::generate_square_subsequent_mask(3, {.dtype = dtype}); }

nn::PackedSequence packed(const Tensor& x, const std::vector<std::int64_t>& lengths,
                          bool batch_first = false) {
  return nn::pack_padded_sequence(x, lengths,
                                  {.batch_first = batch_first, .enforce_sorted = false});
}

void compare_recurrent_layers() {
  LAYER("RNN", nn::RNN(3, 4, {.num_layers = 2}), m(x[0], x[1]));
  LAYER("RNN/relu",
        nn::RNN(3, 4,
                {.nonlinearity = nn::RnnNonlinearity::relu,
                 .bias = false,
                 .batch_first = true,
                 .bidirectional = true}),
        m(x[0]));
  LAYER("RNN/unbatched", nn::RNN(3, 4, {.batch_first = true, .bidirectional = true}),
        m(x[0], x[1]));
  LAYER("GRU", evaluating(nn::GRU(3, 4, {.num_layers = 2, .dropout = 0.3, .bidirectional = true})),
        m(x[0], x[1]));
  LAYER("GRU/packed", nn::GRU(3, 4, {.num_layers = 2, .bidirectional = true}),
        m(packed(x[0], {2, 4, 1}), x[1]));
  LAYER("LSTM", nn::LSTM(3, 4, {.num_layers = 2}), m(x[0], LstmState{x[1], x[2]}));
  LAYER(
      "LSTM/projection",
      nn::LSTM(3, 4, {.num_layers = 2, .batch_first = true, .bidirectional = true, .proj_size = 2}),
      m(x[0], LstmState{x[1], x[2]}));
  LAYER("LSTM/unbatched", nn::LSTM(3, 4, {.bias = false}), m(x[0], LstmState{x[1], x[2]}));
  LAYER("LSTM/packed", nn::LSTM(3, 4, {.batch_first = true, .bidirectional = true}),
        m(packed(x[0], {3, 5, 5}, true), LstmState{x[1], x[2]}));
  LAYER("RNNCell", nn::RNNCell(3, 4), m(x[0], x[1]));
  LAYER("RNNCell/relu",
        nn::RNNCell(3, 4, {.bias = false, .nonlinearity = nn::RnnNonlinearity::relu}),
        m(x[0], x[1]));
  LAYER("GRUCell", nn::GRUCell(3, 4), m(x[0], x[1]));
  LAYER("GRUCell/unbatched", nn::GRUCell(3, 4), m(x[0], x[1]));
  LAYER("LSTMCell", nn::LSTMCell(3, 4), m(x[0], LstmState{x[1], x[2]}));
}

void compare_attention() {
  using nn::AttentionCall;
  using nn::MultiheadAttention;
  LAYER("MultiheadAttention", MultiheadAttention(8, 2), m(x[0], x[0], x[0]));
  LAYER("MultiheadAttention/no weights",
        MultiheadAttention(8, 2, {.bias = false, .batch_first = true}),
        m(x[0], x[0], x[0], AttentionCall{.need_weights = false}));
  LAYER("MultiheadAttention/cross", evaluating(MultiheadAttention(8, 4, {.dropout = 0.5})),
        m(x[0], x[1], x[1],
          AttentionCall{.key_padding_mask = padding_mask(),
                        .attn_mask = hidden_mask(),
                        .average_attn_weights = false}));
  LAYER("MultiheadAttention/kdim", MultiheadAttention(8, 2, {.kdim = 3, .vdim = 5}),
        m(x[0], x[1], x[2],
          AttentionCall{.key_padding_mask = padding_mask(), .need_weights = false}));
  LAYER("MultiheadAttention/extra keys",
        MultiheadAttention(8, 2, {.add_bias_kv = true, .add_zero_attn = true, .batch_first = true}),
        m(x[0], x[1], x[1],
          AttentionCall{.key_padding_mask = padding_mask(), .attn_mask = hidden_mask()}));
  LAYER("MultiheadAttention/added mask", MultiheadAttention(8, 2),
        m(x[0], x[1], x[2],
          AttentionCall{
              .key_padding_mask = padding_mask(), .need_weights = false, .attn_mask = x[3]}));
  LAYER("MultiheadAttention/unbatched", MultiheadAttention(8, 2, {.add_bias_kv = true}),
        m(x[0], x[1], x[1],
          AttentionCall{.attn_mask = hidden_mask(), .average_attn_weights = false}));
}

void compare_transformer_layers() {
  using nn::TransformerActivation;
  const nn::TransformerEncoderLayer encoder(8, 2, {.dim_feedforward = 6, .dropout = 0});
  const nn::TransformerDecoderLayer decoder(8, 2, {.dim_feedforward = 6, .dropout = 0});
  LAYER("TransformerEncoderLayer",
        nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 6, .dropout = 0}), m(x[0]));
  LAYER("TransformerEncoderLayer/norm first",
        evaluating(nn::TransformerEncoderLayer(8, 2,
                                               {.dim_feedforward = 6,
                                                .dropout = 0.2,
                                                .activation = TransformerActivation::gelu,
                                                .layer_norm_eps = 1e-3,
                                                .batch_first = true,
                                                .norm_first = true})),
        m(x[0], nn::EncoderCall{.src_key_padding_mask = padding_mask()}));
  LAYER(
      "TransformerDecoderLayer",
      evaluating(nn::TransformerDecoderLayer(
          8, 2, {.dim_feedforward = 6, .dropout = 0.2, .activation = TransformerActivation::gelu})),
      m(x[0], x[1],
        nn::DecoderCall{.tgt_mask = triangle(x[0].dtype()),
                        .memory_mask = hidden_mask(),
                        .memory_key_padding_mask = padding_mask()}));
  LAYER("TransformerDecoderLayer/norm first",
        nn::TransformerDecoderLayer(
            8, 2, {.dim_feedforward = 6, .dropout = 0, .batch_first = true, .norm_first = true}),
        m(x[0], x[1]));
  LAYER("TransformerEncoder", nn::TransformerEncoder(encoder, 2, nn::LayerNorm{8}),
        m(x[0], nn::EncoderCall{.is_causal = true}));
  LAYER("TransformerDecoder", nn::TransformerDecoder(decoder, 2), m(x[0], x[1]));
  LAYER("Transformer",
        nn::Transformer({.d_model = 8,
                         .nhead = 2,
                         .num_encoder_layers = 1,
                         .num_decoder_layers = 1,
                         .dim_feedforward = 6,
                         .dropout = 0}),
        m(x[0], x[1], nn::TransformerCall{.tgt_mask = triangle(x[0].dtype())}));
}

#define NORM_LAYERS(dims)                                                                      \
  LAYER("BatchNorm" #dims "d", nn::BatchNorm##dims##d(3), m(x[0]));                            \
  LAYER("BatchNorm" #dims "d/eval", nn::BatchNorm##dims##d(3), then_eval(m, x[0]));            \
  LAYER("InstanceNorm" #dims "d", nn::InstanceNorm##dims##d(3), m(x[0]));                      \
  LAYER("InstanceNorm" #dims "d/affine",                                                       \
        nn::InstanceNorm##dims##d(3, {.affine = true, .track_running_stats = true}), m(x[0])); \
  LAYER("InstanceNorm" #dims "d/eval",                                                         \
        nn::InstanceNorm##dims##d(3, {.affine = true, .track_running_stats = true}),           \
        then_eval(m, x[0]));                                                                   \
  LAYER("InstanceNorm" #dims "d/unbatched", nn::InstanceNorm##dims##d(3, {.affine = true}), m(x[0]))

void compare_norms() {
  NORM_LAYERS(1);
  NORM_LAYERS(2);
  NORM_LAYERS(3);
  LAYER("BatchNorm1d/plain",
        nn::BatchNorm1d(
            3, {.eps = 1e-3, .momentum = 0.2, .affine = false, .track_running_stats = false}),
        m(x[0]));
  LAYER("BatchNorm2d/averaged", nn::BatchNorm2d(3, {.momentum = {}}), then_eval(m, x[0]));
  LAYER("LayerNorm", nn::LayerNorm(Shape{3, 4}), m(x[0]));
  LAYER("GroupNorm", nn::GroupNorm(2, 4), m(x[0]));
  LAYER("LocalResponseNorm", nn::LocalResponseNorm(3, {.alpha = 0.1, .beta = 0.7, .k = 2}),
        m(x[0]));
}

#define PAD_LAYERS(dims, ...)                                                             \
  LAYER("ReflectionPad" #dims "d", (nn::ReflectionPad##dims##d{__VA_ARGS__}), m(x[0]));   \
  LAYER("ReplicationPad" #dims "d", (nn::ReplicationPad##dims##d{__VA_ARGS__}), m(x[0])); \
  LAYER("ConstantPad" #dims "d", (nn::ConstantPad##dims##d{__VA_ARGS__, 0.5}), m(x[0]))

void compare_other_layers() {
  LAYER("Bilinear", nn::Bilinear(3, 4, 2), m(x[0], x[1]));
  LAYER("PReLU", nn::PReLU(), m(x[0]));
  LAYER("PReLU/channels", nn::PReLU({.num_parameters = 3}), m(x[0]));
  LAYER("RReLU/eval", evaluating(nn::RReLU({.lower = 0.1, .upper = 0.4})), m(x[0]));
  LAYER("Softmax2d", nn::Softmax2d(), m(x[0]));
  LAYER("Threshold", nn::Threshold(0.2, 3), m(x[0]));
  LAYER("PixelShuffle", nn::PixelShuffle(2), m(x[0]));
  LAYER("PixelUnshuffle", nn::PixelUnshuffle(2), m(x[0]));
  LAYER("ChannelShuffle", nn::ChannelShuffle(2), m(x[0]));
  LAYER("Upsample", nn::Upsample({.scale_factor = 2}), m(x[0]));
  LAYER("UpsamplingNearest2d", nn::UpsamplingNearest2d({.size = {3, 5}}), m(x[0]));
  LAYER("UpsamplingBilinear2d", nn::UpsamplingBilinear2d({.scale_factor = 2}), m(x[0]));
  LAYER("Unfold", nn::Unfold(2, {.padding = 1}), m(x[0]));
  LAYER("Fold", (nn::Fold({3, 4}, 2)), m(x[0]));
  PAD_LAYERS(1, {1, 2});
  PAD_LAYERS(2, {1, 2, 0, 1});
  PAD_LAYERS(3, {1, 2, 0, 1, 2, 1});
  LAYER("CircularPad1d", (nn::CircularPad1d({1, 2})), m(x[0]));
  LAYER("CircularPad2d", nn::CircularPad2d(1), m(x[0]));
  LAYER("ZeroPad2d", (nn::ZeroPad2d({1, 2, 0, -1})), m(x[0]));
  LAYER("CosineSimilarity", nn::CosineSimilarity(), m(x[0], x[1]));
  LAYER("PairwiseDistance", nn::PairwiseDistance({.p = 3, .keepdim = true}), m(x[0], x[1]));
  LAYER("LPPool1d", nn::LPPool1d(2, 2), m(x[0]));
  LAYER("LPPool2d", (nn::LPPool2d(2, {2, 3}, {.stride = 1})), m(x[0]));
  LAYER("MaxUnpool2d", nn::MaxUnpool2d(2), [&] {
    const ValuesAndIndices found = max_pool2d_with_indices(x[0], 2);
    return m(found.values, found.indices);
  }());
}

void compare_losses() {
  const auto integers = [](const std::vector<double>& v, const Shape& shape) {
    return tensor(v, shape, {.dtype = i64});
  };
  static const Tensor signs = integers({1, -1, -1, 1}, {4}), classes = integers({2, 0, 1, 2}, {4});
  static const Tensor words = integers({2, 0, 0, 1}, {2, 2}), word_lengths = integers({2, 1}, {2});
  static const Tensor steps = integers({5, 4}, {2}),
                      labels = integers({3, 0, -1, 1, 1, -1, 0, 0}, {2, 4});
  LAYER("CTCLoss", nn::CTCLoss({.blank = 3}),
        Tensors{m(log_softmax(x[0], 2), words, steps, word_lengths)});
  LAYER("CosineEmbeddingLoss", nn::CosineEmbeddingLoss({.margin = 0.1}),
        m(x[0], x[1], signs.to(x[0].dtype())));
  LAYER("GaussianNLLLoss", nn::GaussianNLLLoss({.full = true}), m(x[0], x[1], abs(x[2]) + 0.1));
  LAYER("GaussianNLLLoss/clamped", nn::GaussianNLLLoss({.eps = 0.6, .reduction = Reduction::none}),
        m(x[0], x[1], abs(x[2])));
  LAYER("HingeEmbeddingLoss", nn::HingeEmbeddingLoss({.margin = 0.5}),
        m(x[0], signs.to(x[0].dtype()).unsqueeze(1).expand({4, 3})));
  LAYER("MarginRankingLoss", nn::MarginRankingLoss({.margin = 0.2, .reduction = Reduction::sum}),
        m(x[0], x[1], signs.to(x[0].dtype())));
  LAYER("MultiLabelMarginLoss", nn::MultiLabelMarginLoss(), m(x[0], labels));
  LAYER("MultiLabelSoftMarginLoss", nn::MultiLabelSoftMarginLoss(),
        m(x[0], gt(x[1], 0.0).to(x[1].dtype())));
  LAYER("MultiMarginLoss", nn::MultiMarginLoss({.p = 2, .margin = 0.7}), m(x[0], classes));
  LAYER("PoissonNLLLoss", nn::PoissonNLLLoss({.full = true, .reduction = Reduction::none}),
        m(x[0], abs(x[1].detach()) * 3));
  LAYER("SoftMarginLoss", nn::SoftMarginLoss(), m(x[0], signs.to(x[0].dtype())));
  LAYER("TripletMarginLoss", nn::TripletMarginLoss({.margin = 0.8, .swap = true}),
        m(x[0], x[1], x[2]));
}

}  // namespace

TEST_CASE("names, values and gradients of layers match PyTorch", "[golden]") {
  compare_recurrent_layers();
  compare_attention();
  compare_transformer_layers();
  compare_norms();
  compare_other_layers();
  compare_losses();
  for (const auto& entry : stored_layers().keys) {
    INFO(entry.first);
    CHECK((entry.first == "format" || entry.first == "torch" ||
           compared_layers().count(entry.first) == 1));
  }
}

}  // namespace golden
