// Metrics of an evaluation: each adds up batches on their device and is computed once, over the
// batches of all processes. Names, options and definitions are those of torchmetrics.
//   metrics::Accuracy accuracy({.num_classes = 10});
//   for (const Batch& batch : batches) accuracy.update(model(batch.x), batch.y);
//   std::printf("%.4f\n", accuracy.compute().item());
// Of all metrics: update() records no gradient, takes a batch without samples and does not wait for
// the device. compute() waits for it and adds up the batches of all ranks, which all call it; it
// returns f64 (counts: i64) on the CPU, the same bits on all ranks. Counts are exact. reset()
// removes what this rank has added. A metric that was given nothing has no value: unlike
// torchmetrics, which warns and returns 0, compute() is then a StateError.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "../tensor/comm/communicator.h"
#include "../tensor/core/tensor.h"

/** Metrics of an evaluation, as in torchmetrics. */
namespace mezzo::metrics {

/** How the scores of the classes become one. */
enum class Average : std::uint8_t {
  micro,     // one score of the counts of all classes together
  macro,     // the mean over the classes that occur in predictions or targets
  weighted,  // the mean weighted by the number of targets of each class
  none,      // no average: the score of each class
};

/** Options of Accuracy, Precision, Recall and F1Score. */
struct ScoreOptions {
  std::int64_t num_classes = 0;                 // 0: the task "binary", else the task "multiclass"
  std::int64_t num_labels = 0;                  // above 0: the task "multilabel"
  Average average = Average::micro;             // of classes or labels; binary: that of class 1
  std::int64_t top_k = 1;                       // a target among the k largest scores is predicted
  double threshold = 0.5;                       // binary, multilabel: class 1 is predicted above it
  std::optional<std::int64_t> ignore_index{};   // targets of this value are left out
  double zero_division = 0;                     // the score whose denominator is 0
  std::optional<comm::Communicator> comm = {};  // the ranks; none: all of comm::init()
};

/** Options of ConfusionMatrix. */
struct ConfusionMatrixOptions {
  /** What a count is divided by. */
  enum class Normalize : std::uint8_t {
    none,    // nothing: counts
    target,  // the counts of the targets' classes, "true" in torchmetrics: rows have the sum 1
    pred,    // the counts of the predicted classes: columns have the sum 1
    all,     // the count of all samples
  };
  std::int64_t num_classes = 0;                 // 0: the task "binary", else the task "multiclass"
  std::int64_t num_labels = 0;                  // above 0: the task "multilabel"
  double threshold = 0.5;                       // binary, multilabel: class 1 is predicted above it
  std::optional<std::int64_t> ignore_index{};   // targets of this value are left out
  Normalize normalize = Normalize::none;        // what counts are divided by; 0 / 0 is 0
  std::optional<comm::Communicator> comm = {};  // the ranks; none: all of comm::init()
};

/** Counts of predictions and targets by class. Base of the metrics of classes.
 *
 *  Multiclass: `preds` are scores [N,C] or [N,C,d...] of any floating dtype, logits or
 *  probabilities, or classes (i64, i32, u8) of the target's shape; of equal scores the first is the
 *  largest. Binary: `preds` are probabilities, logits (if a batch has a number outside 0..1, apart
 *  from ignored targets, all are taken through a sigmoid) or classes 0 and 1, of the target's
 *  shape. Multilabel: as binary, both [N,L] or [N,L,d...] for L labels. `target`: classes [N] or
 *  [N,d...], i64, i32, u8 or bool; of labels 0 and 1. */
class MZ_API ClassCounts {
 public:
  /** Adds a batch. Errors: ShapeError, DtypeError, DeviceError. A class out of range is found by
   *  compute(), and so are scores that are NaN, which torchmetrics takes for a class. */
  void update(const Tensor& preds, const Tensor& target);
  /** Removes what this rank has added. */
  void reset() { counts_ = {}; }

 protected:
  /** `joint`: counts pairs of target and prediction, as for labels; else each of both and their
   *  matches. */
  ClassCounts(const char* name, const ScoreOptions& options, bool joint);
  /** Returns the counts of all ranks; of labels [L,2,2]. Errors: ValueError if a class was out of
   *  range or a score NaN; StateError if nothing was added; CommError. */
  std::vector<std::int64_t> counts() const;
  /** Returns the number of classes; 2 of a binary task and of each label. */
  std::int64_t classes() const { return options_.num_classes == 0 ? 2 : options_.num_classes; }

  const char* name_;      // for errors
  ScoreOptions options_;  // as constructed

 private:
  Tensor predicted(const Tensor& preds, const Tensor& target) const;
  std::int64_t size() const {
    if (options_.num_labels > 0) return 4 * options_.num_labels;
    return joint_ ? classes() * classes() : 3 * classes();
  }

  bool joint_;
  Tensor counts_;  // i64; then the counts of targets ignored and of classes out of range
};

/** The share of right predictions. Average::micro: of all samples; of a class: the share of its
 *  targets, as Recall; of a label: of its samples. With top_k = 5 the top-5 accuracy. */
class MZ_API Accuracy : public ClassCounts {
 public:
  /** Errors: ValueError for options out of range. */
  explicit Accuracy(const ScoreOptions& options = {}) : ClassCounts("Accuracy", options, false) {}
  /** Returns the accuracy, or that of each class or label with Average::none. Errors:
   *  ValueError, StateError, CommError. */
  Tensor compute() const;
};

/** The share of right ones among the predictions of a class: TP / (TP + FP). */
class MZ_API Precision : public ClassCounts {
 public:
  /** Errors: ValueError for options out of range. */
  explicit Precision(const ScoreOptions& options = {}) : ClassCounts("Precision", options, false) {}
  /** Returns the precision, or that of each class or label with Average::none. Errors: as Accuracy.
   */
  Tensor compute() const;
};

/** The share of the targets of a class that were predicted: TP / (TP + FN). */
class MZ_API Recall : public ClassCounts {
 public:
  /** Errors: ValueError for options out of range. */
  explicit Recall(const ScoreOptions& options = {}) : ClassCounts("Recall", options, false) {}
  /** Returns the recall, or that of each class or label with Average::none. Errors: as Accuracy. */
  Tensor compute() const;
};

/** The harmonic mean of precision and recall: 2 TP / (2 TP + FP + FN). */
class MZ_API F1Score : public ClassCounts {
 public:
  /** Errors: ValueError for options out of range. */
  explicit F1Score(const ScoreOptions& options = {}) : ClassCounts("F1Score", options, false) {}
  /** Returns the score, or that of each class or label with Average::none. Errors: as Accuracy. */
  Tensor compute() const;
};

/** How often each class was predicted for each class of targets. */
class MZ_API ConfusionMatrix : public ClassCounts {
 public:
  /** Errors: ValueError for options out of range. */
  explicit ConfusionMatrix(const ConfusionMatrixOptions& options = {});
  /** Returns [C,C], of labels [L,2,2]: row i, column j counts targets i predicted as j; i64,
   *  normalized f64. Errors: ValueError, StateError, CommError. */
  Tensor compute() const;

 private:
  ConfusionMatrixOptions::Normalize normalize_;
};

/** Options of AUROC. */
struct AurocOptions {
  std::int64_t num_classes = 0;                 // 0: the task "binary", else the task "multiclass"
  std::int64_t num_labels = 0;                  // above 0: the task "multilabel"
  Average average = Average::macro;             // of classes or labels; micro: multilabel only
  std::optional<std::int64_t> ignore_index{};   // targets of this value are left out
  std::optional<comm::Communicator> comm = {};  // the ranks; none: all of comm::init()
};

/** The area under the ROC curve: the probability that a sample of class 1 has a higher score than
 *  one of class 0, where equal scores count half. Multiclass: of each class against all others;
 *  multilabel: of each label.
 *  Keeps the scores of all batches in the memory of their device; the area is exact. Unlike
 *  torchmetrics, which takes each batch with a number outside 0..1 through a sigmoid, binary and
 *  multilabel tasks compare the scores as they are: f32 sigmoids of large logits are equal.
 *  Multiclass scores are taken through a softmax if one of all batches is outside 0..1. */
class MZ_API AUROC {
 public:
  /** Errors: ValueError for options out of range. */
  explicit AUROC(const AurocOptions& options = {});
  /** Adds a batch: scores of any floating dtype [N,C], or [N] if binary, also with further
   *  dimensions; targets i64, i32, u8 or bool; of labels both [N,L]. Errors: ShapeError,
   *  DtypeError. */
  void update(const Tensor& preds, const Tensor& target);
  /** Returns the area, or that of each class or label with Average::none. A class without targets,
   * or without others, has the area 0 and is logged. Errors: ValueError for NaN scores and classes
   *  out of range; StateError if nothing was added; CommError. */
  Tensor compute() const;
  /** Removes what this rank has added. */
  void reset() {
    preds_.clear();
    target_.clear();
  }

 private:
  AurocOptions options_;
  std::vector<Tensor> preds_, target_;  // of each batch: [n,C] and i64 [n,1]; of labels twice [n,L]
};

/** The mean of numbers, such as the loss of each batch; also of numbers that are tensors on a
 *  device. Unlike torchmetrics, which leaves NaN out with a warning, a NaN makes the mean NaN. */
class MZ_API MeanMetric {
 public:
  /** The mean over the ranks of a group; none: all of comm::init(). */
  explicit MeanMetric(std::optional<comm::Communicator> comm = {}) : comm_(std::move(comm)) {}
  /** Adds all elements of `value`, each with the weight: update(loss, batch.size). Sums are f64; a
   *  weight of 0 leaves out infinite and NaN values too.
   *  Errors: ValueError unless weight >= 0; DtypeError for bool. */
  void update(const Tensor& value, double weight = 1);
  /** Adds a number. */
  void update(double value, double weight = 1);
  /** Returns the sum of weight * value over that of the weights. Errors: StateError if the sum of
   *  the weights is 0; CommError. */
  Tensor compute() const;
  /** Removes what this rank has added. */
  void reset();

 private:
  std::optional<comm::Communicator> comm_;
  Tensor device_sum_;  // f64; undefined before the first tensor
  double sum_ = 0, weight_ = 0;
};

/** Options of Perplexity. */
struct PerplexityOptions {
  std::optional<std::int64_t> ignore_index{};   // targets of this value are left out
  std::optional<comm::Communicator> comm = {};  // the ranks; none: all of comm::init()
};

/** The perplexity of a language model: e to the mean cross entropy of its targets. */
class MZ_API Perplexity {
 public:
  /** Constructs a metric to which nothing was added. */
  explicit Perplexity(const PerplexityOptions& options = {}) : options_(options) {}
  /** Adds logits [N,T,V], of any floating dtype, and targets [N,T], i64 or i32. Errors: ShapeError,
   *  DtypeError; IndexError for targets out of range, as cross_entropy(). */
  void update(const Tensor& preds, const Tensor& target);
  /** Returns the perplexity. Errors: StateError if no target was added; CommError. */
  Tensor compute() const;
  /** Removes what this rank has added. */
  void reset() { sums_ = {}; }

 private:
  PerplexityOptions options_;
  Tensor sums_;  // f64 [2]: the sum of losses, the number of targets
};

/** Options of R2Score. */
struct R2Options {
  /** How the scores of several outputs become one. */
  enum class Multioutput : std::uint8_t {
    uniform_average,    // their mean
    raw_values,         // no average: the score of each output
    variance_weighted,  // the mean weighted by the variances of the targets
  };
  std::int64_t adjusted = 0;  // the number of independent regressors; 0: not adjusted
  Multioutput multioutput = Multioutput::uniform_average;  // of several outputs
  std::optional<comm::Communicator> comm = {};             // the ranks; none: all of comm::init()
};

/** The coefficient of determination: 1 - (sum of squared errors) / (sum of squared deviations of
 *  the targets from their mean). Sums are f64, of targets less the first one. Targets that are all
 *  equal: 1 if no error was made, else 0. Unlike torchmetrics, sums below 1e-4 do not count as 0,
 *  so that the unit of the targets does not matter. */
class MZ_API R2Score {
 public:
  /** Errors: ValueError unless adjusted >= 0. */
  explicit R2Score(const R2Options& options = {});
  /** Adds predictions and targets [N], or [N,K] for K outputs, of any floating dtype. Errors:
   *  ShapeError, DtypeError. */
  void update(const Tensor& preds, const Tensor& target);
  /** Returns the score; of each output [K] with raw_values. Errors: StateError for fewer than two
   *  samples; ValueError unless there are more than adjusted + 1; CommError. */
  Tensor compute() const;
  /** Removes what this rank has added. */
  void reset();

 private:
  R2Options options_;
  std::int64_t count_ = 0;
  Tensor first_,
      sums_;  // f64: the first target [K]; [3,K] of t - first, its square, squared errors
};

}  // namespace mezzo::metrics
