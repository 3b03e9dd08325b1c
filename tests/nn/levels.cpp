// The layers of the sample nets at every level of mixed precision: finite results of the right
// dtype, finite gradients.
#include <cmath>

#include "../support/levels.h"
#include "support.h"

using namespace mezzo;

namespace {

bool all_finite(const Tensor& x) {
  for (const double v : values(x.detach()))
    if (!std::isfinite(v)) return false;
  return true;
}

/** The dtype of a layer's result: that of the level's matrix products, or f32. */
enum class Result { low, f32 };

template <class Make, class Call>
void at_every_level(const char* what, Result result, const Make& make, const Call& call) {
  for (const std::string level : levels::names()) {
    INFO(what << " at " << level);
    manual_seed(1);
    const auto layer = make();
    const auto session = amp::initialize(layer, {.opt_level = level, .verbosity = 0});
    const Tensor y = call(layer);
    // At levels without op casts the session casts the model's results to f32.
    CHECK(y.dtype() == (result == Result::low ? levels::op_casts(level).value_or(f32) : f32));
    CHECK(all_finite(y));
    if (!y.requires_grad()) continue;
    sum(y.to(f32) * y.to(f32)).backward();
    for (const nn::NamedTensor& p : layer.named_parameters()) {
      INFO(p.name);
      CHECK((p.tensor.grad().defined() && all_finite(p.tensor.grad())));
      CHECK(p.tensor.grad().dtype() == p.tensor.dtype());
    }
  }
}

#define LEVELS(result, made, ...)                 \
  at_every_level(                                 \
      #made, Result::result, [] { return made; }, \
      [&]([[maybe_unused]] const auto& m) { return __VA_ARGS__; })

nn::PackedSequence packed(const Tensor& x) {
  return nn::pack_padded_sequence(x, {2, 4, 3}, {.enforce_sorted = false});
}

}  // namespace

TEST_CASE("recurrent layers at every level") {
  const Tensor x = randn({4, 3, 5}), h = randn({1, 3, 6}), c = randn({1, 3, 6});
  LEVELS(low, (nn::RNN{5, 6, {.num_layers = 2, .dropout = 0.2, .bidirectional = true}}),
         m(x).output);
  LEVELS(low, (nn::GRU{5, 6}), m(x, h).output);
  LEVELS(low, (nn::GRU{5, 6}), m(x[0]).h);
  LEVELS(low, (nn::LSTM{5, 6}), m(x, LstmState{h, c}).output);
  LEVELS(low, (nn::LSTM{5, 6, {.proj_size = 2}}), m(x).c);
  LEVELS(low, (nn::LSTM{5, 6}), m(packed(x)).output.data);
  LEVELS(low, (nn::GRU{5, 6, {.num_layers = 2}}), m(packed(x)).h);
  LEVELS(low, (nn::RNNCell{5, 6}), m(x[0], h[0]));
  LEVELS(low, (nn::GRUCell{5, 6}), m(x[0]));
  LEVELS(low, (nn::LSTMCell{5, 6}), m(x[0], LstmState{h[0], c[0]}).h);
}

TEST_CASE("attention and transformers at every level") {
  using nn::AttentionCall;
  const Tensor x = randn({4, 3, 8}), y = randn({5, 3, 8}), added = randn({4, 5});
  const Tensor hidden = gt(randn({4, 5}), 1.0), padding = zeros({3, 5}, {.dtype = boolean});
  LEVELS(low, (nn::MultiheadAttention{8, 2}), m(x, x, x).output);
  LEVELS(low, (nn::MultiheadAttention{8, 2, {.dropout = 0.1}}),
         m(x, y, y,
           AttentionCall{.key_padding_mask = padding, .need_weights = false, .attn_mask = added})
             .output);
  LEVELS(low, (nn::MultiheadAttention{8, 2, {.add_bias_kv = true, .add_zero_attn = true}}),
         m(x, y, y, AttentionCall{.key_padding_mask = padding, .attn_mask = hidden}).output);
  LEVELS(f32, (nn::MultiheadAttention{8, 2}),
         m(x, y, y, AttentionCall{.attn_mask = added}).weights.detach());
  LEVELS(f32, (nn::TransformerEncoderLayer{8, 2, {.dim_feedforward = 16}}),
         m(x, nn::EncoderCall{.is_causal = true}));
  LEVELS(f32, (nn::TransformerDecoderLayer{8, 2, {.dim_feedforward = 16, .norm_first = true}}),
         m(x, y, nn::DecoderCall{.memory_mask = added}));
  LEVELS(f32,
         (nn::Transformer{{.d_model = 8,
                           .nhead = 2,
                           .num_encoder_layers = 1,
                           .num_decoder_layers = 1,
                           .dim_feedforward = 16}}),
         m(y, x, nn::TransformerCall{.tgt_mask = nn::generate_square_subsequent_mask(4)}));
  LEVELS(f32, (nn::LearnedPositionalEmbedding{4, 8}), m(x));
  LEVELS(f32, (nn::SinusoidalPositionalEmbedding{9, 8}), m(x, 5));
}

TEST_CASE("the small layers at every level") {
  const Tensor x = randn({2, 4, 4, 6}, {.requires_grad = true}),
               v = randn({3, 5}, {.requires_grad = true});
  const Tensor w = randn({3, 5}), sequence = randn({2, 4, 6}, {.requires_grad = true});
  LEVELS(low, (nn::Linear{5, 2}), m(v));
  LEVELS(f32, (nn::Bilinear{5, 5, 2}), m(v, w));
  LEVELS(f32, (nn::Embedding{5, 3}), m(tensor({0, 4, 2}, {.dtype = i64})));
  LEVELS(f32, nn::Lambda{[](const Tensor& t) { return t * 2; }}, m(x));
  LEVELS(low, nn::PReLU{}, m(x));
  LEVELS(f32, nn::RReLU{}, m(x));
  LEVELS(f32, nn::Softmax2d{}, m(x));
  LEVELS(f32, nn::Dropout2d{}, m(x));
  LEVELS(f32, nn::AlphaDropout{}, m(x));
  LEVELS(f32, nn::FeatureAlphaDropout{}, m(x));
  LEVELS(f32, (nn::Threshold{0.1, 0}), m(x));
  LEVELS(f32, nn::LayerNorm{6}, m(x));
  LEVELS(f32, nn::RMSNorm{6}, m(x));
  LEVELS(f32, (nn::GroupNorm{2, 4}), m(x));
  LEVELS(f32, (nn::InstanceNorm2d{4, {.affine = true, .track_running_stats = true}}), m(x));
  LEVELS(f32, nn::InstanceNorm1d{4}, m(sequence));
  LEVELS(f32, nn::LocalResponseNorm{3}, m(x));
  LEVELS(f32, nn::PixelShuffle{2}, m(x));
  LEVELS(f32, nn::PixelUnshuffle{2}, m(x));
  LEVELS(f32, nn::ChannelShuffle{2}, m(x));
  LEVELS(f32, (nn::Upsample{{.scale_factor = 2}}), m(x));
  LEVELS(f32, (nn::UpsamplingNearest2d{{.scale_factor = 2}}), m(x));
  LEVELS(f32, (nn::UpsamplingBilinear2d{{.size = {3, 5}}}), m(x));
  LEVELS(f32, nn::ReflectionPad2d{1}, m(x));
  LEVELS(f32, nn::CircularPad1d{1}, m(sequence));
  LEVELS(f32, (nn::ConstantPad3d{1, 0.5}), m(x));
  LEVELS(f32, nn::Unfold{2}, m(x));
  LEVELS(f32, (nn::Fold{4, {2, 1}}),
         m(nn::Unfold{{2, 1}}(randn({1, 2, 4, 4}, {.requires_grad = true}))));
  LEVELS(f32, (nn::LPPool2d{2, 2}), m(x));
  LEVELS(f32, nn::CosineSimilarity{}, m(v, w));
  LEVELS(f32, nn::PairwiseDistance{}, m(v, w));
}

TEST_CASE("losses at every level") {
  const Tensor x = randn({3, 5}, {.requires_grad = true}), y = randn({3, 5}),
               signs = sign(randn({3}));
  const Tensor classes = tensor({0, 4, 2}, {.dtype = i64}),
               labels = zeros({3, 5}, {.dtype = i64}) - 1;
  LEVELS(f32, nn::CosineEmbeddingLoss{}, m(x, y, signs));
  LEVELS(f32, nn::GaussianNLLLoss{}, m(x, y, abs(y) + 0.5));
  LEVELS(f32, nn::HingeEmbeddingLoss{}, m(x, sign(y)));
  LEVELS(f32, nn::MarginRankingLoss{}, m(x, y, sign(y)));
  LEVELS(f32, nn::MultiLabelMarginLoss{}, m(x, labels));
  LEVELS(f32, nn::MultiLabelSoftMarginLoss{}, m(x, abs(y)));
  LEVELS(f32, nn::MultiMarginLoss{}, m(x, classes));
  LEVELS(f32, nn::PoissonNLLLoss{}, m(x, abs(y)));
  LEVELS(f32, nn::SoftMarginLoss{}, m(x, sign(y)));
  LEVELS(f32, nn::TripletMarginLoss{}, m(x, y, y * 2.0));
  const std::vector<std::int64_t> steps{3}, lengths{2};
  LEVELS(f32, nn::CTCLoss{},
         m(log_softmax(x.view({3, 1, 5}), 2), ones({1, 2}, {.dtype = i64}), steps, lengths));
}
