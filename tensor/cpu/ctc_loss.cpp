// Kernels of ctc_loss: the sum over alignments runs forwards and backwards through time, in logarithms and in f64 for every dtype.
// Source: Graves, Fernandez, Gomez, Schmidhuber, ICML 2006.
#include "../ops/ctc_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../parallel.h"
#include "block_io.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

constexpr double kNever = -std::numeric_limits<double>::infinity();

/** ln(e^a + e^b); of two impossible things an impossible one. */
double log_add(double a, double b) {
  if (std::isnan(a + b)) return a + b;
  const double high = std::max(a, b), low = std::min(a, b);
  return low == kNever ? high : high + std::log1p(std::exp(low - high));
}

/** One sample: its log-probabilities over time, and its labels with a blank before, between and behind them. */
class Alignments {
 public:
  Alignments(const double* log_probs, std::int64_t classes, std::int64_t time, const std::int64_t* labels,
             std::int64_t length, std::int64_t blank)
      : log_probs_(log_probs), classes_(classes), time_(time), states_(2 * length + 1) {
    for (std::int64_t s = 0; s < states_; ++s) state_class_.push_back(s % 2 == 0 ? blank : labels[s / 2]);
  }

  double log_prob(std::int64_t t, std::int64_t s) const { return log_probs_[t * classes_ + class_of(s)]; }
  std::int64_t class_of(std::int64_t s) const { return state_class_[static_cast<std::size_t>(s)]; }
  std::int64_t states() const { return states_; }
  std::int64_t time() const { return time_; }

  /** forwards[t][s]: logarithm of the sum over all beginnings that are in state s at time t, output t included. */
  std::vector<double> forwards() const {
    std::vector<double> a(static_cast<std::size_t>(time_ * states_), kNever);
    for (std::int64_t t = 0; t < time_; ++t)
      for (std::int64_t s = 0; s < states_; ++s) {
        double before = t == 0 && s < 2 ? 0 : kNever;
        for (std::int64_t step = 0; t > 0 && step <= reach(s) && step <= s; ++step)
          before = log_add(before, a[place(t - 1, s - step)]);
        a[place(t, s)] = before == kNever ? kNever : before + log_prob(t, s);
      }
    return a;
  }

  /** The same over all endings, output t included. */
  std::vector<double> backwards() const {
    std::vector<double> b(static_cast<std::size_t>(time_ * states_), kNever);
    for (std::int64_t t = time_ - 1; t >= 0; --t)
      for (std::int64_t s = states_ - 1; s >= 0; --s) {
        double behind = t == time_ - 1 && s >= states_ - 2 ? 0 : kNever;
        for (std::int64_t step = 0; t < time_ - 1 && s + step < states_ && step <= reach(s + step); ++step)
          behind = log_add(behind, b[place(t + 1, s + step)]);
        b[place(t, s)] = behind == kNever ? kNever : behind + log_prob(t, s);
      }
    return b;
  }

  /** Negative logarithm of the sum over all alignments. */
  double loss(const std::vector<double>& forwards) const {
    if (time_ == 0) return states_ == 1 ? 0 : -kNever;
    const double last = forwards[place(time_ - 1, states_ - 1)];
    return -(states_ == 1 ? last : log_add(last, forwards[place(time_ - 1, states_ - 2)]));
  }

  std::size_t place(std::int64_t t, std::int64_t s) const {
    return static_cast<std::size_t>(t * states_ + s);
  }

 private:
  /** How many states a step that ends in `to` may cross: a blank between different labels can be left out. */
  std::int64_t reach(std::int64_t to) const {
    return to % 2 == 1 && to >= 3 && class_of(to) != class_of(to - 2) ? 2 : 1;
  }

  const double* log_probs_;
  std::int64_t classes_, time_, states_;
  std::vector<std::int64_t> state_class_;
};

/** The log-probabilities in f64, sample by sample: (n,t,c). */
std::vector<double> by_sample(const Tensor& x) {
  const Tensor rows = row_major(x.detach().transpose(0, 1));
  std::vector<double> values(static_cast<std::size_t>(rows.numel()));
  if (!values.empty()) convert(rows.dtype(), rows.raw_data(), DType::f64, values.data(), rows.numel());
  return values;
}

/** Calls visit(sample, its alignments) for all samples. */
template <class F>
void for_each_sample(const Tensor& x, const Tensor& targets, const CtcAttrs& attrs, F&& visit) {
  const std::int64_t time = x.shape()[0], samples = x.shape()[1], classes = x.shape()[2];
  const std::vector<double> log_probs = by_sample(x);
  const Tensor labels = row_major(targets);
  const std::int64_t* const first = labels.data<std::int64_t>();
  parallel_for(
      samples,
      [&](std::int64_t n) {
        const auto i = static_cast<std::size_t>(n);
        visit(n, Alignments(log_probs.data() + n * time * classes, classes, attrs.input_lengths[i],
                            first + attrs.target_starts[i], attrs.target_lengths[i], attrs.blank));
      },
      static_cast<double>(x.numel()) * 50);
}

/** d loss / d scores of one sample, (t,c) at `dx`: what is said less what the alignments expect; zero behind the input's end. */
void fill_gradient(const Alignments& sample, const double* log_probs, std::int64_t classes, double g,
                   bool zero_infinity, std::vector<double>& dx) {
  std::fill(dx.begin(), dx.end(), 0.0);
  const std::vector<double> forwards = sample.forwards(), backwards = sample.backwards();
  const double loss = sample.loss(forwards);
  if (std::isinf(loss)) {
    const double undefined = zero_infinity ? 0 : std::numeric_limits<double>::quiet_NaN();
    std::fill_n(dx.begin(), sample.time() * classes, undefined);
    return;
  }
  for (std::int64_t t = 0; t < sample.time(); ++t) {
    double* const row = dx.data() + t * classes;
    for (std::int64_t c = 0; c < classes; ++c) row[c] = std::exp(log_probs[t * classes + c]);
    for (std::int64_t s = 0; s < sample.states(); ++s) {
      const double lp = sample.log_prob(t, s);
      const std::size_t at = sample.place(t, s);
      const bool impossible = lp == kNever || forwards[at] == kNever || backwards[at] == kNever;
      if (!impossible) row[sample.class_of(s)] -= std::exp(forwards[at] + backwards[at] + loss - lp);
    }
    for (std::int64_t c = 0; c < classes; ++c) row[c] *= g;
  }
}

}  // namespace

void CtcLossEach::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  std::vector<double> losses(static_cast<std::size_t>(out[0].numel()));
  for_each_sample(in[0], in[1], attrs, [&](std::int64_t n, const Alignments& sample) {
    const double loss = sample.loss(sample.forwards());
    losses[static_cast<std::size_t>(n)] = std::isinf(loss) && attrs.zero_infinity ? 0 : loss;
  });
  if (!losses.empty()) convert(DType::f64, losses.data(), out[0].dtype(), out[0].raw_data(), out[0].numel());
}

void CtcLossBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor& x = in[1];
  const std::int64_t time = x.shape()[0], samples = x.shape()[1], classes = x.shape()[2];
  const std::vector<double> log_probs = by_sample(x), g = in[0].detach().to_vector<double>();
  char* const data = static_cast<char*>(out[0].raw_data());
  const auto row_bytes = classes * static_cast<std::int64_t>(item_size(out[0].dtype()));
  for_each_sample(x, in[2], attrs, [&](std::int64_t n, const Alignments& sample) {
    std::vector<double> dx(static_cast<std::size_t>(time * classes));
    fill_gradient(sample, log_probs.data() + n * time * classes, classes, g[static_cast<std::size_t>(n)],
                  attrs.zero_infinity, dx);
    for (std::int64_t t = 0; t < time; ++t)
      convert(DType::f64, dx.data() + t * classes, out[0].dtype(), data + (t * samples + n) * row_bytes,
              classes);
  });
}

}  // namespace mezzo::op
