// The CUDA kernels of ctc_loss. The sums over alignments advance in time, with one block per sample
// and direction and one thread per state; then the gradient has one block per sample and time.
#include "../../../tensor/ops/loss/ctc_loss.h"

#include "../../../tensor/memory/transfer.h"
#include "../../../tensor/ops/loss/ctc_loss_alignments_cpu.h"
#include "../../attach.h"
#include "../lines.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::Alignments;

constexpr int kAlignmentThreads = 256, kRowThreads = 128;
// Sums of so many states are exchanged in shared memory, those of more in the device's.
constexpr std::int64_t kSharedStates = 1024;

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

/** Operands of all kernels: the samples, and `kept` rows of sums per sample with one number per
 *  state. */
struct Batch {
  Array x;
  const std::int64_t* labels;
  // Per sample: the lengths of the inputs, then those of the targets, then the targets' starts.
  const std::int64_t* lengths;
  std::int64_t time, samples, classes, blank, states, kept;
  double* sums;  // over prefixes

  __device__ Sample sample(std::int64_t n) const {
    return {{x, n, samples, classes},
            lengths[n],
            labels + lengths[2 * samples + n],
            lengths[samples + n],
            blank};
  }
  /** Returns a sample's sums at time t; `kept` rows are stored in rotation. */
  __device__ double* at(double* all, std::int64_t n, std::int64_t t) const {
    return all + (n * kept + t % kept) * states;
  }
};

/** What the gradient needs besides: sums over suffixes, and per sample the loss and, for each
 * state, the next one of its class. */
struct GradientBatch {
  Batch of;
  double *ends, *losses;
  std::int32_t* next;
};

/** Computes the sums over prefixes of the calling block's sample, or over suffixes, and stores them
 *  in `all` where all are kept. Returns the last row of sums. `room` has two rows of
 *  kSharedStates. */
__device__ const double* run(const Batch& batch, const Sample& sample, std::int64_t n,
                             bool is_forwards, double* all, double* room) {
  const bool is_shared = batch.states <= kSharedStates, keeps_all = batch.kept == batch.time;
  const double* former = nullptr;
  for (std::int64_t step = 0; step < sample.time; ++step) {
    const std::int64_t t = is_forwards ? step : sample.time - 1 - step;
    double* const kept = batch.at(all, n, t);
    double* const now = is_shared ? room + step % 2 * kSharedStates : kept;
    for (std::int64_t s = threadIdx.x; s < sample.states(); s += kAlignmentThreads) {
      const double sum =
          is_forwards ? sample.forwards(t, s, former) : sample.backwards(t, s, former);
      now[s] = sum;
      if (is_shared && keeps_all) kept[s] = sum;
    }
    __syncthreads();
    former = now;
  }
  return former;
}

__global__ void __launch_bounds__(kAlignmentThreads)
    loss_kernel(const Batch __grid_constant__ batch, bool zero_infinity, const Array losses) {
  MZ_SHARED(double, room, 2 * kSharedStates);
  const auto n = static_cast<std::int64_t>(blockIdx.x);
  const Sample sample = batch.sample(n);
  const double* const last = run(batch, sample, n, true, batch.sums, room);
  if (threadIdx.x != 0) return;
  const double loss = sample.loss(last);
  losses.store<double>(n, std::isinf(loss) && zero_infinity ? 0 : loss);
}

constexpr std::int32_t kIsFirst = 1 << 30;         // set for the first state of a class
constexpr std::int32_t kNextState = kIsFirst - 1;  // the other bits: all are set where none is next

/** Returns the next state of the class of state s, and whether s is the first. */
__device__ std::int32_t next_of_class(const Sample& sample, std::int64_t s) {
  const std::int64_t states = sample.states(), c = sample.class_of(s);
  bool is_first = s < 2;
  std::int64_t next = s + 2;
  if (s % 2 == 1) {
    std::int64_t former = s - 2;
    while (former >= 0 && sample.class_of(former) != c) former -= 2;
    is_first = former < 0;
    while (next < states && sample.class_of(next) != c) next += 2;
  }
  const std::int32_t word = next < states ? static_cast<std::int32_t>(next) : kNextState;
  return is_first ? word | kIsFirst : word;
}

/** Computes the sums over prefixes and, in the other half of the blocks, those over suffixes. */
__global__ void __launch_bounds__(kAlignmentThreads)
    sums_kernel(const GradientBatch __grid_constant__ batch) {
  MZ_SHARED(double, room, 2 * kSharedStates);
  const Batch& of = batch.of;
  const std::int64_t n = blockIdx.x % of.samples;
  const bool is_forwards = blockIdx.x < of.samples;
  const Sample sample = of.sample(n);
  const double* const last =
      run(of, sample, n, is_forwards, is_forwards ? of.sums : batch.ends, room);
  if (!is_forwards)
    for (std::int64_t s = threadIdx.x; s < sample.states(); s += kAlignmentThreads)
      batch.next[n * of.states + s] = next_of_class(sample, s);
  else if (threadIdx.x == 0)
    batch.losses[n] = sample.loss(last);
}

/** Stores the loss's derivative by the scores of one time step of a sample. */
__global__ void __launch_bounds__(kRowThreads)
    gradient_kernel(const GradientBatch __grid_constant__ batch, bool zero_infinity, const Array g,
                    const Array dx) {
  MZ_SHARED(double, room, kSharedStates);
  const Batch& of = batch.of;
  const std::int64_t t = blockIdx.x / of.samples, n = blockIdx.x % of.samples;
  const Sample sample = of.sample(n);
  const Scores& scores = sample.log_probs;
  const double loss = batch.losses[n];
  if (t >= sample.time || std::isinf(loss)) {
    const double value =
        t >= sample.time || zero_infinity ? 0 : std::numeric_limits<double>::quiet_NaN();
    for (std::int64_t c = threadIdx.x; c < scores.classes; c += kRowThreads)
      dx.store<double>(scores.place(t, c), value);
    return;
  }
  // the expected count of each state over the alignments
  double* const begun = of.at(of.sums, n, t);
  const double* const ended = of.at(batch.ends, n, t);
  double* const share = of.states <= kSharedStates ? room : begun;
  for (std::int64_t s = threadIdx.x; s < sample.states(); s += kRowThreads)
    share[s] = sample.share(t, s, begun[s], ended[s], loss);
  const double gradient = g.load<double>(n);
  for (std::int64_t c = threadIdx.x; c < scores.classes; c += kRowThreads)
    dx.store<double>(scores.place(t, c), std::exp(scores(t, c)) * gradient);
  __syncthreads();
  // The first state of a class subtracts the expected counts of all states of that class, in order.
  const std::int32_t* const next = batch.next + n * of.states;
  for (std::int64_t s = threadIdx.x; s < sample.states(); s += kRowThreads) {
    std::int32_t word = next[s];
    if ((word & kIsFirst) == 0) continue;
    const std::int64_t c = sample.class_of(s);
    double value = std::exp(scores(t, c)) - share[s];
    while ((word & kNextState) != kNextState) {
      const std::int32_t other = word & kNextState;
      value -= share[other];
      word = next[other];
    }
    dx.store<double>(scores.place(t, c), value * gradient);
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
  const Batch& of = held.batch;
  const Tensor g = row_major(in[0]);
  const auto room = [&](std::int64_t count, std::size_t size) {
    return workspace(count * static_cast<std::int64_t>(size), g.device());
  };
  const Tensor ends = room(of.samples * of.kept * of.states, sizeof(double)),
               losses = room(of.samples, sizeof(double)),
               next = room(of.samples * of.states, sizeof(std::int32_t));
  const GradientBatch batch{of, static_cast<double*>(ends.raw_data()),
                            static_cast<double*>(losses.raw_data()),
                            static_cast<std::int32_t*>(next.raw_data())};
  const runtime::Stream stream = current_stream(g.device());
  launch(&sums_kernel, {.blocks = 2 * of.samples, .threads = kAlignmentThreads}, stream, batch);
  launch(&gradient_kernel, {.blocks = of.time * of.samples, .threads = kRowThreads}, stream, batch,
         attrs.zero_infinity, Array(g), Array(out[0]));
}

}  // namespace

void attach_ctc_loss() {
  attach<op::CtcLossBackward, backward>();
  attach<op::CtcLossEach, each>();
}

}  // namespace mezzo::gpu
