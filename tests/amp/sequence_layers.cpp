// Recurrent and attention layers at every level: they train, their states have the expected dtypes,
// and their weights are cast once.
#include "../support/catch.h"
#include "../support/levels.h"
#include "fingerprint.h"
#include "nets.h"

using namespace nets;

namespace {

/** An LSTM, attention over its outputs, and a sum. */
struct Reader : nn::Model<Reader> {
  nn::LSTM lstm = add("lstm", nn::LSTM{4, 8});
  nn::TransformerEncoderLayer look =
      add("look", nn::TransformerEncoderLayer{8, 2, {.dim_feedforward = 16, .dropout = 0}});
  nn::Linear fc = add("fc", nn::Linear{8, 3});
  Tensor forward(const Tensor& x) const {
    const LstmResult read = lstm(x);
    return fc(mean(look(read.output), {0}));
  }
};

struct LossCurve {
  std::vector<double> losses;
  std::uint64_t bits;
  friend bool operator==(const LossCurve&, const LossCurve&) = default;
};

LossCurve train_reader(const char* level) {
  manual_seed(3);
  const Reader net;
  net.to(test_device());
  optim::Adam optimizer(net.parameters(), {.lr = 0.01});
  const auto session = amp::initialize(net, optimizer, quiet(level));
  const Tensor x = wave({5, 4, 4}, 0.3),
               classes = tensor({0, 1, 2, 1}, {4}, {.dtype = i64, .device = test_device()});
  LossCurve course;
  for (int i = 0; i < 8; ++i) {
    const Tensor loss = cross_entropy(net(x), classes);
    course.losses.push_back(loss.item<double>());
    optimizer.zero_grad();
    amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
    CHECK(optimizer.step() == amp::StepResult::stepped);
  }
  course.bits = fingerprint::of(net);
  return course;
}

Tensor sequence() { return wave({5, 2, 4}, 0.3); }

}  // namespace

TEST_CASE("sequence layers train at every level, twice to the same bits", "[levels]") {
  for (const char* level : kLevels) {
    INFO(level);
    const LossCurve course = train_reader(level);
    CHECK(course.losses.back() < course.losses.front());
    CHECK(course == train_reader(level));
  }
}

TEST_CASE("an LSTM's weights are converted, and its states have the dtype of the model's outputs",
          "[levels]") {
  for (const char* level : kLevels) {
    INFO(level);
    const nn::LSTM lstm{4, 3};
    lstm.to(test_device());
    const auto session = amp::initialize(lstm, quiet(level));
    const std::string l = level;
    const DType weights = l == "O2" || l == "O3" ? f16 : l == "O5" ? bf16 : f32;
    const DType results = l == "O1" ? f16 : l == "O4" ? bf16 : f32;
    CHECK(lstm.weights()[0].weight_hh.dtype() == weights);
    const LstmResult plain = lstm(sequence());
    for (const Tensor& y : {plain.output, plain.h, plain.c}) CHECK(y.dtype() == results);
    const nn::PackedLstmResult packed = lstm(nn::pack_padded_sequence(sequence(), {5, 3}));
    for (const Tensor& y : {packed.output.data, packed.h, packed.c}) CHECK(y.dtype() == results);
    const Tensor state = zeros({1, 2, 3}, {.device = test_device()});
    CHECK(lstm(sequence(), LstmState{state, state}).c.dtype() == results);
  }
}

TEST_CASE("a recurrent layer's weights are cast once per region", "[levels]") {
  const nn::GRU gru{4, 3};
  gru.to(test_device());
  const auto session = amp::initialize(gru, quiet("O1"));
  const auto casts = [&] {
    const amp::CastStats before = amp::cast_stats();
    gru(sequence());
    return amp::cast_stats() - before;
  };
  const amp::CastStats first = casts(), second = casts();
  CHECK(second.cache_hits == 4);
  CHECK(first.casts == second.casts + 4);
}

TEST_CASE("attention has the model's input and output dtypes", "[levels]") {
  for (const char* level : kLevels) {
    INFO(level);
    const nn::MultiheadAttention attention{4, 2};
    attention.to(test_device());
    const auto session = amp::initialize(attention, quiet(level));
    const std::string l = level;
    const DType results = l == "O1" ? f16 : l == "O4" ? bf16 : f32;
    CHECK(attention(sequence(), sequence(), sequence()).output.dtype() == results);
  }
}
