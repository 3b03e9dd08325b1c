// Metrics: what torchmetrics does not have, and wrong arguments. ../golden/metrics.cpp compares the
// values with those of torchmetrics.
#include <cmath>
#include <limits>

#include "support.h"

using namespace mezzo;
using metrics::Accuracy, metrics::Average, metrics::Recall, metrics::F1Score,
    metrics::ConfusionMatrix, metrics::AUROC, metrics::MeanMetric, metrics::Perplexity,
    metrics::R2Score;

namespace {

const Tensor kScores = tensor({{0.1, 0.7, 0.2}, {0.5, 0.2, 0.3}, {0.2, 0.2, 0.6}});

Tensor classes(const std::vector<std::int64_t>& values) { return tensor(values, {.dtype = i64}); }

}  // namespace

TEST_CASE("targets are classes of any integer dtype, predictions scores or classes") {
  for (const DType dtype : {i64, i32, u8}) {
    Accuracy of_scores({.num_classes = 3}), of_classes({.num_classes = 3});
    of_scores.update(kScores, classes({1, 2, 2}).to(dtype));
    of_classes.update(argmax(kScores, {.dim = 1}), classes({1, 2, 2}).to(dtype));
    CHECK(of_scores.compute().item() == 2.0 / 3);
    CHECK(of_classes.compute().item() == 2.0 / 3);
  }
  Recall binary;
  binary.update(tensor({-3.0, 3.0, 4.0}), classes({1, 1, 0}).to(boolean));
  CHECK(binary.compute().item() == 0.5);
}

TEST_CASE("counts are exact beyond 2^24, which f32 does not count") {
  Accuracy accuracy;
  const Tensor zeros_of = zeros({1 << 20}, i64);
  for (int i = 0; i < 17; ++i) accuracy.update(zeros_of, zeros_of);
  accuracy.update(ones({1}, i64), zeros({1}, i64));
  CHECK(accuracy.compute().item() == 17825792.0 / 17825793.0);
}

TEST_CASE("updates record no gradient and keep no tensor of the caller") {
  const Tensor scores = kScores.clone().requires_grad_(), x = scores * 1;
  AUROC area({.num_classes = 3});
  Accuracy accuracy({.num_classes = 3});
  area.update(x, classes({1, 0, 2}));
  accuracy.update(x, classes({1, 0, 2}));
  x.detach().zero_();
  CHECK(area.compute().item() == 1);
  CHECK(accuracy.compute().item() == 1);
  CHECK_FALSE(area.compute().requires_grad());
}

TEST_CASE(
    "the area under the ROC curve does not depend on batches of logits that look like "
    "probabilities, or on the range of a sigmoid") {
  AUROC area;
  area.update(tensor({0.1, 0.9}), classes({1, 0}));  // logits as well
  area.update(tensor({-5.0, 40.0, 50.0}), classes({0, 0, 1}));
  CHECK(area.compute().item() == Approx(4.0 / 6));  // pairs: .1 > -5; 50 > .9, -5, 40
  AUROC ties;
  ties.update(tensor({1.0, 1.0, 1.0}), classes({0, 1, 1}));
  CHECK(ties.compute().item() == 0.5);
}

TEST_CASE("a mean of device numbers and of C++ numbers; NaN is not hidden") {
  MeanMetric mean;
  mean.update(tensor({1.0, 2.0}), 3);
  mean.update(5.0, 2);
  mean.update(empty({0}));
  CHECK(mean.compute().item() == 19.0 / 8);
  mean.update(std::nan(""));
  CHECK(std::isnan(mean.compute().item()));
  mean.reset();
  CHECK_THROWS_AS(mean.compute(), StateError);
}

TEST_CASE("the coefficient of determination does not depend on the unit or the offset") {
  const Tensor target = tensor({1.0, 2.0, 4.0}, {.dtype = f64}),
               preds = tensor({1.5, 2.0, 3.0}, {.dtype = f64});
  double first = 0;
  for (const double unit : {1.0, 1e-6}) {
    for (const double offset : {0.0, 1e6}) {
      R2Score score;
      score.update(preds * unit + offset * unit, target * unit + offset * unit);
      if (first == 0) first = score.compute().item();
      CHECK(score.compute().item() == Approx(first).epsilon(1e-9));
    }
  }
  R2Score constant;
  constant.update(full({3}, 0.1), full({3}, 0.1));
  CHECK(constant.compute().item() == 1);
  constant.update(full({3}, 0.2), full({3}, 0.1));
  CHECK(constant.compute().item() == 0);
}

TEST_CASE("each label is a binary task") {
  const Tensor scores = tensor({{0.9, 0.2}, {0.4, 0.7}, {0.8, 0.6}}),
               target = tensor({{1, 0}, {1, 1}, {0, 1}});
  Accuracy micro({.num_labels = 2}), each({.num_labels = 2, .average = Average::none});
  ConfusionMatrix matrix({.num_labels = 2});
  for (const DType dtype : {i64, u8, boolean}) {
    micro.update(scores, target.to(dtype));
    each.update((scores > 0.5).to(i64), target.to(dtype));
  }
  matrix.update(scores, target);
  CHECK(micro.compute().item() == 4.0 / 6);
  CHECK(equal(each.compute(), tensor({1.0 / 3, 1.0}, {.dtype = f64})));
  CHECK(equal(matrix.compute(), tensor({0, 1, 1, 1, 1, 0, 0, 2}, {2, 2, 2}, {.dtype = i64})));
  AUROC area({.num_labels = 2, .average = Average::none}), of_one({.num_labels = 1});
  area.update(scores, target);
  of_one.update(scores.narrow(1, 0, 1), target.narrow(1, 0, 1));
  CHECK(equal(area.compute(), tensor({0.5, 1.0}, {.dtype = f64})));
  CHECK(of_one.compute().item() == 0.5);
}

TEST_CASE("labels: what does not fit is refused, with the option that would") {
  const Tensor scores = rand({4, 3}), target = zeros({4, 3}, i64);
  CHECK_THROWS_WITH_AS_TEXT(Accuracy({.num_classes = 3, .num_labels = 3}), ValueError,
                            "of different tasks");
  CHECK_THROWS_WITH_AS_TEXT(F1Score({.num_labels = -1}), ValueError, "num_labels");
  CHECK_THROWS_WITH_AS_TEXT(Recall({.num_labels = 3, .top_k = 2}), ValueError, "top_k");
  CHECK_THROWS_WITH_AS_TEXT(Accuracy({.num_classes = 3}).update(scores, target), ShapeError,
                            "need num_labels");
  CHECK_THROWS_WITH_AS_TEXT(AUROC({.num_classes = 3}).update(scores, target), ShapeError,
                            "need num_labels");
  CHECK_THROWS_WITH_AS_TEXT(Accuracy({.num_labels = 4}).update(scores, target), ShapeError,
                            "num_labels columns");
  CHECK_THROWS_WITH_AS_TEXT(Accuracy({.num_labels = 3}).update(scores, zeros({4}, i64)), ShapeError,
                            "num_labels columns");
  CHECK_THROWS_WITH_AS_TEXT(Accuracy({.num_labels = 3}).update(rand({4, 2}), target), ShapeError,
                            "predictions do not fit");
  Accuracy two({.num_labels = 3});
  two.update(scores, full({4, 3}, 2, i64));
  CHECK_THROWS_WITH_AS_TEXT(two.compute(), ValueError, "12 predictions or targets");
}

TEST_CASE("scores that are NaN are no predictions") {
  const double nan = std::nan("");
  const Tensor rows = tensor({{0.1, 0.7, 0.2}, {0.5, nan, 0.3}, {nan, nan, nan}});
  for (const std::int64_t top_k : {1, 2}) {
    Accuracy of({.num_classes = 3, .top_k = top_k}),
        ignoring({.num_classes = 3, .top_k = top_k, .ignore_index = 2});
    of.update(rows, classes({1, 0, 0}));
    CHECK_THROWS_WITH_AS_TEXT(of.compute(), ValueError, "got 2 predictions");
    ignoring.update(rows, classes({1, 2, 2}));
    CHECK(ignoring.compute().item() == 1);
  }
  for (const DType dtype : {f16, bf16, f32, f64}) {
    F1Score binary, labels({.num_labels = 2});
    binary.update(tensor({0.2, nan, 3.0}).to(dtype), classes({0, 0, 1}));
    CHECK_THROWS_WITH_AS_TEXT(binary.compute(), ValueError, "NaN have no class");
    labels.update(tensor({{0.2, nan}}).to(dtype), tensor({{0, 1}}));
    CHECK_THROWS_WITH_AS_TEXT(labels.compute(), ValueError, "got 1 predictions");
  }
}

TEST_CASE("metrics refuse what they cannot count") {
  CHECK_THROWS_WITH_AS_TEXT(Accuracy({.num_classes = 1}), ValueError,
                            "num_classes is out of range");
  CHECK_THROWS_WITH_AS_TEXT(Accuracy({.num_classes = 3, .top_k = 4}), ValueError, "1..3");
  CHECK_THROWS_WITH_AS_TEXT(Accuracy({.top_k = 2}), ValueError, "only classes have top_k");
  CHECK_THROWS_WITH_AS_TEXT(Accuracy({.threshold = 2}), ValueError, "threshold");
  CHECK_THROWS_WITH_AS_TEXT(AUROC({.average = Average::micro}), ValueError, "micro");
  CHECK_THROWS_WITH_AS_TEXT(R2Score({.adjusted = -1}), ValueError, "adjusted");

  Accuracy accuracy({.num_classes = 3});
  CHECK_THROWS_WITH_AS_TEXT(accuracy.compute(), StateError, "Accuracy: nothing was added");
  CHECK_THROWS_WITH_AS_TEXT(accuracy.update(kScores, classes({1, 2})), ShapeError, "expected");
  CHECK_THROWS_WITH_AS_TEXT(accuracy.update(kScores, kScores), DtypeError, "targets");
  CHECK_THROWS_WITH_AS_TEXT(Accuracy().update(kScores, classes({1, 0, 1})), ShapeError,
                            "need num_classes");
  Accuracy top({.num_classes = 3, .top_k = 2});
  CHECK_THROWS_WITH_AS_TEXT(top.update(classes({1}), classes({1})), DtypeError, "top_k");
  accuracy.update(kScores.narrow(0, 0, 0), classes({}));
  CHECK_THROWS_AS(accuracy.compute(), StateError);
  for (const std::int64_t wrong : {-1, 3, 9}) {
    Accuracy of({.num_classes = 3});
    ConfusionMatrix matrix({.num_classes = 3});
    of.update(kScores, classes({1, wrong, 2}));
    matrix.update(classes({1, wrong, 2}), classes({1, 0, 2}));
    CHECK_THROWS_WITH_AS_TEXT(of.compute(), ValueError, "got 1 predictions or targets");
    CHECK_THROWS_WITH_AS_TEXT(matrix.compute(), ValueError, "expected 0..2");
    AUROC area({.num_classes = 3});
    area.update(kScores, classes({1, wrong, 2}));
    CHECK_THROWS_WITH_AS_TEXT(area.compute(), ValueError, "out of range");
  }
  Accuracy ignored({.num_classes = 3, .ignore_index = 0});
  ignored.update(kScores, classes({0, 0, 0}));
  CHECK_THROWS_AS(ignored.compute(), StateError);
  AUROC area;
  CHECK_THROWS_AS(area.compute(), StateError);
  CHECK_THROWS_WITH_AS_TEXT(area.update(classes({1}), classes({1})), DtypeError, "floating");
  area.update(tensor({std::numeric_limits<double>::quiet_NaN()}), classes({1}));
  CHECK_THROWS_WITH_AS_TEXT(area.compute(), ValueError, "NaN");
  CHECK_THROWS_WITH_AS_TEXT(MeanMetric().update(ones({2}), -1), ValueError, "weight");
  CHECK_THROWS_WITH_AS_TEXT(MeanMetric().update(1.0, INFINITY), ValueError, "weight");
  CHECK_THROWS_WITH_AS_TEXT(Perplexity().update(kScores, classes({1, 2, 0})), ShapeError,
                            "[N,T,V]");
  CHECK_THROWS_AS(Perplexity().update(kScores.unsqueeze(0), classes({1, 2, 3}).unsqueeze(0)),
                  IndexError);
  CHECK_THROWS_WITH_AS_TEXT(R2Score().update(ones({2}), ones({3})), ShapeError, "targets");
  R2Score score;
  score.update(ones({1}), ones({1}));
  CHECK_THROWS_WITH_AS_TEXT(score.compute(), StateError, "too few");
  CHECK_THROWS_AS(score.update(ones({2, 2}), ones({2, 2})), ShapeError);
}

TEST_CASE("what is left out has no effect, and what is not finite shows") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  // The score of an ignored sample decides nothing: neither logits nor NaN.
  for (const double garbage : {5.0, -inf, nan}) {
    INFO(garbage);
    const Tensor scores = tensor({0.2, 0.8, garbage}), target = classes({0, 1, -1});
    Accuracy accuracy({.ignore_index = -1});
    accuracy.update(scores, target);
    CHECK(accuracy.compute().item() == 1);
    AUROC area({.ignore_index = -1});
    area.update(scores, target);
    CHECK(area.compute().item() == 1);
    AUROC of_classes({.num_classes = 2, .ignore_index = -1});
    of_classes.update(tensor({{0.8, 0.2}, {0.2, 0.8}, {garbage, garbage}}), target);
    CHECK(of_classes.compute().item() == 1);
  }
  MeanMetric mean;
  mean.update(inf, 0);
  mean.update(tensor({nan, 1}), 0);
  mean.update(3.0, 2);
  CHECK(mean.compute().item() == 3);
  for (const double odd : {inf, nan}) {
    R2Score of_targets, of_predictions;
    of_targets.update(tensor({1., 2, 3}), tensor({odd, 2, 2}));
    of_predictions.update(tensor({odd, 2, 3}), tensor({1., 2, 2}));
    CHECK(std::isnan(of_targets.compute().item()));
    CHECK(!std::isfinite(of_predictions.compute().item()));
  }
}
