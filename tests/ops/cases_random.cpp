// Cases of the random ops: properties of every draw. tests/autograd/random.cpp tests the
// distributions.
#include "cases.h"

#include "../../tensor/random/philox.h"

using namespace cases;
using namespace mezzo;

namespace {

std::vector<Array> ones_of(const std::vector<Array>& x) {
  return {moved(Array{{1}, {1}}, x[0].shape, [](std::int64_t) { return 0; })};
}

const Registrar additions([] {
  add_case({.op = "bernoulli",
            .call = CALL(bernoulli_(x[0].clone(), 1)),
            .oracle = ones_of,
            .gradients = false});
  add_case({.op = "normal",
            .call = CALL(normal_(x[0].clone(), 1, 0)),
            .oracle = ones_of,
            .gradients = false});
  add_case({.op = "randint",
            .call = CALL(randint_(x[0].clone(), 1, 2)),
            .oracle = ones_of,
            .gradients = false});
  add_case({.op = "uniform",
            .call = CALL(uniform_(x[0].clone(), 1, 1)),
            .oracle = ones_of,
            .gradients = false});
  // The seed is set in each call, so that finite differences use the same mask.
  add_case({.op = "dropout",
            .call =
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
                }});
});

}  // namespace
