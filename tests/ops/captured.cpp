// Every op in a captured step: replays on other operands give the same bits as eager calls, for
// results and gradients. Lists the ops that cannot be captured.
#include <set>

#include "../support/catch.h"
#include "samples.h"

using namespace mezzo;
using namespace cases;

namespace {

/** Ops that read on the host what is on the device (to find the shape of the result, to validate
 *  operands, or to compute there), and ops that take lengths from the host (recurrent ops of packed
 *  sequences). */
const std::set<std::string> kNotCaptured{"binary_cross_entropy",
                                         "bincount",
                                         "cholesky",
                                         "det",
                                         "eigh",
                                         "eigvalsh",
                                         "gru",
                                         "index",
                                         "inv",
                                         "lstm",
                                         "masked_scatter",
                                         "masked_select",
                                         "matrix_norm",
                                         "nonzero",
                                         "pinv",
                                         "qr",
                                         "rnn_relu",
                                         "rnn_tanh",
                                         "slogdet",
                                         "solve",
                                         "svd",
                                         "svdvals",
                                         "unique"};

/** Returns the op's results and, if requested, the gradients of its operands. */
std::vector<Tensor> results_and_gradients(const Case& c, const std::vector<Tensor>& operands,
                                          bool gradients) {
  std::vector<Tensor> x, out, outputs, seeds, wanted;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    x.push_back(operands[k].detach());
    const Operand& its = c.operands[k];
    if (gradients && !its.integers && !its.boolean && !its.constant)
      wanted.push_back(x[k].requires_grad_());
  }
  for (const Tensor& y : c.call(x)) {
    out.push_back(y.detach());
    if (!y.requires_grad()) continue;
    outputs.push_back(y);
    seeds.push_back(y.detach() * 0.25 - 0.5);
  }
  if (outputs.empty()) return out;
  for (const Tensor& g : grad(outputs, wanted, {.allow_unused = true}, seeds))
    if (g.defined()) out.push_back(g);
  return out;
}

}  // namespace

TEST_CASE("replays of a captured op give the same bits as eager calls", "[captured][sharded]") {
  if (test_device() == cpu) SKIP_TEST("the CPU captures nothing");
  std::set<std::string> refused;
  for (const Case& c : all_cases())
    for (const DType dtype : {f32, f16}) {
      if (!in_shard(c)) continue;
      const bool gradients = c.gradients && runs_here(c, Depth::gradients);
      if (!runs_here(c, Depth::values) || (is_low(dtype) && !c.half)) continue;
      for (std::size_t s = 0; s < std::min<std::size_t>(samples_of(c).size(), 1); ++s) {
        INFO(label(c, s) << " in " << name(dtype));
        gpu::CapturedStep step(
            [&](const std::vector<Tensor>& x) { return results_and_gradients(c, x, gradients); },
            {test_device()});
        try {
          for (const std::size_t redraw : {0, 0, 1, 2}) {
            const std::vector<Tensor> x = to_tensors(c, draw(c, s, true, redraw), dtype);
            manual_seed(redraw);
            const std::vector<Tensor> expected = results_and_gradients(c, x, gradients);
            manual_seed(redraw);
            const std::vector<Tensor> got = step(x);
            REQUIRE(got.size() == expected.size());
            for (std::size_t i = 0; i < got.size(); ++i)
              CHECK(same_bits(got[i].to(cpu), expected[i].to(cpu)));
          }
          CHECK(step.captures() == 1);
        } catch (const StateError& e) {
          INFO(e.what());
          const std::string first =
              std::string(e.what()).substr(0, std::string_view(e.what()).find(':'));
          if (first == "manual_seed" || first == "tensor") continue;  // thrown by the case itself
          CHECK(std::string(e.what()).find("while a step is being captured") != std::string::npos);
          refused.insert(c.op);
        }
      }
    }
  // A shard has some of the cases.
  CHECK(std::includes(kNotCaptured.begin(), kNotCaptured.end(), refused.begin(), refused.end()));
  if (shard_count() == 1) CHECK(refused == kNotCaptured);
}
