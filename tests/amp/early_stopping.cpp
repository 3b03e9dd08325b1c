// EarlyStopping: the best evaluation, patience, NaN, and a training that is resumed.
#include <mezzo.h>

#include <cmath>

#include "../io/files.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;
using optim::EarlyStopping;
using optim::PlateauMode;

namespace {

/** Takes metrics until it stops; returns which were the best so far. */
std::vector<bool> improved(EarlyStopping& stopping, const std::vector<double>& metrics) {
  std::vector<bool> out;
  for (const double metric : metrics) {
    if (stopping.should_stop()) break;
    CHECK(stopping.reason().empty());
    out.push_back(stopping.step(metric));
  }
  return out;
}

}  // namespace

TEST_CASE("a training stops after so many evaluations without a better one", "[early_stopping]") {
  EarlyStopping stopping({.patience = 2});
  CHECK(improved(stopping, {3, 2, 2, 1.5, 1.6, 1.5, 1}) ==
        std::vector<bool>{true, true, false, true, false, false});
  CHECK(stopping.should_stop());
  CHECK(stopping.best() == 1.5);
  CHECK(stopping.wait_count() == 2);
  CHECK(stopping.reason() == "no improvement in 2 evaluations; the best was 1.5 (evaluation 4)");

  EarlyStopping largest({.mode = PlateauMode::max, .patience = 1, .min_delta = 0.1});
  CHECK(improved(largest, {-1, -0.5, -0.45}) == std::vector<bool>{true, true, false});
  CHECK(largest.best() == -0.5);
  CHECK(largest.should_stop());
}

TEST_CASE("a metric that is NaN stops the training", "[early_stopping]") {
  for (const PlateauMode mode : {PlateauMode::min, PlateauMode::max}) {
    EarlyStopping stopping({.mode = mode, .patience = 5});
    CHECK(improved(stopping, {1, std::nan(""), 1}) == std::vector<bool>{true, false});
    CHECK(stopping.should_stop());
    CHECK(stopping.reason() == "the metric is NaN; the best was 1 (evaluation 1)");
  }
  EarlyStopping at_once;
  CHECK_FALSE(at_once.step(std::nan("")));
  CHECK(at_once.reason() == "the metric is NaN; there was no best one");
  EarlyStopping infinite({.mode = PlateauMode::max});
  CHECK_FALSE(infinite.step(-INFINITY));
  CHECK_FALSE(infinite.should_stop());
}

TEST_CASE("options of early stopping are checked", "[early_stopping]") {
  CHECK_THROWS_WITH_AS_TEXT(EarlyStopping({.patience = 0}), ValueError, "patience");
  CHECK_THROWS_WITH_AS_TEXT(EarlyStopping({.min_delta = -1}), ValueError, "min_delta");
  CHECK_THROWS_WITH_AS_TEXT(EarlyStopping({.min_delta = NAN}), ValueError, "min_delta");
}

TEST_CASE("the best checkpoint is kept, and a resumed training stops where it would have",
          "[early_stopping]") {
  const files::Directory folder;
  const std::vector<double> metrics{0.5, 0.7, 0.6, 0.65, 0.9};
  const auto train = [&](std::size_t first, std::size_t last, bool resumes) {
    nn::Linear net{2, 2};
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    EarlyStopping stopping({.mode = PlateauMode::max, .patience = 2});
    amp::Training training{.model = net, .optimizer = optimizer, .schedule = stopping};
    if (resumes) amp::load_checkpoint(folder / "last", training);
    std::size_t i = first;
    for (; i < last && !stopping.should_stop(); ++i) {
      const NoGrad no_grad;
      net.bias().fill_(metrics[i]);
      training.step = static_cast<std::int64_t>(i);
      if (stopping.step(metrics[i])) amp::save_checkpoint(folder / "best", training, {.keep = 1});
      amp::save_checkpoint(folder / "last", training);
    }
    return i;
  };
  CHECK(train(0, 3, false) == 3);
  CHECK(train(3, 5, true) == 4);  // stops before the last metric
  nn::Linear best{2, 2};
  optim::SGD optimizer(best.parameters(), {.lr = 0.1});
  EarlyStopping stopping({.mode = PlateauMode::max, .patience = 2});
  const auto loaded = amp::load_checkpoint(
      folder / "best", {.model = best, .optimizer = optimizer, .schedule = stopping});
  CHECK(loaded.step == 1);
  CHECK(best.bias().to_vector<float>() == std::vector<float>(2, 0.7f));
  CHECK(stopping.best() == 0.7);
  CHECK(stopping.wait_count() == 0);

  optim::StateDict wrong = stopping.state_dict();
  wrong.scalars["wait_count"] = 0.5;
  CHECK_THROWS_WITH_AS_TEXT(stopping.load_state_dict(wrong), ValueError, "wait_count");
  wrong = stopping.state_dict();
  wrong.scalars["other"] = 1;
  CHECK_THROWS_AS(stopping.load_state_dict(wrong), ValueError);
  wrong = stopping.state_dict();
  wrong.scalars.erase("best");
  CHECK_THROWS_WITH_AS_TEXT(stopping.load_state_dict(wrong), ValueError, "expected best");
}
