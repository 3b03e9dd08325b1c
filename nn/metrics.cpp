#include "metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "../tensor/comm/world.h"
#include "../tensor/core/dispatch.h"
#include "../tensor/ops/ops.h"
#include "../tensor/text/log.h"
#include "../tensor/text/text.h"

namespace mezzo::metrics {

namespace {

using Counts = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

comm::Communicator ranks(const std::optional<comm::Communicator>& given) {
  return given ? *given : comm::init().all();
}

/** Returns the sum of all ranks' elements; `x` is on the CPU and is overwritten. */
template <class T> std::vector<T> sum_over_ranks(const comm::Communicator& group, const Tensor& x) {
  group.all_reduce(x, {.label = "a metric"}).wait();
  return x.to_vector<T>();
}

/** Returns the rows [n,K] of all ranks, one rank after the other; each may have another n. */
Tensor gather_rows(const comm::Communicator& group, const Tensor& rows) {
  if (group.size() == 1) return rows;
  const double mine[] = {static_cast<double>(rows.size(0))};
  const Numbers counts = group.gather(mine);
  const auto most = static_cast<std::int64_t>(*std::max_element(counts.begin(), counts.end()));
  const Tensor padded = zeros({most, rows.size(1)}, rows.dtype());
  padded.narrow(0, 0, rows.size(0)).copy_(rows);
  const Tensor all = empty({group.size() * most, rows.size(1)}, rows.dtype());
  group.all_gather(padded, all, {.label = "the scores of a metric"}).wait();
  std::vector<Tensor> parts;
  for (std::size_t r = 0; r < counts.size(); ++r)
    parts.push_back(
        all.narrow(0, static_cast<std::int64_t>(r) * most, static_cast<std::int64_t>(counts[r])));
  return cat(parts);
}

Tensor scalar(double value) { return full({}, value, f64); }

[[noreturn]] void refuse_empty(const char* name) {
  fail<StateError>(name, {.what = "nothing was added",
                          .hint = "call update() with at least one sample that is not ignored"});
}

void require_floating(const char* name, const char* what, const Tensor& x) {
  if (!is_floating(x.dtype()))
    fail<DtypeError>(
        name, {.what = str(what, " are not floating-point"), .got = str(x), .expected = "scores"});
}

void require_classes(const char* name, const char* what, const Tensor& x) {
  if (is_floating(x.dtype()))
    fail<DtypeError>(
        name,
        {.what = str(what, " are not classes"), .got = str(x), .expected = "i64, i32, u8 or bool"});
}

/** Throws ShapeError unless preds are [N,C,d...] and target is [N,d...], or, without classes, both
 *  have the same shape; [N,L,d...] for L labels. */
void require_shapes(const char* name, const Tensor& preds, const Tensor& target,
                    std::int64_t classes, std::int64_t labels) {
  Shape expected = target.shape();
  if (labels > 0 && (target.dim() < 2 || target.size(1) != labels))
    fail<ShapeError>(name, {.what = "targets do not have num_labels columns",
                            .got = str(target),
                            .expected = str("[N,", labels, "] or [N,", labels, ",d...]")});
  if (classes > 0) {
    std::vector<std::int64_t> sizes(target.shape().begin(), target.shape().end());
    if (sizes.empty())
      fail<ShapeError>(name, {.what = "targets without a dimension of samples",
                              .got = str(target),
                              .expected = "[N] or [N,d...]"});
    sizes.insert(sizes.begin() + 1, classes);
    expected = Shape(std::span<const std::int64_t>(sizes));
  }
  if (preds.shape() == expected) return;
  const bool is_binary = labels == 0 && classes == 0 && preds.dim() == target.dim() + 1;
  const bool is_multilabel = classes > 0 && preds.shape() == target.shape();
  fail<ShapeError>(
      name, {.what = "predictions do not fit the targets",
             .got = str(str(preds), " and ", str(target)),
             .expected = str("predictions ", str(expected)),
             .hint = is_binary       ? "scores of several classes need num_classes"
                     : is_multilabel ? "several labels for each sample need num_labels; classes "
                                       "of one-hot targets are argmax(target, {.dim = 1})"
                                     : ""});
}

/** Throws ValueError unless the options of a metric of classes are in range. */
void require_num_classes(const char* name, std::int64_t num_classes, std::int64_t num_labels) {
  if (num_labels < 0)
    fail<ValueError>(name, {.what = "num_labels is negative", .got = str(num_labels)});
  if (num_labels > 0 && num_classes > 0)
    fail<ValueError>(name, {.what = "num_classes and num_labels are of different tasks",
                            .got = str(num_classes, " and ", num_labels),
                            .expected = "one of them"});
  if (num_classes < 0 || num_classes == 1)
    fail<ValueError>(name, {.what = "num_classes is out of range",
                            .got = str(num_classes),
                            .expected = "0 (binary) or at least 2"});
}

/** Returns probabilities of class 1: x, or sigmoid(x) if an element is outside 0..1. */
Tensor probabilities(const Tensor& x) {
  const Tensor wide = x.dtype() == f64 ? x : x.to(f32);
  return where(all(logical_and(wide >= 0, wide <= 1)), wide, sigmoid(wide));
}

/** Where a score is `above / below`, or `otherwise` if below is 0. */
double ratio(std::int64_t above, std::int64_t below, double otherwise) {
  return below == 0 ? otherwise : static_cast<double>(above) / static_cast<double>(below);
}

/** Counts of one class or label, or of all; `right` and `samples` of labels only. */
struct ClassCount {
  std::int64_t tp = 0, predicted = 0, targets = 0, right = 0, samples = 0;
};

using Score = double (*)(const ClassCount& count, double zero_division);

double precision_of(const ClassCount& c, double otherwise) {
  return ratio(c.tp, c.predicted, otherwise);
}
double recall_of(const ClassCount& c, double otherwise) {
  return ratio(c.tp, c.targets, otherwise);
}
double f1_of(const ClassCount& c, double otherwise) {
  return ratio(2 * c.tp, c.predicted + c.targets, otherwise);
}
double accuracy_of(const ClassCount& c, double otherwise) {
  return ratio(c.right, c.samples, otherwise);
}

/** Returns the counts of each label, from those of pairs of target and prediction [L,2,2]. */
std::vector<ClassCount> by_label(const Counts& counts) {
  std::vector<ClassCount> out(counts.size() / 4);
  for (std::size_t l = 0; l < out.size(); ++l) {
    const std::int64_t tn = counts[4 * l], fp = counts[4 * l + 1], fn = counts[4 * l + 2],
                       tp = counts[4 * l + 3];
    out[l] = {tp, tp + fp, tp + fn, tp + tn, tn + fp + fn + tp};
  }
  return out;
}

std::vector<ClassCount> by_class(const Counts& counts) {
  const std::size_t classes = counts.size() / 3;
  std::vector<ClassCount> out(classes);
  for (std::size_t c = 0; c < classes; ++c)
    out[c] = {counts[c], counts[classes + c], counts[2 * classes + c], 0, 0};
  return out;
}

ClassCount together(const std::vector<ClassCount>& counts) {
  ClassCount all;
  for (const ClassCount& c : counts) {
    all.tp += c.tp;
    all.predicted += c.predicted;
    all.targets += c.targets;
    all.right += c.right;
    all.samples += c.samples;
  }
  return all;
}

/** Returns the mean of the classes' scores; 0 if all weights are 0. */
double weighted_mean(const Numbers& scores, const Numbers& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (sum == 0) return 0;
  return std::inner_product(scores.begin(), scores.end(), weights.begin(), 0.0) / sum;
}

Tensor average(const std::vector<ClassCount>& counts, const ScoreOptions& options, Score score) {
  if (options.average == Average::micro)
    return scalar(score(together(counts), options.zero_division));
  Numbers scores, weights;
  for (const ClassCount& c : counts) {
    scores.push_back(score(c, options.zero_division));
    const bool occurs = options.num_labels > 0 ||
                        (options.top_k == 1 ? c.predicted + c.targets > 0 : c.targets > 0);
    weights.push_back(options.average == Average::weighted ? static_cast<double>(c.targets)
                                                           : static_cast<double>(occurs));
  }
  return options.average == Average::none ? tensor(scores, {.dtype = f64})
                                          : scalar(weighted_mean(scores, weights));
}

/** Returns the score of a metric: of a binary task that of class 1. */
Tensor score_of(const Counts& counts, const ScoreOptions& options, Score score) {
  if (options.num_labels > 0) return average(by_label(counts), options, score);
  const std::vector<ClassCount> classes = by_class(counts);
  return options.num_classes == 0 ? scalar(score(classes[1], options.zero_division))
                                  : average(classes, options, score);
}

/** A score and whether its sample is of the class. */
struct Scored {
  double score;
  bool positive;
};

/** Returns the area under the ROC curve by trapezoids between distinct scores: equal scores count
 *  half. 0 without samples of both kinds. */
double area_under_roc(std::vector<Scored> samples) {
  std::sort(samples.begin(), samples.end(),
            [](const Scored& a, const Scored& b) { return a.score > b.score; });
  double twice = 0, positives = 0, negatives = 0;
  for (std::size_t i = 0; i < samples.size();) {
    const double score = samples[i].score;
    double tp = 0, fp = 0;
    for (; i < samples.size() && samples[i].score == score; ++i)
      (samples[i].positive ? tp : fp) += 1;
    twice += fp * (2 * positives + tp);
    positives += tp;
    negatives += fp;
  }
  return positives == 0 || negatives == 0 ? 0 : twice / (2 * positives * negatives);
}

}  // namespace

ClassCounts::ClassCounts(const char* name, const ScoreOptions& options, bool joint)
    : name_(name), options_(options), joint_(joint || options.num_labels > 0) {
  require_num_classes(name, options.num_classes, options.num_labels);
  if (options.top_k < 1 || (options.top_k > 1 && options.top_k > options.num_classes))
    fail<ValueError>(name, {.what = "top_k is out of range",
                            .got = str(options.top_k),
                            .expected = str("1..", std::max<std::int64_t>(1, options.num_classes)),
                            .hint = options.num_classes == 0 ? "only classes have top_k" : ""});
  if (!(options.threshold >= 0 && options.threshold <= 1))
    fail<ValueError>(name, {.what = "threshold is not a probability",
                            .got = str(options.threshold),
                            .expected = "0..1"});
}

/** The prediction of scores that are NaN: out of range. */
constexpr int kNoClass = -1;

Tensor ClassCounts::predicted(const Tensor& preds, const Tensor& target) const {
  const bool scores = is_floating(preds.dtype());
  if (!scores) {
    require_shapes(name_, preds, target, 0, options_.num_labels);
    if (options_.top_k > 1)
      fail<DtypeError>(name_, {.what = "top_k needs scores", .got = str(preds)});
    return preds.to(i64);
  }
  require_shapes(name_, preds, target, options_.num_classes, options_.num_labels);
  if (options_.num_classes == 0) {
    // Samples that are left out do not decide whether scores are logits.
    const Tensor scored =
        options_.ignore_index ? masked_fill(preds, target == *options_.ignore_index, 0) : preds;
    return where(isnan(scored), kNoClass, (probabilities(scored) > options_.threshold).to(i64));
  }
  const Tensor best =
      where(isnan(amax(preds, {1})), kNoClass, argmax(preds, {.dim = 1}));  // amax() returns NaN
  if (options_.top_k == 1) return best;
  const Tensor chosen = topk(preds, options_.top_k, {.dim = 1}).indices;
  return where((best != kNoClass) & any(chosen == target.unsqueeze(1), {1}), target, best);
}

void ClassCounts::update(const Tensor& preds, const Tensor& target) {
  const NoGrad no_grad;
  require_classes(name_, "targets", target);
  if (!counts_.defined()) counts_ = zeros({size() + 2}, i64, target.device());
  if (preds.device() != counts_.device() || target.device() != counts_.device())
    fail<DeviceError>(name_, {.what = "a batch is on another device",
                              .got = str(str(preds), " and ", str(target)),
                              .expected = str(counts_.device())});
  const Tensor classes_of = target.to(i64);
  const Tensor guess = predicted(preds.detach(), classes_of).reshape({-1}),
               right = classes_of.reshape({-1});
  if (right.numel() == 0) return;
  const std::int64_t c = classes(), none = size(), invalid = size() + 1;
  Tensor valid = (right >= 0) & (right < c) & (guess >= 0) & (guess < c);
  Tensor otherwise = full_like(right, static_cast<double>(invalid));
  if (options_.ignore_index) {
    const Tensor ignored = right == *options_.ignore_index;
    valid = valid & logical_not(ignored);
    otherwise = where(ignored, none, otherwise);
  }
  const auto add = [&](const Tensor& where_to) {
    scatter_add_(counts_, 0, where_to, ones_like(where_to));
  };
  if (joint_) {
    const Tensor pair = right * c + guess;
    if (options_.num_labels == 0) return add(where(valid, pair, otherwise));
    const Shape by_label{target.size(0), target.size(1),
                         target.numel() / target.size(0) / target.size(1)};
    const Tensor label = arange(target.size(1), {.device = target.device()}).reshape({1, -1, 1});
    return add(where(valid, (pair.reshape(by_label) + label * 4).reshape({-1}), otherwise));
  }
  add(cat({where(valid & (right == guess), right, none), where(valid, guess + c, none),
           where(valid, right + 2 * c, otherwise)}));
}

Counts ClassCounts::counts() const {
  const Tensor host = counts_.defined() ? counts_.to(cpu).clone() : zeros({size() + 2}, i64);
  Counts all = sum_over_ranks<std::int64_t>(ranks(options_.comm), host);
  if (all.back() > 0)
    fail<ValueError>(name_, {.what = "classes are out of range",
                             .got = str(all.back(), " predictions or targets"),
                             .expected = str("0..", classes() - 1),
                             .hint = "targets that have no class need ignore_index; scores that "
                                     "are NaN have no class"});
  all.resize(static_cast<std::size_t>(size()));
  if (std::all_of(all.begin(), all.end(), [](std::int64_t n) { return n == 0; }))
    refuse_empty(name_);
  return all;
}

Tensor Accuracy::compute() const {
  const Counts all = counts();
  if (options_.num_labels > 0) return score_of(all, options_, accuracy_of);
  if (options_.num_classes > 0) return score_of(all, options_, recall_of);
  return scalar(recall_of(together(by_class(all)), options_.zero_division));
}
Tensor Precision::compute() const { return score_of(counts(), options_, precision_of); }
Tensor Recall::compute() const { return score_of(counts(), options_, recall_of); }
Tensor F1Score::compute() const {
  ScoreOptions options = options_;
  options.top_k = 1;  // as in torchmetrics, the mean includes classes that are only predicted
  return score_of(counts(), options, f1_of);
}

ConfusionMatrix::ConfusionMatrix(const ConfusionMatrixOptions& options)
    : ClassCounts("ConfusionMatrix",
                  {.num_classes = options.num_classes,
                   .num_labels = options.num_labels,
                   .threshold = options.threshold,
                   .ignore_index = options.ignore_index,
                   .comm = options.comm},
                  true),
      normalize_(options.normalize) {}

Tensor ConfusionMatrix::compute() const {
  using Normalize = ConfusionMatrixOptions::Normalize;
  const Shape shape =
      options_.num_labels > 0 ? Shape{options_.num_labels, 2, 2} : Shape{classes(), classes()};
  const Tensor matrix = tensor(counts(), shape, {.dtype = i64});
  if (normalize_ == Normalize::none) return matrix;
  const Dims dims = normalize_ == Normalize::target ? Dims{-1}
                    : normalize_ == Normalize::pred ? Dims{-2}
                                                    : Dims{-2, -1};
  const Tensor sums = sum(matrix, dims, {.keepdim = true}).to(f64);
  return where(sums == 0, zeros_like(sums), matrix.to(f64) / sums);
}

AUROC::AUROC(const AurocOptions& options) : options_(options) {
  require_num_classes("AUROC", options.num_classes, options.num_labels);
  if (options.average == Average::micro && options.num_labels == 0)
    fail<ValueError>("AUROC", {.what = "average is out of range",
                               .got = "micro",
                               .expected = "macro, weighted or none",
                               .hint = "micro needs num_labels"});
}

void AUROC::update(const Tensor& preds, const Tensor& target) {
  const NoGrad no_grad;
  require_floating("AUROC", "predictions", preds);
  require_classes("AUROC", "targets", target);
  require_shapes("AUROC", preds, target, options_.num_classes, options_.num_labels);
  if (target.numel() == 0) return;
  const auto rows = [](const Tensor& x, std::int64_t columns) {
    const Tensor y = (columns == 1 ? x : x.movedim(1, -1)).reshape({-1, columns});
    return y.is_contiguous() ? y.clone() : y.contiguous();  // the caller may overwrite its tensor
  };
  const std::int64_t labels = options_.average == Average::micro ? 1 : options_.num_labels;
  preds_.push_back(rows(preds.detach(), std::max<std::int64_t>({1, options_.num_classes, labels})));
  target_.push_back(rows(target.to(i64), std::max<std::int64_t>(1, labels)));
}

Tensor AUROC::compute() const {
  const std::int64_t labels = options_.average == Average::micro
                                  ? std::min<std::int64_t>(1, options_.num_labels)
                                  : options_.num_labels;
  const std::int64_t columns = std::max<std::int64_t>({1, options_.num_classes, labels});
  const std::int64_t target_columns = std::max<std::int64_t>(1, labels);
  std::vector<Tensor> scores{zeros({0, columns}, f64)}, classes{zeros({0, target_columns}, i64)};
  for (const Tensor& x : preds_) scores.push_back(x.to(cpu).to(f64));
  for (const Tensor& x : target_) classes.push_back(x.to(cpu));
  const comm::Communicator group = ranks(options_.comm);
  Tensor all_scores = gather_rows(group, cat(scores));
  const Counts target = gather_rows(group, cat(classes)).to_vector<std::int64_t>();
  const std::int64_t last = std::max<std::int64_t>(2, options_.num_classes) - 1;
  const auto is_ignored = [&](std::int64_t c) { return c == options_.ignore_index; };
  // The scores of samples that are left out do not matter.
  if (options_.ignore_index) {
    const Tensor targets =
        tensor(target, {std::ssize(target) / target_columns, target_columns}, {.dtype = i64});
    const Tensor left_out = targets == *options_.ignore_index;
    all_scores = masked_fill(all_scores, left_out, 0);
  }
  if (any(isnan(all_scores)).item<bool>())
    fail<ValueError>("AUROC", {.what = "a score is NaN", .expected = "numbers that have an order"});
  if (options_.num_classes > 0 && !all(logical_and(all_scores >= 0, all_scores <= 1)).item<bool>())
    all_scores = softmax(all_scores, 1);
  const Numbers score = all_scores.to_vector<double>();
  for (const std::int64_t c : target)
    if (!is_ignored(c) && (c < 0 || c > last))
      fail<ValueError>("AUROC", {.what = "a target is out of range",
                                 .got = str(c),
                                 .expected = str("0..", last),
                                 .hint = "targets that have no class need ignore_index"});
  Numbers areas, weights;
  for (std::int64_t k = 0; k < columns; ++k) {
    const std::int64_t positive = options_.num_classes > 0 ? k : 1;
    std::vector<Scored> samples;
    for (std::int64_t i = 0; i < all_scores.size(0); ++i) {
      const std::int64_t c =
          target[static_cast<std::size_t>(i * target_columns + (target_columns > 1 ? k : 0))];
      if (!is_ignored(c))
        samples.push_back({score[static_cast<std::size_t>(i * columns + k)], c == positive});
    }
    if (samples.empty()) refuse_empty("AUROC");
    const auto of_class =
        std::count_if(samples.begin(), samples.end(), [](const Scored& s) { return s.positive; });
    if (of_class == 0 || of_class == std::ssize(samples))
      log_text(Severity::warning,
               str("AUROC: ", labels > 1 ? "label " : "class ", labels > 1 ? k : positive,
                   " has no ", of_class == 0 ? "targets" : "others", "; its area is 0"));
    weights.push_back(options_.average == Average::weighted ? static_cast<double>(of_class) : 1);
    areas.push_back(area_under_roc(std::move(samples)));
  }
  if (options_.num_classes == 0 && labels == 0) return scalar(areas[0]);
  return options_.average == Average::none ? tensor(areas, {.dtype = f64})
                                           : scalar(weighted_mean(areas, weights));
}

namespace {

void require_weight(double weight) {
  if (!(weight >= 0) || std::isinf(weight))
    fail<ValueError>("MeanMetric", {.what = "a weight is out of range",
                                    .got = str(weight),
                                    .expected = "a finite number, at least 0"});
}

}  // namespace

void MeanMetric::update(const Tensor& value, double weight) {
  const NoGrad no_grad;
  require_weight(weight);
  if (value.dtype() == boolean)
    fail<DtypeError>("MeanMetric", {.what = "expected numbers", .got = str(value)});
  if (value.numel() == 0 || weight == 0) return;
  const Tensor sum_of = sum(value.detach().to(f64)) * weight;
  device_sum_ = device_sum_.defined() ? device_sum_.add_(sum_of) : sum_of;
  weight_ += weight * static_cast<double>(value.numel());
}

void MeanMetric::update(double value, double weight) {
  require_weight(weight);
  if (weight == 0) return;
  sum_ += value * weight;
  weight_ += weight;
}

Tensor MeanMetric::compute() const {
  const double mine = sum_ + (device_sum_.defined() ? device_sum_.item<double>() : 0);
  const Numbers all = sum_over_ranks<double>(ranks(comm_), tensor({mine, weight_}, {.dtype = f64}));
  if (all[1] == 0) refuse_empty("MeanMetric");
  return scalar(all[0] / all[1]);
}

void MeanMetric::reset() {
  device_sum_ = {};
  sum_ = weight_ = 0;
}

void Perplexity::update(const Tensor& preds, const Tensor& target) {
  const NoGrad no_grad;
  require_floating("Perplexity", "predictions", preds);
  require_classes("Perplexity", "targets", target);
  if (preds.dim() != 3 || target.dim() != 2 || preds.size(0) != target.size(0) ||
      preds.size(1) != target.size(1))
    fail<ShapeError>("Perplexity", {.what = "logits do not fit the targets",
                                    .got = str(str(preds), " and ", str(target)),
                                    .expected = "[N,T,V] and [N,T]"});
  if (target.numel() == 0) return;
  const Tensor logits = preds.detach().to(preds.dtype() == f64 ? f64 : f32);
  const Tensor classes = target.to(i64).reshape({-1});
  const std::int64_t ignored = options_.ignore_index.value_or(std::numeric_limits<int>::min());
  const Tensor loss = cross_entropy(logits.reshape({-1, preds.size(2)}), classes,
                                    {.ignore_index = ignored, .reduction = Reduction::none});
  const Tensor batch = stack({sum(loss.to(f64)), count_nonzero(classes != ignored).to(f64)});
  sums_ = sums_.defined() ? sums_.add_(batch) : batch;
}

Tensor Perplexity::compute() const {
  const Tensor mine = sums_.defined() ? sums_.to(cpu).clone() : zeros({2}, f64);
  const Numbers all = sum_over_ranks<double>(ranks(options_.comm), mine);
  if (all[1] == 0) refuse_empty("Perplexity");
  return scalar(std::exp(all[0] / all[1]));
}

R2Score::R2Score(const R2Options& options) : options_(options) {
  if (options.adjusted < 0)
    fail<ValueError>(
        "R2Score",
        {.what = "adjusted is negative", .got = str(options.adjusted), .expected = "at least 0"});
}

void R2Score::update(const Tensor& preds, const Tensor& target) {
  const NoGrad no_grad;
  require_floating("R2Score", "predictions", preds);
  require_floating("R2Score", "targets", target);
  if (preds.shape() != target.shape() || target.dim() < 1 || target.dim() > 2 ||
      (first_.defined() && first_.numel() != (target.dim() == 1 ? 1 : target.size(1))))
    fail<ShapeError>("R2Score",
                     {.what = "predictions do not fit the targets",
                      .got = str(str(preds), " and ", str(target)),
                      .expected = first_.defined() ? str("[N,", first_.numel(), "] twice")
                                                   : std::string("twice [N] or [N,K]")});
  if (target.numel() == 0) return;
  const auto rows = [](const Tensor& x) {
    return (x.dim() == 1 ? x.detach().unsqueeze(1) : x.detach()).to(f64);
  };
  const Tensor t = rows(target), error = t - rows(preds);
  if (!first_.defined()) first_ = t[0].clone();
  const Tensor shifted = t - first_;
  const Tensor batch =
      stack({sum(shifted, {0}), sum(shifted * shifted, {0}), sum(error * error, {0})});
  sums_ = sums_.defined() ? sums_.add_(batch) : batch;
  count_ += target.size(0);
}

Tensor R2Score::compute() const {
  const comm::Communicator group = ranks(options_.comm);
  const auto mine = static_cast<double>(first_.defined() ? first_.numel() : 0);
  const auto outputs = static_cast<std::int64_t>(group.max(mine));
  // A row for each rank: count, then of each output the first target and three sums.
  Tensor row = zeros({1, 1 + 4 * outputs}, f64);
  if (first_.defined())
    row = cat({tensor({static_cast<double>(count_)}, {.dtype = f64}), first_.to(cpu),
               sums_.to(cpu).reshape({-1})})
              .unsqueeze(0);
  const Numbers all = gather_rows(group, row).to_vector<double>();
  const std::size_t width = static_cast<std::size_t>(1 + 4 * outputs), k = (width - 1) / 4;
  double count = 0;
  Numbers mean(k), total(k), residual(k);
  for (std::size_t at = 0; at < all.size(); at += width) {
    const double n = all[at];
    if (n == 0) continue;
    for (std::size_t i = 0; i < k; ++i) {
      const double* of = &all[at + 1 + i];
      const double sum = of[k], mean_here = of[0] + sum / n, delta = mean_here - mean[i];
      // Chan, Golub, LeVeque (1979): sums of squares about the mean of two parts.
      total[i] += of[2 * k] - sum * sum / n + delta * delta * count * n / (count + n);
      mean[i] += delta * n / (count + n);
      residual[i] += of[3 * k];
    }
    count += n;
  }
  if (count < 2)
    fail<StateError>("R2Score", {.what = "too few samples", .got = str(count), .expected = "2"});
  if (count <= static_cast<double>(options_.adjusted) + 1 && options_.adjusted > 0)
    fail<ValueError>("R2Score", {.what = "too few samples to adjust the score",
                                 .got = str(count),
                                 .expected = str("more than ", options_.adjusted + 1)});
  const auto adjusted = [&](double score) {
    const auto p = static_cast<double>(options_.adjusted);
    return p == 0 ? score : 1 - (1 - score) * (count - 1) / (count - p - 1);
  };
  Numbers scores(k);
  for (std::size_t i = 0; i < k; ++i)
    scores[i] = !(total[i] <= 0) ? 1 - residual[i] / total[i] : residual[i] == 0 ? 1 : 0;
  using Multioutput = R2Options::Multioutput;
  if (options_.multioutput == Multioutput::raw_values) {
    std::transform(scores.begin(), scores.end(), scores.begin(), adjusted);
    return tensor(scores, {.dtype = f64});
  }
  const bool uniform = options_.multioutput == Multioutput::uniform_average;
  return scalar(adjusted(weighted_mean(scores, uniform ? Numbers(k, 1) : total)));
}

void R2Score::reset() {
  first_ = sums_ = {};
  count_ = 0;
}

}  // namespace mezzo::metrics
