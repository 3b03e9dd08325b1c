// Kernels of ctc_loss.
#include "ctc_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../../cpu/block_io.h"
#include "../../device/parallel.h"
#include "ctc_loss_alignments_cpu.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

/** A sample's log-probabilities (t,c). */
struct Rows {
  const double* data;
  std::int64_t classes;
  double operator()(std::int64_t t, std::int64_t c) const { return data[t * classes + c]; }
};
using Sample = Alignments<Rows>;

/** Returns forwards() of all times and states, time by time. */
std::vector<double> forwards(const Sample& sample) {
  const std::int64_t states = sample.states();
  std::vector<double> a(static_cast<std::size_t>(sample.time * states), kNever);
  for (std::int64_t t = 0; t < sample.time; ++t)
    for (std::int64_t s = 0; s < states; ++s)
      a[static_cast<std::size_t>(t * states + s)] =
          sample.forwards(t, s, t == 0 ? nullptr : a.data() + (t - 1) * states);
  return a;
}

/** Returns backwards() of all times and states, time by time. */
std::vector<double> backwards(const Sample& sample) {
  const std::int64_t states = sample.states();
  std::vector<double> b(static_cast<std::size_t>(sample.time * states), kNever);
  for (std::int64_t t = sample.time - 1; t >= 0; --t)
    for (std::int64_t s = states - 1; s >= 0; --s)
      b[static_cast<std::size_t>(t * states + s)] =
          sample.backwards(t, s, b.data() + (t + 1) * states);
  return b;
}

double loss_of(const Sample& sample, const std::vector<double>& forwards) {
  return sample.loss(sample.time == 0 ? nullptr
                                      : forwards.data() + (sample.time - 1) * sample.states());
}

/** Returns the log-probabilities in f64, sample by sample: (n,t,c). */
std::vector<double> by_sample(const Tensor& x) {
  const Tensor rows = row_major(x.detach().transpose(0, 1));
  std::vector<double> values(static_cast<std::size_t>(rows.numel()));
  if (!values.empty())
    convert(rows.dtype(), rows.raw_data(), DType::f64, values.data(), rows.numel());
  return values;
}

/** Calls visit(number, sample) for all samples. */
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
        visit(n, Sample{{log_probs.data() + n * time * classes, classes},
                        attrs.input_lengths[i],
                        first + attrs.target_starts[i],
                        attrs.target_lengths[i],
                        attrs.blank});
      },
      static_cast<double>(x.numel()) * 50);
}

/** Computes the gradient of one sample's loss by its scores, (t,c), in `dx`: the probabilities
 *  minus the shares of the alignments; zero after the input's end. */
void fill_gradient(const Sample& sample, std::int64_t classes, double g, bool zero_infinity,
                   std::vector<double>& dx) {
  std::fill(dx.begin(), dx.end(), 0.0);
  const std::vector<double> begun = forwards(sample), ended = backwards(sample);
  const double loss = loss_of(sample, begun);
  if (std::isinf(loss)) {
    const double undefined = zero_infinity ? 0 : std::numeric_limits<double>::quiet_NaN();
    std::fill_n(dx.begin(), sample.time * classes, undefined);
    return;
  }
  for (std::int64_t t = 0; t < sample.time; ++t) {
    double* const row = dx.data() + t * classes;
    for (std::int64_t c = 0; c < classes; ++c) row[c] = std::exp(sample.log_probs(t, c));
    for (std::int64_t s = 0; s < sample.states(); ++s) {
      const auto at = static_cast<std::size_t>(t * sample.states() + s);
      row[sample.class_of(s)] -= sample.share(t, s, begun[at], ended[at], loss);
    }
    for (std::int64_t c = 0; c < classes; ++c) row[c] *= g;
  }
}

}  // namespace

void CtcLossEach::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  std::vector<double> losses(static_cast<std::size_t>(out[0].numel()));
  for_each_sample(in[0], in[1], attrs, [&](std::int64_t n, const Sample& sample) {
    const double loss = loss_of(sample, forwards(sample));
    losses[static_cast<std::size_t>(n)] = std::isinf(loss) && attrs.zero_infinity ? 0 : loss;
  });
  if (!losses.empty())
    convert(DType::f64, losses.data(), out[0].dtype(), out[0].raw_data(), out[0].numel());
}

void CtcLossBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor& x = in[1];
  const std::int64_t time = x.shape()[0], samples = x.shape()[1], classes = x.shape()[2];
  const std::vector<double> g = in[0].detach().to_vector<double>();
  char* const data = static_cast<char*>(out[0].raw_data());
  const auto row_bytes = classes * static_cast<std::int64_t>(item_size(out[0].dtype()));
  for_each_sample(x, in[2], attrs, [&](std::int64_t n, const Sample& sample) {
    std::vector<double> dx(static_cast<std::size_t>(time * classes));
    fill_gradient(sample, classes, g[static_cast<std::size_t>(n)], attrs.zero_infinity, dx);
    for (std::int64_t t = 0; t < time; ++t)
      convert(DType::f64, dx.data() + t * classes, out[0].dtype(),
              data + (t * samples + n) * row_bytes, classes);
  });
}

}  // namespace mezzo::op
