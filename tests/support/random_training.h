// Nets, optimizers and losses that are drawn from a seed.
#pragma once

#include <mezzo.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace random_training {

using namespace mezzo;

/** A generator whose numbers are the same with every standard library. */
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15) {}

  /** Returns an integer from least to most. */
  std::int64_t integer(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(most - least + 1));
  }
  /** Returns 2^x with x between two exponents. */
  double power(double least, double most) {
    const double unit = static_cast<double>(engine_() >> 11) * 0x1p-53;
    return std::exp2(least + unit * (most - least));
  }
  template <class T> T one_of(std::initializer_list<T> values) {
    return values.begin()[integer(0, std::ssize(values) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

/** A recurrent layer on [N,T,in] that returns the mean of its outputs. */
template <class Layer> struct MeanOutput : nn::Model<MeanOutput<Layer>> {
  explicit MeanOutput(Layer its_layer) : layer(this->add("layer", std::move(its_layer))) {}
  Tensor forward(const Tensor& x) const { return mean(layer(x).output, {1}); }
  Layer layer;
};

/** A layer of a transformer on [N,T,E]. */
struct Encoder : nn::Model<Encoder> {
  explicit Encoder(nn::TransformerEncoderLayer its_layer)
      : layer(add("layer", std::move(its_layer))) {}
  Tensor forward(const Tensor& x) const { return layer(x); }
  nn::TransformerEncoderLayer layer;
};

/** The mean over time of [N,T,E]. */
struct MeanOverTime : nn::Model<MeanOverTime> {
  Tensor forward(const Tensor& x) const { return mean(x, {1}); }
};

/** A net and its data. */
struct Net {
  nn::Sequential net;
  Tensor x, y;
  std::string text;  // what was drawn
};

inline void add_activation(nn::Sequential& net, Draw& draw) {
  switch (draw.integer(0, 6)) {
    case 0: return net.push_back(nn::ReLU{});
    case 1: return net.push_back(nn::Tanh{});
    case 2: return net.push_back(nn::GELU{});
    case 3: return net.push_back(nn::SiLU{});
    case 4: return net.push_back(nn::LeakyReLU{});
    case 5: return net.push_back(nn::ELU{});
    default: return net.push_back(nn::Sigmoid{});
  }
}

/** Adds one to three linear layers with norms and activations, and one with `out` features. */
inline void add_head(nn::Sequential& net, Draw& draw, std::int64_t in, std::int64_t out,
                     std::int64_t least_depth) {
  for (std::int64_t i = draw.integer(least_depth, 3); i > 0; --i) {
    const std::int64_t width = draw.integer(8, 48);
    net.push_back(nn::Linear{in, width});
    const std::int64_t norm = draw.integer(0, 3);
    if (norm == 0) net.push_back(nn::LayerNorm{width});
    if (norm == 1) net.push_back(nn::BatchNorm1d{width});
    add_activation(net, draw);
    in = width;
  }
  net.push_back(nn::Linear{in, out});
}

inline Net multilayer(Draw& draw, std::int64_t batch, std::int64_t out) {
  Net made{.net = {}, .x = {}, .y = {}, .text = "mlp"};
  const std::int64_t in = draw.integer(5, 40);
  add_head(made.net, draw, in, out, 1);
  made.x = randn({batch, in});
  return made;
}

inline Net convolutional(Draw& draw, std::int64_t batch, std::int64_t out) {
  Net made{.net = {}, .x = {}, .y = {}, .text = "conv"};
  const std::int64_t size = 8;
  std::int64_t channels = draw.integer(1, 3);
  made.x = randn({batch, channels, size, size});
  for (std::int64_t i = draw.integer(1, 2); i > 0; --i) {
    const std::int64_t next = 4 * draw.integer(1, 3);
    made.net.push_back(nn::Conv2d{channels, next, 3, {.padding = 1}});
    const std::int64_t norm = draw.integer(0, 2);
    if (norm == 0) made.net.push_back(nn::BatchNorm2d{next});
    if (norm == 1) made.net.push_back(nn::GroupNorm{4, next});
    add_activation(made.net, draw);
    channels = next;
  }
  made.net.push_back(nn::MaxPool2d{2});
  made.net.push_back(nn::Flatten{});
  add_head(made.net, draw, channels * size * size / 4, out, 0);
  return made;
}

inline Net recurrent(Draw& draw, std::int64_t batch, std::int64_t out) {
  Net made{.net = {}, .x = {}, .y = {}, .text = "recurrent"};
  const std::int64_t in = draw.integer(3, 12), width = draw.integer(8, 24);
  made.x = randn({batch, draw.integer(3, 8), in});
  switch (draw.integer(0, 2)) {
    case 0: made.net.push_back(MeanOutput{nn::RNN{in, width, {.batch_first = true}}}); break;
    case 1: made.net.push_back(MeanOutput{nn::GRU{in, width, {.batch_first = true}}}); break;
    default: made.net.push_back(MeanOutput{nn::LSTM{in, width, {.batch_first = true}}});
  }
  add_head(made.net, draw, width, out, 0);
  return made;
}

inline Net attending(Draw& draw, std::int64_t batch, std::int64_t out) {
  Net made{.net = {}, .x = {}, .y = {}, .text = "attention"};
  const std::int64_t words = draw.integer(10, 40), heads = draw.integer(1, 3), width = 8 * heads;
  made.x = randint(0, words, {batch, draw.integer(3, 8)});
  made.net.push_back(nn::Embedding{words, width});
  for (std::int64_t i = draw.integer(1, 2); i > 0; --i)
    made.net.push_back(
        Encoder{nn::TransformerEncoderLayer{width,
                                            heads,
                                            {.dim_feedforward = 2 * width,
                                             .dropout = 0,
                                             .batch_first = true,
                                             .norm_first = draw.integer(0, 1) == 1}}});
  made.net.push_back(MeanOverTime{});
  add_head(made.net, draw, width, out, 0);
  return made;
}

/** The loss of a net's output. */
enum class Loss { cross_entropy, mse, huber, logistic };

/** A net, what it is trained with, and the data. */
struct Drawn {
  Net net;
  Loss loss = Loss::cross_entropy;
  std::string optimizer;
  double lr = 0;
  std::string text;

  Tensor loss_of(const Tensor& out) const {
    switch (loss) {
      case Loss::cross_entropy: return cross_entropy(out, net.y);
      case Loss::mse: return mse_loss(out, net.y);
      case Loss::huber: return huber_loss(out, net.y);
      case Loss::logistic: return binary_cross_entropy_with_logits(out, net.y);
    }
    return {};
  }
  std::shared_ptr<optim::Optimizer> make_optimizer(const std::vector<Tensor>& parameters) const {
    const auto made = [&]<class O>(const typename O::Options& options) {
      return std::static_pointer_cast<optim::Optimizer>(std::make_shared<O>(parameters, options));
    };
    if (optimizer == "SGD") return made.operator()<optim::SGD>({.lr = lr});
    if (optimizer == "momentum")
      return made.operator()<optim::SGD>({.lr = lr, .momentum = 0.9, .nesterov = true});
    if (optimizer == "Adam") return made.operator()<optim::Adam>({.lr = lr});
    if (optimizer == "AdamW") return made.operator()<optim::AdamW>({.lr = lr});
    if (optimizer == "FusedAdam") return made.operator()<optim::FusedAdam>({.lr = lr});
    return made.operator()<optim::FusedLAMB>({.lr = lr});
  }
};

/** Draws a net of any kind, its data, a loss, an optimizer and a learning rate. `adaptive`: an
 *  optimizer whose updates are about as large as the learning rate. */
inline Drawn drawn(Draw& draw, bool adaptive = false) {
  Drawn made;
  made.loss = static_cast<Loss>(draw.integer(0, 3));
  const std::int64_t batch = draw.integer(4, 48), out = draw.integer(2, 8);
  switch (draw.integer(0, 3)) {
    case 0: made.net = multilayer(draw, batch, out); break;
    case 1: made.net = convolutional(draw, batch, out); break;
    case 2: made.net = recurrent(draw, batch, out); break;
    default: made.net = attending(draw, batch, out);
  }
  if (made.loss == Loss::cross_entropy)
    made.net.y = randint(0, out, {batch});
  else
    made.net.y = made.loss == Loss::logistic ? rand({batch, out}) : randn({batch, out});
  made.optimizer =
      adaptive ? draw.one_of({"Adam", "AdamW", "FusedAdam"})
               : draw.one_of({"SGD", "momentum", "Adam", "AdamW", "FusedAdam", "FusedLAMB"});
  const bool is_sgd = made.optimizer == "SGD" || made.optimizer == "momentum";
  made.lr = is_sgd ? draw.power(-7, -4) : draw.power(-10, -7);
  made.text = made.net.text + ", loss " + std::to_string(static_cast<int>(made.loss)) + ", " +
              made.optimizer + ", lr " + std::to_string(made.lr) + ", batch " +
              std::to_string(batch);
  return made;
}

}  // namespace random_training
