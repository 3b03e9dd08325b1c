// The model of bench --gpu-model: work that is known, and predictions that follow from it.
#include "../../samples/bench/gpu_model.h"

#include <map>

#include "../support/catch.h"

using namespace samples;

namespace {

/** Returns the predictions of a net by level. */
std::map<std::string, GpuPrediction> predicted(const std::string& net, std::int64_t batch,
                                               std::int64_t width) {
  std::map<std::string, GpuPrediction> all;
  predict_gpu({net}, {"O0", "O2", "O4"}, {.batch = batch, .width = width},
              [&](const GpuPrediction& p) { all[p.level] = p; });
  return all;
}

}  // namespace

TEST_CASE("a prediction is between its longest part and the sum of its parts", "[samples]") {
  for (const char* net : {"mlp", "resnet18", "char_gpt", "char_lstm", "dcgan"})
    for (const auto& [level, p] : predicted(net, 0, 0)) {
      INFO(net << " " << level);
      CHECK(p.samples > 0);
      CHECK(p.ops > 10);
      CHECK(p.launches == Approx(static_cast<double>(p.ops) * h100().op_seconds));
      CHECK(p.products ==
            Approx(p.work.flops / (level == "O0" ? h100().f32_flops_per_s : h100().f16_flops_per_s))
                .epsilon(level == "O0" ? 1e-9 : 0.2));
      CHECK(p.seconds >= std::max({p.products, p.memory, p.launches}) * (1 - 1e-9) + p.steps);
      CHECK(p.seconds <= p.products + p.memory + p.launches + p.steps);
      CHECK((p.steps > 0) == (net == std::string("char_lstm")));
    }
}

TEST_CASE("large products are faster in 16 bits, small nets are bound by launches", "[samples]") {
  auto large = predicted("mlp", 4096, 2048);
  CHECK(large["O0"].work.flops == Approx(large["O2"].work.flops));
  CHECK(large["O0"].seconds > 3 * large["O2"].seconds);
  CHECK(large["O4"].seconds == Approx(large["O2"].seconds).epsilon(0.2));
  auto small = predicted("mlp", 8, 8);
  CHECK(small["O2"].launches > 0.9 * small["O2"].seconds);
  CHECK(small["O2"].ops >= small["O0"].ops);
}
