// Every level with every loss scale, every batch norm option and every optimizer: valid
// combinations train, twice to the same bits; invalid ones are refused with the expected error.
#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/throws.h"
#include "conv_net.h"

using namespace conv_net;
using nets::kLevels;

namespace {

template <class T> struct Choice {
  const char* name;
  std::optional<T> value;
};
const Choice<amp::LossScale> kScales[] = {{"default", {}},
                                          {"1", amp::LossScale(1.0)},
                                          {"128", amp::LossScale(128.0)},
                                          {"dynamic", amp::LossScale("dynamic")}};
const Choice<bool> kBatchNorms[] = {{"default", {}}, {"true", true}, {"false", false}};

/** On a slow device some of the loss scales are left out. */
bool runs_here(const Choice<amp::LossScale>& scale) {
  return !mezzo::testing::is_slow() || &scale >= &kScales[2];
}

/** On a slow device the default is left out where there is a choice: it is one of the options, as
 *  a test below checks. */
bool runs_here(const char* level, const Choice<bool>& batch_norm) {
  return !mezzo::testing::is_slow() || levels::op_casts(level) || batch_norm.value;
}

amp::Options chosen_options(const char* level, const Choice<amp::LossScale>& scale,
                            const Choice<bool>& batch_norm) {
  amp::Options options = nets::quiet(level);
  options.loss_scale = scale.value;
  if (batch_norm.value) options.keep_batchnorm_fp32 = *batch_norm.value;
  return options;
}

/** True for levels in f32 and bf16, whose exponent range makes scaling by powers of two exact. */
bool scales_exactly(const std::string& level) {
  return level == "O0" || level == "O4" || level == "O5";
}

void check_that_it_learns(const RunResult& run) {
  CHECK(run.losses.back() < run.losses.front());
  for (const optim::StepResult& verdict : run.verdicts)
    CHECK(verdict == optim::StepResult::stepped);
}

}  // namespace

TEST_CASE(
    "levels x loss scales x batch norm x optimizers: trains, twice the same bits, or is refused",
    "[product]") {
  int trained = 0, refused = 0;
  for (const char* level : kLevels)
    for (const optimizers::Kind& kind : optimizers::kinds())
      for (const Choice<bool>& batch_norm : kBatchNorms) {
        if (!runs_here(level, batch_norm)) continue;
        std::optional<RunResult> by_another_scale;
        for (const auto& scale : kScales) {
          if (!runs_here(scale)) continue;
          INFO(level << ", loss scale " << scale.name << ", keep_batchnorm_fp32 " << batch_norm.name
                     << ", " << kind.name);
          const amp::Options options = chosen_options(level, scale, batch_norm);
          if (levels::op_casts(level) && batch_norm.value) {
            CHECK_THROWS_WITH_AS_TEXT(
                train(options, kind.make), ValueError,
                str("amp::initialize: keep_batchnorm_fp32: ", level,
                    " casts ops and leaves the model in f32; got ", batch_norm.name,
                    ", expected no value; the model, including batch norm, stays f32"));
            ++refused;
            continue;
          }
          const RunResult run = train(options, kind.make);
          check_that_it_learns(run);
          CHECK(run == train(options, kind.make));
          ++trained;
          if (!scales_exactly(level)) continue;
          if (by_another_scale) CHECK(run == *by_another_scale);
          by_another_scale = run;
        }
      }
  const int kinds = static_cast<int>(optimizers::kinds().size());
  const bool all = !mezzo::testing::is_slow();
  CHECK(trained == (4 * (all ? 3 : 2) + 2) * (all ? 4 : 2) * kinds);
  CHECK(refused == 2 * 2 * (all ? 4 : 2) * kinds);
}

// One pass over lists of all tensors must give the same bits as one call per tensor.
TEST_CASE("one optimizer for all parameters and one per parameter train to the same bits",
          "[product]") {
  for (const char* level : kLevels)
    for (const optimizers::Kind& kind : optimizers::kinds())
      for (const auto& scale : kScales) {
        if (!kind.tensor_by_tensor || !runs_here(scale)) continue;
        INFO(level << ", loss scale " << scale.name << ", " << kind.name);
        const amp::Options options = chosen_options(level, scale, kBatchNorms[0]);
        const RunResult together = train(options, kind.make);
        const RunResult apart = train(options, kind.make, kTrainSteps, Grouping::one_by_one);
        CHECK(together.losses == apart.losses);
        CHECK(together.model == apart.model);
      }
}

TEST_CASE("a level's default for batch norm equals one of the options", "[product]") {
  const optimizers::Factory& make = optimizers::kinds()[0].make;
  const auto run = [&](const char* level, const Choice<bool>& batch_norm) {
    return train(chosen_options(level, kScales[0], batch_norm), make);
  };
  const auto& [unset, kept, converted] = kBatchNorms;
  CHECK(run("O0", unset) == run("O0", kept));
  CHECK(run("O0", unset) == run("O0", converted));
  for (const char* level : {"O2", "O5"}) {
    CHECK(run(level, unset) == run(level, kept));
    CHECK_FALSE(run(level, unset) == run(level, converted));
  }
  CHECK(run("O3", unset) == run("O3", converted));
  CHECK_FALSE(run("O3", unset) == run("O3", kept));
}

// O1 casts an f32 weight to f16 for each op, O2 rounds an f32 master to an f16 weight after each
// step: both give the same f16 weight. In a net of ops with tags low and match only, the two levels
// compute the same.
TEST_CASE("O1 and O2 agree to the bit on this net, as do O4 and O5; no other levels do",
          "[product]") {
  for (const optimizers::Kind& kind : optimizers::kinds()) {
    INFO(kind.name);
    std::map<std::string, std::vector<double>> losses;
    for (const char* level : kLevels) losses[level] = train(nets::quiet(level), kind.make).losses;
    CHECK(losses["O1"] == losses["O2"]);
    CHECK(losses["O4"] == losses["O5"]);
    const char* const different[] = {"O0", "O1", "O3", "O4"};
    for (const char* a : different)
      for (const char* b : different) CHECK((losses[a] == losses[b]) == (a == b));
  }
}

TEST_CASE("O0 is the same as no session at all", "[product]") {
  amp::Options off;
  off.enabled = false;
  for (const optimizers::Kind& kind : optimizers::kinds())
    CHECK(train(off, kind.make) == train(nets::quiet("O0"), kind.make));
}
