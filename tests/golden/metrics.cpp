// Compares metrics with stored results of torchmetrics, for scores of every floating dtype.
#include <mezzo.h>

#include "../support/catch.h"
#include "folder.h"

using namespace mezzo;

namespace golden {

namespace {

using metrics::Average;
using Normalize = metrics::ConfusionMatrixOptions::Normalize;
using Multioutput = metrics::R2Options::Multioutput;

/** The stored batches of a case. */
struct Batches {
  std::vector<Tensor> preds, target;
};

template <class Metric> Tensor computed(Metric metric, const Batches& batches) {
  for (std::size_t k = 0; k < batches.preds.size(); ++k)
    metric.update(batches.preds[k], batches.target[k]);
  const Tensor y = metric.compute();
  metric.reset();
  CHECK_THROWS_AS(metric.compute(), StateError);
  for (std::size_t k = 0; k < batches.preds.size(); ++k)
    metric.update(batches.preds[k], batches.target[k]);
  CHECK(equal(metric.compute(), y));
  return y;
}

bool has(const std::string& name, const char* part) { return name.find(part) != name.npos; }

/** The options that the words of a case's name mean, as in metrics.py. */
template <class Options> Options class_options(const std::string& name) {
  Options o;
  if (has(name, "labels"))
    o.num_labels = 3;
  else if (!has(name, "binary"))
    o.num_classes = 4;
  if (has(name, "ignored") || has(name, "images")) o.ignore_index = -1;
  if (has(name, "ignored class")) o.ignore_index = 2;
  return o;
}

template <class Options> void set_average(Options& o, const std::string& name) {
  if (has(name, " micro")) o.average = Average::micro;
  if (has(name, " macro")) o.average = Average::macro;
  if (has(name, " weighted")) o.average = Average::weighted;
  if (has(name, " none")) o.average = Average::none;
}

metrics::ScoreOptions score_options(const std::string& name) {
  auto o = class_options<metrics::ScoreOptions>(name);
  set_average(o, name);
  if (has(name, "top 2")) o.top_k = 2;
  if (has(name, "probabilities")) o.threshold = 0.6;
  return o;
}

Tensor result(const std::string& name, const Batches& batches) {
  const std::string metric = name.substr(0, name.find(' '));
  if (metric == "Accuracy") return computed(metrics::Accuracy(score_options(name)), batches);
  if (metric == "Precision") return computed(metrics::Precision(score_options(name)), batches);
  if (metric == "Recall") return computed(metrics::Recall(score_options(name)), batches);
  if (metric == "F1Score") return computed(metrics::F1Score(score_options(name)), batches);
  if (metric == "ConfusionMatrix") {
    auto o = class_options<metrics::ConfusionMatrixOptions>(name);
    if (has(name, " true")) o.normalize = Normalize::target;
    if (has(name, " pred")) o.normalize = Normalize::pred;
    if (has(name, " all")) o.normalize = Normalize::all;
    return computed(metrics::ConfusionMatrix(o), batches);
  }
  if (metric == "AUROC") {
    auto o = class_options<metrics::AurocOptions>(name);
    set_average(o, name);
    return computed(metrics::AUROC(o), batches);
  }
  if (metric == "Perplexity") {
    metrics::PerplexityOptions o;
    if (has(name, "ignored")) o.ignore_index = -1;
    return computed(metrics::Perplexity(o), batches);
  }
  metrics::R2Options o;
  if (has(name, "adjusted")) o.adjusted = 3;
  if (has(name, "raw_values")) o.multioutput = Multioutput::raw_values;
  if (has(name, "variance_weighted")) o.multioutput = Multioutput::variance_weighted;
  return computed(metrics::R2Score(o), batches);
}

}  // namespace

TEST_CASE("metrics are those of torchmetrics") {
  const LogSink before = set_log_sink({});
  std::map<std::string, Tensor> stored;
  for (auto& [name, x] : load_tensors(str(folder(), "/metrics.safetensors")).tensors)
    stored[name] = x;
  int cases = 0;
  for (const auto& [key, wanted] : stored) {
    if (!key.ends_with(":y")) continue;
    const std::string name = key.substr(0, key.size() - 2);
    ++cases;
    for (const DType dtype : {f16, bf16, f32, f64}) {
      if (dtype == bf16 && has(name, "logits")) continue;  // bf16 does not hold them
      INFO(name << ", " << mezzo::name(dtype));
      Batches batches;
      for (int k = 0; stored.contains(str(name, ":preds", k)); ++k) {
        const Tensor target = stored.at(str(name, ":target", k));
        batches.preds.push_back(stored.at(str(name, ":preds", k)).to(dtype));
        batches.target.push_back(is_floating(target.dtype()) ? target.to(dtype) : target);
      }
      const Tensor got = result(name, batches);
      REQUIRE(got.shape() == wanted.shape());
      CHECK(got.dtype() == (wanted.dtype() == i64 ? i64 : f64));
      CHECK(allclose(got.to(f64), wanted.to(f64), {.rtol = 1e-6, .atol = 1e-6}));
    }
  }
  CHECK(cases == 214);
  set_log_sink(before);
}

}  // namespace golden
