// Rows of an embedding that add_layer_norm looks up, and branches that it repeats.
#include <mezzo.h>

#include "../support/catch.h"
#include "../support/same_bits.h"
#include "../support/throws.h"
#include "cost.h"
#include "training.h"

using namespace captured;

namespace {

constexpr std::int64_t kCharacters = 7, kSteps = 5;

struct Layers {
  nn::Embedding token;
  nn::LearnedPositionalEmbedding position;
  nn::LayerNorm norm;

  Layers(std::int64_t width, DType dtype, const EmbeddingOptions& options = {})
      : token(kCharacters, width, options),
        position(kSteps + 2, width, {.batch_first = true}),
        norm(width) {
    token.to(kDevice).to(dtype);
    position.to(kDevice).to(dtype);
    norm.to(kDevice).to(dtype);
  }
  std::vector<Tensor> parameters() const {
    return {token.weight(), position.weight(), norm.weight(), norm.bias()};
  }
  /** Returns sum, norm, and the gradients of a loss of both. */
  std::vector<Tensor> results(const Tensor& index, bool late, std::int64_t* launches = nullptr) {
    nn::SumAndNorm y;
    const emulator::Counters cost = cost_of([&] {
      y = late ? nn::add_layer_norm(norm, token.late(index),
                                    position.rows(index.size(-1), 1).to(token.weight().dtype()))
               : nn::add_layer_norm(norm, position(token(index), 1));
    });
    if (launches != nullptr) *launches = cost.launches;
    const Tensor factor = sin(arange(static_cast<double>(y.norm.numel())))
                              .to(kDevice, y.norm.dtype())
                              .reshape(y.norm.shape());
    const Tensor loss = sum(y.norm * factor + y.sum * y.sum);
    std::vector<Tensor> all{y.sum, y.norm};
    const auto add = [&](const std::vector<Tensor>& gradients) {
      all.insert(all.end(), gradients.begin(), gradients.end());
    };
    add(grad({loss}, parameters(), {.retain_graph = true}));
    const std::vector<Tensor> first = grad({loss}, parameters(), {.create_graph = true});
    add(grad({sum(first[0] * first[0]) + sum(first[1] * first[1])},
             {token.weight(), position.weight(), norm.weight()}));
    return all;
  }
};

Tensor characters(DType dtype = i64, std::int64_t batch = 3) {
  return randint(0, kCharacters, {batch, kSteps}).to(dtype).to(kDevice);
}

void check_same(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("result " << i);
    CHECK(testing::same_bits(got[i], expected[i]));
  }
}

}  // namespace

TEST_CASE("rows that add_layer_norm looks up give the bits of embedding, add and layer_norm",
          "[gpu][counters]") {
  manual_seed(61);
  for (const DType dtype : {f16, bf16, f32, f64})
    for (const std::int64_t width : {64, 24, 9})
      for (const DType indices : {i64, i32}) {
        INFO(name(dtype) << " " << width);
        Layers layers(width, dtype);
        const Tensor index = characters(indices);
        std::int64_t launches = 0, separate = 0;
        const std::vector<Tensor> late = layers.results(index, true, &launches);
        check_same(late, layers.results(index, false, &separate));
        const bool is_packs = dtype != f64 && width != 9;
        CHECK(separate == 3);
        CHECK(launches == (is_packs ? 1 : 3));
      }
}

TEST_CASE("rows are looked up late with an embedding's options and in strided operands",
          "[gpu][counters]") {
  manual_seed(62);
  Layers padded(16, f32, {.padding_idx = 2, .scale_grad_by_freq = true});
  const Tensor index = characters();
  check_same(padded.results(index, true), padded.results(index, false));
  Layers layers(16, f16);
  layers.position.to(f32);  // its rows are rounded, and their gradient is not
  const Tensor many = characters(i64, 300);
  check_same(layers.results(many, true), layers.results(many, false));
  const Tensor turned = characters().t().contiguous().t(),
               one = characters().select(0, 1);  // without a batch
  check_same(layers.results(turned, true), layers.results(turned, false));
  check_same(layers.results(one, true), layers.results(one, false));
}

TEST_CASE("rows that are late can be read like others", "[gpu][counters]") {
  manual_seed(63);
  Layers layers(16, f32);
  const Tensor index = characters(), late = layers.token.late(index);
  CHECK(cost_of([&] { (void)layers.token.late(index); }).launches == 0);
  CHECK(testing::same_bits(late, layers.token(index)));
  const Tensor once = grad({sum(late * late)}, {layers.token.weight()})[0];
  CHECK(testing::same_bits(
      once, grad({sum(layers.token(index) * layers.token(index))}, {layers.token.weight()})[0]));
  const Tensor rows = layers.token.late(index);
  layers.token.weight().detach().fill_(2);
  CHECK_THROWS_WITH_AS_TEXT(rows.to_vector<double>(), StateError, "modified before");
  CHECK_THROWS_WITH_AS_TEXT(nn::add_layer_norm(layers.norm, rows, layers.position.rows(kSteps)),
                            StateError, "modified before");
}

TEST_CASE("an index of add_layer_norm that is out of range is an error of embedding",
          "[gpu][counters]") {
  Layers layers(16, f32);
  const Tensor index = full({1, 2}, kCharacters, {.dtype = i64, .device = kDevice});
  const auto read = [&] {
    const nn::SumAndNorm y =
        nn::add_layer_norm(layers.norm, layers.token.late(index), layers.position.rows(2));
    return y.norm.to_vector<double>();
  };
  CHECK_THROWS_WITH_AS_TEXT(read(), IndexError, "embedding");
}

TEST_CASE("on the CPU rows are looked up at once", "[gpu][counters]") {
  const nn::Embedding token(kCharacters, 8);
  const nn::LearnedPositionalEmbedding position(kSteps, 8, {.batch_first = true});
  const nn::LayerNorm norm(8);
  const Tensor index = randint(0, kCharacters, {3, kSteps}), rows = token.late(index);
  const std::vector<double> before = rows.to_vector<double>();
  const nn::SumAndNorm y = nn::add_layer_norm(norm, rows, position.rows(kSteps));
  CHECK(testing::same_bits(y.norm, norm(position(token(index)))));
  token.weight().detach().fill_(2);
  CHECK(rows.to_vector<double>() == before);
  CHECK_THROWS_AS(position.rows(2, kSteps - 1), IndexError);
}
