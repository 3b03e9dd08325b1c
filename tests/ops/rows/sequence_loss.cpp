// Rows of ctc_loss, against the sum over all paths, and of local_response_norm.
#include <algorithm>

#include "losses.h"

using namespace rows;
using namespace mezzo;

namespace {

using Labels = std::vector<std::int64_t>;

/** Returns the labels of a path: repetitions are merged, then blanks are removed. */
Labels said(const Labels& path, std::int64_t blank) {
  Labels labels;
  for (std::size_t t = 0; t < path.size(); ++t)
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  return labels;
}

/** Returns -ln of the sum over all paths of `time` steps with these labels; x holds scores
 *  [t,n,c]. */
double loss_of_all_paths(const Array& x, std::int64_t n, std::int64_t time, const Labels& labels,
                         std::int64_t blank) {
  const std::int64_t samples = x.shape[1], classes = x.shape[2];
  const auto log_prob = [&](std::int64_t t, std::int64_t c) {
    const double* const row = x.values.data() + (t * samples + n) * classes;
    double total = 0;
    for (std::int64_t k = 0; k < classes; ++k) total += std::exp(row[k]);
    return row[c] - std::log(total);
  };
  double probability = 0;
  Labels path(static_cast<std::size_t>(time), 0);
  for (bool more = true; more;) {
    if (said(path, blank) == labels) {
      double log_likelihood = 0;
      for (std::int64_t t = 0; t < time; ++t)
        log_likelihood += log_prob(t, path[static_cast<std::size_t>(t)]);
      probability += std::exp(log_likelihood);
    }
    more = false;
    for (std::size_t t = 0; t < path.size() && !more; ++t) {
      more = ++path[t] < classes;
      if (!more) path[t] = 0;
    }
  }
  return -std::log(probability);
}

struct Sample {
  std::int64_t time;
  Labels labels;
};

using CtcRow = Row<Labels, Labels, CtcLossOptions>;

void test_ctc(CtcRow& row, const std::string& variant, const std::vector<Sample>& samples,
              const CtcLossOptions& options, bool in_a_row, const Shape& shape) {
  std::vector<double> targets;
  std::vector<std::int64_t> times, lengths;
  std::size_t longest = 1;
  for (const Sample& s : samples) longest = std::max(longest, s.labels.size());
  for (const Sample& s : samples) {
    for (const std::int64_t label : s.labels) targets.push_back(static_cast<double>(label));
    // Padding is not read, so it holds a class that does not exist.
    if (!in_a_row) targets.resize(targets.size() + longest - s.labels.size(), 99);
    times.push_back(s.time);
    lengths.push_back(static_cast<std::int64_t>(s.labels.size()));
  }
  const auto count = static_cast<std::int64_t>(samples.size());
  const Shape target_shape = in_a_row ? Shape{static_cast<std::int64_t>(targets.size())}
                                      : Shape{count, static_cast<std::int64_t>(longest)};

  row.test({.variant = variant,
            .call =
                [=](const std::vector<Tensor>& x) {
                  const Tensor labels =
                      tensor(targets, target_shape, {.dtype = i64, .device = x[0].device()});
                  return std::vector<Tensor>{
                      ctc_loss(log_softmax(x[0], -1), labels, times, lengths, options)};
                },
            .oracle =
                [=](const std::vector<Array>& x) {
                  Array scores = x[0];
                  const bool batched = scores.shape.rank() == 3;
                  if (!batched) scores.shape.insert(1, 1);
                  Array losses{{count}, {}};
                  double total = 0;
                  for (std::size_t n = 0; n < samples.size(); ++n) {
                    double loss =
                        loss_of_all_paths(scores, static_cast<std::int64_t>(n), samples[n].time,
                                          samples[n].labels, options.blank);
                    if (std::isinf(loss) && options.zero_infinity) loss = 0;
                    losses.values.push_back(loss);
                    total += options.reduction == Reduction::mean
                                 ? loss / static_cast<double>(
                                              std::max<std::size_t>(1, samples[n].labels.size()) *
                                              samples.size())
                                 : loss;
                  }
                  if (!batched) losses.shape = Shape{};
                  if (options.reduction != Reduction::none) losses = {Shape{}, {total}};
                  return std::vector<Array>{losses};
                },
            .shapes = {{shape}},
            .factor = 20,
            .second_order = false,
            .single_op = false});
}

/** The oracle of local_response_norm over `size` channels around each element. */
Oracle local_response(std::int64_t size, double alpha, double beta, double k) {
  return [=](const std::vector<Array>& x) {
    const std::int64_t channels = x[0].shape[1];
    std::int64_t inner = 1;
    for (int d = 2; d < x[0].shape.rank(); ++d) inner *= x[0].shape[d];
    Array y = x[0];
    for (std::int64_t i = 0; i < x[0].numel(); ++i) {
      const std::int64_t c = i / inner % channels;
      double sum = 0;
      for (std::int64_t o = -(size / 2); o <= (size - 1) / 2; ++o)
        if (c + o >= 0 && c + o < channels) sum += x[0][i + o * inner] * x[0][i + o * inner];
      y.values[static_cast<std::size_t>(i)] /=
          std::pow(k + alpha * sum / static_cast<double>(size), beta);
    }
    return std::vector<Array>{y};
  };
}

const Rows alignment_rows("space", [] {
  CtcRow plain =
      row("ctc_loss", CALL(ctc_loss(x[0], x[1], times, lengths, o), const Labels& times,
                           const Labels& lengths, const CtcLossOptions& o))
          .fuzz([](FuzzDraw& d, const auto& call) {
            const std::int64_t steps = 1 + d.below(5), samples = 1 + d.below(3),
                               classes = 2 + d.below(3), labels = d.below(4);
            const Tensor x = d.floats(d.chance(0.05) ? d.shape() : Shape{steps, samples, classes});
            const Tensor targets = d.index({samples, labels}, classes - 1) + 1;
            Labels lengths, label_counts;
            for (std::int64_t i = 0; i < samples; ++i) {
              lengths.push_back(d.number(1, steps));
              label_counts.push_back(d.number(0, labels));
            }
            const CtcLossOptions options{d.chance(0.9) ? 0 : d.number(0, 2), draw_reduction(d),
                                         d.flag()};
            return Trial{call({x, targets}, lengths, label_counts, options),
                         x.dim() == 3 ? terms(Sizes{x.shape()[1]}, options.reduction) : refused()};
          });
  const std::vector<Sample> batch{{4, {1, 2}}, {3, {2}}, {4, {}}, {4, {1, 1}}};
  test_ctc(plain, "padded targets", batch, {}, false, {4, 4, 3});
  test_ctc(plain, "targets in a row, none", batch, {.reduction = Reduction::none}, true, {4, 4, 3});
  test_ctc(plain, "another blank, sum", {{4, {0, 1}}, {2, {1}}},
           {.blank = 2, .reduction = Reduction::sum}, false, {4, 2, 3});
  test_ctc(plain, "one sample", {{4, {2, 1, 2}}}, {.reduction = Reduction::none}, true, {4, 3});
  test_ctc(plain, "impossible ones cost nothing", {{2, {1, 1}}, {3, {1}}, {1, {1, 2}}},
           {.zero_infinity = true}, false, {3, 3, 3});
  // PyTorch sums over alignments in the dtype of the scores.
  const std::string torch = "F.ctc_loss(torch.log_softmax(x0, -1), x1, x2, x3, ";
  auto of_scores =
      row("ctc_loss",
          CALL(ctc_loss(log_softmax(x[0], -1), x[1], x[2], x[3], o), const CtcLossOptions& o))
          .golden({"in a row, another blank", torch + "blank=3)",
                   "real(5, 2, 4), given([1, 0, 2]), given([5, 4]), given([2, 1])", 10},
                  {.blank = 3})
          .golden({"impossible, free", torch + "zero_infinity=True)",
                   "real(2, 2, 3), given([[1, 1], [1, 2]]), given([2, 2]), given([2, 2])", 10},
                  {.zero_infinity = true})
          .smoke({.name = "ctc_loss % backward",
                  .dtypes = {f32},
                  .operands =
                      [](const Maker& make, DType dtype) {
                        const std::int64_t steps = make.pick(8, 60, 500),
                                           count = make.pick(2, 4, 32), length = steps / 4;
                        return Tensors{make.normal({steps, count, 20}, dtype),
                                       make.indices(19, {count, length}) + 1,
                                       make.fill({count}, static_cast<double>(steps), i64),
                                       make.fill({count}, static_cast<double>(length), i64)};
                      },
                  .passes = 3,
                  .factor = 1e-3 / smoke::tolerance(f32),
                  .backward = true});
  golden_reductions(of_scores, {"", torch,
                                "real(5, 3, 4), given([[1, 2, 2], [3, 1, 1], [2, 1, 1]]), "
                                "given([5, 4, 5]), given([3, 1, 2])",
                                10});
});

const Rows response_rows("space", [] {
  row("local_response_norm", CALL(local_response_norm(x[0], size, o), std::int64_t size,
                                  const LocalResponseNormOptions& o))
      .test({.oracle = local_response(3, 0.5, 0.6, 2),
             .shapes = {{{2, 4, 3}}, {{1, 2, 2, 2}}, {{0, 2, 2}}, {{1, 1, 2, 1, 2}}}},
            3, {.alpha = 0.5, .beta = 0.6, .k = 2})
      .test({.variant = "even size, defaults",
             .oracle = local_response(4, 1e-4, 0.75, 1),
             .shapes = {{{2, 5, 2}}}},
            4, {})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.floats(2, 5);
        const std::int64_t size = d.number(0, 5);
        const LocalResponseNormOptions options{d.real(0, 1), d.real(0, 1), d.real(0, 2)};
        return Trial{call({x}, size, options),
                     x.dim() >= 3 && size >= 1 ? gives(sizes(x)) : refused()};
      })
      .golden({"", "F.local_response_norm(x0, 3, 0.5, 0.6, 2.0)", "real(2, 5, 3)"}, 3,
              {.alpha = 0.5, .beta = 0.6, .k = 2})
      .golden({"even", "F.local_response_norm(x0, 4)", "real(1, 5, 2, 2)"}, 4, {});
});

}  // namespace
