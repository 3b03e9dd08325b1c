// Rows of the random ops: properties of every draw. tests/autograd/random.cpp tests the
// distributions. Golden cases are impossible: PyTorch's generator is another one.
#include "../../../tensor/random/philox.h"
#include "../row.h"
#include "elementwise.h"
#include "smoke_lines.h"

using namespace rows;
using namespace mezzo;

namespace {

std::vector<Array> ones_of(const std::vector<Array>& x) {
  return {moved(Array{{1}, {1}}, x[0].shape, [](std::int64_t) { return 0; })};
}

/** The case of a distribution that has one value only. */
const Case kOnes{.oracle = ones_of, .gradients = false};

/** A line that draws numbers, which are the same on all devices. */
Smoke smoke_drawn(const std::string& name, double passes) {
  return {.name = name,
          .dtypes = {f32},
          .operands = smoke_map("", 1, {}).operands,
          .passes = passes,
          .factor = 0,
          .expected = smoke::Expected::same};
}

const Rows random_rows("pointwise", [] {
  row("bernoulli", CALL(bernoulli_(x[0].clone(), p), double p))
      .in_place(CALL(bernoulli_(x[0], p), double p))
      .test(kOnes, 1)
      .fuzz(unary, [](FuzzDraw& d) { return d.real(-0.2, 1.2); });
  row("normal", CALL(normal_(x[0].clone(), mean, std), double mean, double std))
      .in_place(CALL(normal_(x[0], mean, std), double mean, double std))
      .test(kOnes, 1, 0)
      .fuzz(unary, real, real);
  row("randint", CALL(randint_(x[0].clone(), low, high), std::int64_t low, std::int64_t high))
      .in_place(CALL(randint_(x[0], low, high), std::int64_t low, std::int64_t high))
      .test(kOnes, 1, 2)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const std::int64_t low = d.number(-2, 2), high = d.number(-1, 9);
        return Trial{call({x}, low, high), low < high ? gives(sizes(x)) : refused()};
      });
  row("uniform", CALL(uniform_(x[0].clone(), low, high), double low, double high))
      .in_place(CALL(uniform_(x[0], low, high), double low, double high))
      .test(kOnes, 1, 1)
      .fuzz(unary, real, real);
  row("uniform", CALL(rand_like(x[0]))).smoke(smoke_drawn("uniform", 1));
  row("normal", CALL(randn_like(x[0]))).smoke(smoke_drawn("normal", 1));
  // The seed is set in each call, so that finite differences use the same mask.
  row("dropout", CALL(dropout(x[0], o), const DropoutOptions& o))
      .in_place(CALL(dropout_(x[0], o), const DropoutOptions& o))
      .test({.call =
                 [](const std::vector<Tensor>& x) {
                   manual_seed(5);
                   return std::vector<Tensor>{dropout(x[0], {.p = 0.25})};
                 },
             .oracle =
                 [](const std::vector<Array>& x) {
                   Array y = x[0];
                   for (std::size_t i = 0; i < y.values.size(); ++i) {
                     const PhiloxBlock words = philox_block({5, 0}, i / 4);
                     y.values[i] = words.word[i % 4] < 0xC0000000u ? y.values[i] / 0.75 : 0;
                   }
                   return std::vector<Array>{y};
                 }})
      .fuzz(unary, [](FuzzDraw& d) { return DropoutOptions{.p = d.real(-0.2, 1.2)}; })
      .golden({"outside training", "F.dropout(x0, 0.5, training=False)", "real(3, 4)"},
              {.training = false})
      .smoke(smoke_drawn("dropout", 2), {.p = 0.3});
});

}  // namespace
