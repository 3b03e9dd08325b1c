// The CUDA kernels of ctc_loss: one block per sample, one thread per state; all samples advance in
// time together.
#include "../../../tensor/ops/loss/ctc_loss.h"

#include "../../../tensor/memory/transfer.h"
#include "../../../tensor/ops/loss/ctc_loss_alignments_cpu.h"
#include "../../attach.h"
#include "../lines.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::Alignments;

constexpr int kAlignmentThreads = 128;

/** Log-probabilities of one sample of [T, N, C]. */
struct Scores {
  Array x;
  std::int64_t sample, samples, classes;

  __device__ std::int64_t place(std::int64_t t, std::int64_t c) const {
    return (t * samples + sample) * classes + c;
  }
  __device__ double operator()(std::int64_t t, std::int64_t c) const {
    return x.load<double>(place(t, c));
  }
};
using Sample = Alignments<Scores>;

/** Operands of both kernels: the samples, and `kept` rows of sums per sample with one number per
 *  state. */
struct Batch {
  Array x;
  const std::int64_t* labels;
  // Per sample: the lengths of the inputs, then those of the targets, then the targets' starts.
  const std::int64_t* lengths;
  std::int64_t time, samples, classes, blank, states, kept;
  double* sums;

  __device__ Sample sample(std::int64_t n) const {
    return {{x, n, samples, classes},
            lengths[n],
            labels + lengths[2 * samples + n],
            lengths[samples + n],
            blank};
  }
  /** Returns a sample's sums at time t; `rows` rows are stored in rotation. */
  __device__ double* at(double* all, std::int64_t rows, std::int64_t n, std::int64_t t) const {
    return all + (n * rows + t % rows) * states;
  }
};

/** Runs the forward recursion of the calling block's sample; returns the last row of sums. */
__device__ const double* run_forwards(const Batch& batch, const Sample& sample, std::int64_t n) {
  const double* before = nullptr;
  for (std::int64_t t = 0; t < sample.time; ++t) {
    double* const now = batch.at(batch.sums, batch.kept, n, t);
    for (std::int64_t s = threadIdx.x; s < sample.states(); s += kAlignmentThreads)
      now[s] = sample.forwards(t, s, before);
    __syncthreads();
    before = now;
  }
  return before;
}

__global__ void __launch_bounds__(kAlignmentThreads)
    loss_kernel(const Batch __grid_constant__ batch, bool zero_infinity, const Array losses) {
  const auto n = static_cast<std::int64_t>(blockIdx.x);
  const Sample sample = batch.sample(n);
  const double* const last = run_forwards(batch, sample, n);
  if (threadIdx.x != 0) return;
  const double loss = sample.loss(last);
  losses.store<double>(n, std::isinf(loss) && zero_infinity ? 0 : loss);
}

/** Stores the loss's derivative by the scores of one time step. `share` holds the expected count of
 *  each state over the alignments. */
__device__ void store_row(const Sample& sample, std::int64_t t, const double* share, double g,
                          const Array& dx) {
  const Scores& scores = sample.log_probs;
  for (std::int64_t c = threadIdx.x; c < scores.classes; c += kAlignmentThreads)
    dx.store<double>(scores.place(t, c), std::exp(scores(t, c)) * g);
  __syncthreads();
  // The first state of a class subtracts the expected counts of all states of that class, in order.
  for (std::int64_t s = threadIdx.x; s < sample.states(); s += kAlignmentThreads) {
    const std::int64_t c = sample.class_of(s);
    bool is_first = s < 2;
    if (s > 2 && s % 2 == 1) {
      is_first = true;
      for (std::int64_t other = 1; other < s && is_first; other += 2)
        is_first = sample.class_of(other) != c;
    }
    if (!is_first) continue;
    double value = std::exp(scores(t, c));
    for (std::int64_t other = s; other < sample.states(); other += 2)
      if (sample.class_of(other) == c) value -= share[other];
    dx.store<double>(scores.place(t, c), value * g);
  }
}

__global__ void __launch_bounds__(kAlignmentThreads)
    backward_kernel(const Batch __grid_constant__ batch, bool zero_infinity, const Array g,
                    double* ends, double* shares, const Array dx) {
  const auto n = static_cast<std::int64_t>(blockIdx.x);
  const Sample sample = batch.sample(n);
  const Scores& scores = sample.log_probs;
  const double loss = sample.loss(run_forwards(batch, sample, n));
  const bool defined = !std::isinf(loss);
  const double undefined = zero_infinity ? 0 : std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t t = defined ? sample.time : 0; t < batch.time; ++t)
    for (std::int64_t c = threadIdx.x; c < batch.classes; c += kAlignmentThreads)
      dx.store<double>(scores.place(t, c), t < sample.time ? undefined : 0);
  if (!defined) return;
  const double gradient = g.load<double>(n);
  double* const share = shares + n * batch.states;
  const double* behind = nullptr;
  for (std::int64_t t = sample.time - 1; t >= 0; --t) {
    const double* const begun = batch.at(batch.sums, batch.kept, n, t);
    double* const now = batch.at(ends, 2, n, t);
    __syncthreads();  // shares may still be read
    for (std::int64_t s = threadIdx.x; s < sample.states(); s += kAlignmentThreads) {
      now[s] = sample.backwards(t, s, behind);
      share[s] = sample.share(t, s, begun[s], now[s], loss);
    }
    __syncthreads();
    store_row(sample, t, share, gradient, dx);
    behind = now;
  }
}

/** The operands as kernel arguments; the tensors own their memory. */
struct CtcOperands {
  Tensor x, labels, lengths, sums;
  Batch batch;

  CtcOperands(const Tensor& log_probs, const Tensor& targets, const op::CtcAttrs& attrs,
              bool keeps_all)
      : x(row_major(log_probs)), labels(row_major(targets)) {
    const Device device = x.device();
    const std::int64_t time = x.shape()[0], samples = x.shape()[1];
    std::vector<std::int64_t> numbers;
    std::int64_t states = 1;
    for (const auto* list : {&attrs.input_lengths, &attrs.target_lengths, &attrs.target_starts})
      numbers.insert(numbers.end(), list->begin(), list->end());
    for (const std::int64_t length : attrs.target_lengths)
      states = std::max(states, 2 * length + 1);
    const std::int64_t bytes = static_cast<std::int64_t>(numbers.size() * sizeof(std::int64_t));
    lengths = workspace(bytes, device);
    upload(lengths, numbers.data(), static_cast<std::size_t>(bytes));
    const std::int64_t kept = keeps_all ? std::max<std::int64_t>(1, time) : 2;
    sums = workspace(samples * kept * states * static_cast<std::int64_t>(sizeof(double)), device);
    batch = {Array(x),
             labels.data<std::int64_t>(),
             static_cast<const std::int64_t*>(lengths.raw_data()),
             time,
             samples,
             x.shape()[2],
             attrs.blank,
             states,
             kept,
             static_cast<double*>(sums.raw_data())};
  }
};

void each(Inputs in, Outputs out, const op::CtcAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const CtcOperands held(in[0], in[1], attrs, false);
  launch(&loss_kernel, {.blocks = held.batch.samples, .threads = kAlignmentThreads},
         current_stream(out[0].device()), held.batch, attrs.zero_infinity, Array(out[0]));
}

void backward(Inputs in, Outputs out, const op::CtcAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const CtcOperands held(in[1], in[2], attrs, true);
  const Tensor g = row_major(in[0]);
  const std::int64_t row = held.batch.samples * held.batch.states;
  const Tensor room = workspace(3 * row * static_cast<std::int64_t>(sizeof(double)), g.device());
  double* const ends = static_cast<double*>(room.raw_data());
  launch(&backward_kernel, {.blocks = held.batch.samples, .threads = kAlignmentThreads},
         current_stream(g.device()), held.batch, attrs.zero_infinity, Array(g), ends,
         ends + 2 * row, Array(out[0]));
}

}  // namespace

void attach_ctc_loss() {
  attach<op::CtcLossBackward, backward>();
  attach<op::CtcLossEach, each>();
}

}  // namespace mezzo::gpu
