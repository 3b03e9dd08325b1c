// The CUDA kernels of cross entropy with class indices; tensor/ops/loss/cross_entropy_cpu.cpp has
// the formulas.
#include "../../../tensor/ops/loss/cross_entropy.h"

#include <algorithm>
#include <limits>

#include "../../../tensor/ops/elementwise/loss_terms.h"
#include "../../../tensor/ops/norm/softmax_line_cpu.h"
#include "../../../tensor/ops/shape/copy.h"
#include "../../attach.h"
#include "../../runtime/index_errors.h"
#include "../last_block.h"
#include "../line_piece.h"
#include "../max_sum.h"
#include "../tickets.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::Greater;
using cpu_kernels::lowest;
using cpu_kernels::Plus;
using cpu_kernels::shifted_exp;

// Lines are distributed over blocks as in softmax. If there are few and long ones, several blocks
// share a line, and a second kernel combines their states. The distribution depends on the shape
// alone, and so do all sums.

/** Iterations, of one element per thread, that cost one block less than another launch. */
constexpr std::int64_t kFewTurns = 16;

std::int64_t turns_of(const Lines& lines) { return blocks_for(lines.length, lines.spread.parts); }

/** Returns true if one block processes all lines. */
bool are_few(const Lines& lines) { return lines.blocks() * turns_of(lines) <= kFewTurns; }

Pieces pieces_of(const Lines& lines) {
  constexpr std::int64_t kLeastTurns = 8;  // smallest number of iterations per block
  const std::int64_t wanted =
      std::min(turns_of(lines) / kLeastTurns, kPlenty / std::max<std::int64_t>(1, lines.blocks()));
  return {lines.length,
          std::max<std::int64_t>(1, wanted < 2 ? lines.length : blocks_for(lines.length, wanted))};
}

/** The operands that forward and backward share. Lines run along the classes and are numbered as
 *  the targets. */
struct Scores {
  Lines lines;
  Array x, target, weight;
  std::int64_t ignore_index;
  double keep, spread;  // 1 - e and e / C, where e is the label smoothing
  IndexErrorWord* bad;

  __device__ bool counts(std::int64_t t) const { return t != ignore_index; }
  __device__ bool in_range(std::int64_t t) const { return t >= 0 && t < lines.length; }
  template <class C> __device__ C weight_of(std::int64_t c) const {
    return weight.data ? weight.load<C>(c) : C(1);
  }
};

/** Returns the sum of the weights of the walk's `length` classes; 0 without label smoothing, which
 *  alone needs it. */
template <class C, class Walk>
__device__ C total_weight(const Scores& s, const Walk& walk, std::int64_t length, C* room) {
  if (s.spread == 0) return C(0);
  if (!s.weight.data) return static_cast<C>(length);
  return walk.fold(room, C(0), Plus{},
                   [&](std::int64_t, std::int64_t c) { return s.weight_of<C>(c); });
}

/** State of some elements of a line. */
template <class C> struct LineState {
  C max = lowest<C>(), sum = 0;  // maximum, sum of the shifted exponentials
  C weight = 0, distance = 0;    // sums of w and of w (max - x), for label smoothing
};

/** Combines the states of two parts of a line, shifted by the larger maximum. */
template <class C> struct CombineStates {
  __device__ LineState<C> operator()(const LineState<C>& a, const LineState<C>& b) const {
    const C max = Greater{}(a.max, b.max);
    const auto shifted = [max](C sum, C of) {
      return sum == C(0) ? sum : sum * shifted_exp(of - max);
    };
    const auto moved = [max](const LineState<C>& s) {
      return s.weight == C(0) ? s.distance : s.distance + s.weight * (max - s.max);
    };
    return {max, shifted(a.sum, a.max) + shifted(b.sum, b.max), a.weight + b.weight,
            moved(a) + moved(b)};
  }
};

/** Results of the forward pass: per line the maximum, the sum of shifted exponentials, the loss and
 *  its weight in the mean; and the reduced loss with its divisor. */
template <class C> struct Results {
  C *stats, *losses, *weights;
  Array loss;
  C* divisor;
  Reduction reduction;
};

/** Returns the state of the walk's `length` elements of its line. */
template <class C, class Walk>
__device__ LineState<C> line_state(const Scores& s, const Walk& walk, std::int64_t length,
                                   C* room) {
  LineState<C> state;
  const auto value = [&](std::int64_t place, std::int64_t) { return s.x.load<C>(place); };
  const C max = state.max = walk.fold(room, lowest<C>(), Greater{}, value);
  state.sum = walk.fold(room, C(0), Plus{}, [&](std::int64_t place, std::int64_t) {
    return shifted_exp(s.x.load<C>(place) - max);
  });
  state.weight = total_weight(s, walk, length, room);
  if (s.spread != 0)
    state.distance = walk.fold(room, C(0), Plus{}, [&](std::int64_t place, std::int64_t c) {
      return op::detail::weighted(s.weight_of<C>(c), max - s.x.load<C>(place));
    });
  return state;
}

/** Stores the results of a line, by one thread. */
template <class C>
__device__ void finish_line(const Scores& s, std::int64_t line, const LineState<C>& state,
                            const Results<C>& out) {
  const std::int64_t t = s.target.load<std::int64_t>(line);
  const bool counts = s.counts(t), is_bad = counts && !s.in_range(t);
  out.stats[2 * line] = counts ? state.max : C(0);
  out.stats[2 * line + 1] = counts ? state.sum : C(0);
  C loss = 0, counted = 0;
  if (is_bad) {
    note_bad(s.bad, line, t);
    loss = std::numeric_limits<C>::quiet_NaN();
    counted = C(1);
  } else if (counts) {
    const C log_sum = math::log(state.sum);
    counted = s.weight_of<C>(t);
    const C own = s.x.load<C>(first_place(s.lines, line) + t * s.lines.inner);
    loss = op::detail::weighted(static_cast<C>(s.keep) * counted, log_sum + (state.max - own));
    if (s.spread != 0) loss += static_cast<C>(s.spread) * (state.weight * log_sum + state.distance);
  }
  if (out.reduction == Reduction::none) {
    out.loss.template store<C>(line, loss);
    if (line == 0) *out.divisor = C(1);
    return;
  }
  out.losses[line] = loss;
  out.weights[line] = counted;
}

/** Computes the losses of the lines of one block. */
template <class C>
__device__ void line_losses(const Scores& s, const LineWalk& walk, const Results<C>& out, C* room) {
  const LineState<C> state = line_state(s, walk, s.lines.length, room);
  if (walk.is_first()) finish_line(s, walk.line, state, out);
}

/** Returns the sums of losses and weights in [begin, end), to all threads of the one block that
 *  calls it. */
template <class C> struct Sums {
  C loss = 0, weight = 0;
};
template <class C>
__device__ Sums<C> summed(std::int64_t begin, std::int64_t end, const C* losses, const C* weights,
                          C* room) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const Spread spread{.slots = 1, .parts = threads};
  Sums<C> sums;
  for (std::int64_t i = begin + thread; i < end; i += threads) {
    sums.loss += losses[i];
    sums.weight += weights[i];
  }
  sums.loss = joined(spread, {0, thread}, room, sums.loss, Plus{});
  sums.weight = joined(spread, {0, thread}, room, sums.weight, Plus{});
  return sums;
}

/** Reduces `count` losses and weights to the loss and its divisor, by one block. */
template <class C>
__device__ void total_loss(std::int64_t count, const C* losses, const C* weights,
                           const Results<C>& out, C* room) {
  const Sums<C> sums = summed(0, count, losses, weights, room);
  if (threadIdx.x != 0) return;
  *out.divisor = out.reduction == Reduction::mean ? sums.weight : C(1);
  out.loss.template store<C>(0, sums.loss / *out.divisor);
}

/** Reduces `count` losses and weights that the blocks of a launch have written. All threads of all
 *  blocks must call it. */
template <class C>
__device__ void total_loss_of_blocks(std::int64_t count, const C* losses, const C* weights,
                                     const Results<C>& out, unsigned* ticket, C* room) {
  MZ_SHARED(int, last, 1);
  if (is_last_block(ticket, gridDim.x, last)) total_loss(count, losses, weights, out, room);
}

/** With a ticket, also the total of the losses. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    line_loss_kernel(const Scores __grid_constant__ s, const Results<C> out, unsigned* ticket) {
  MZ_SHARED(C, room, kSpreadThreads);
  line_losses(s, LineWalk(s.lines), out, room);
  if (ticket) total_loss_of_blocks(s.lines.count, out.losses, out.weights, out, ticket, room);
}

/** Computes the state of each piece of each line. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    piece_state_kernel(const Scores __grid_constant__ s, const Pieces pieces,
                       LineState<C>* states) {
  MZ_SHARED(C, room, kSpreadThreads);
  const PieceWalk walk(s.lines, pieces);
  LineState<C> state = line_state(s, walk, walk.end - walk.begin, room);
  // A piece of -inf only contributes nothing to a line that has other elements.
  if (state.max == lowest<C>()) state.sum = state.distance = 0;
  if (walk.is_first()) states[walk.line * pieces.count + walk.number] = state;
}

/** Computes the lines' losses from the states of their pieces, which are the elements of
 *  `states`. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    join_pieces_kernel(const Scores __grid_constant__ s, const Lines __grid_constant__ states,
                       const LineState<C>* partial, const Results<C> out) {
  MZ_SHARED(LineState<C>, room, kSpreadThreads);
  const LineWalk walk(states);
  const LineState<C> state =
      walk.fold(room, LineState<C>{}, CombineStates<C>{},
                [&](std::int64_t place, std::int64_t) { return partial[place]; });
  if (walk.is_first()) finish_line(s, walk.line, state, out);
}

/** Computes the sums of losses and weights over pieces of the lines, and then the total. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    partial_loss_kernel(std::int64_t lines, std::int64_t piece, const Results<C> out,
                        unsigned* ticket, C* losses, C* weights) {
  MZ_SHARED(C, room, kSpreadThreads);
  const std::int64_t begin = blockIdx.x * piece, rest = lines - begin;
  const Sums<C> sums =
      summed(begin, begin + (rest < piece ? rest : piece), out.losses, out.weights, room);
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = sums.loss;
    weights[blockIdx.x] = sums.weight;
  }
  total_loss_of_blocks<C>(gridDim.x, losses, weights, out, ticket, room);
}

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    total_loss_kernel(std::int64_t count, const C* losses, const C* weights, const Results<C> out) {
  MZ_SHARED(C, room, kSpreadThreads);
  total_loss(count, losses, weights, out, room);
}

/** The whole forward pass by one block, for few lines. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    few_lines_kernel(const Scores __grid_constant__ s, std::int64_t blocks, const Results<C> out) {
  MZ_SHARED(C, room, kSpreadThreads);
  for (std::int64_t block = 0; block < blocks; ++block)
    line_losses(s, LineWalk(s.lines, block), out, room);
  __syncthreads();
  if (out.reduction != Reduction::none)
    total_loss(s.lines.count, out.losses, out.weights, out, room);
}

/** Stores the gradient of the walk's elements of its line. g: that of the loss; `all`: the sum of
 * the weights of the classes; max, sum: those of the line. */
template <class C, class Walk>
__device__ void put_line_gradient(const Scores& s, const Walk& walk, C g, C divisor, C all, C max,
                                  C sum, const Array& gx) {
  const std::int64_t t = s.target.load<std::int64_t>(walk.line);
  const bool counts = s.counts(t) && s.in_range(t);
  const C scale = counts ? g / divisor : C(0);
  const C spread = static_cast<C>(s.spread);
  const C on_target = counts ? static_cast<C>(s.keep) * s.weight_of<C>(t) : C(0);
  const C factor = (on_target + spread * all) * scale / sum;
  walk.for_each([&](std::int64_t place, std::int64_t c) {
    C value = 0;
    if (counts) {
      value = math::exp(s.x.load<C>(place) - max) * factor;
      if (s.spread != 0) value -= spread * scale * s.weight_of<C>(c);
      if (c == t) value -= on_target * scale;
    }
    gx.store<C>(place, value);
  });
}

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    backward_kernel(const Scores __grid_constant__ s, const Pieces pieces, const Array g,
                    bool one_g, const Array stats, const Array divisor, const Array gx) {
  MZ_SHARED(C, room, kSpreadThreads);
  const PieceWalk walk(s.lines, pieces);
  const C all = total_weight(s, LineWalk(s.lines, blockIdx.x / static_cast<unsigned>(pieces.count)),
                             s.lines.length, room);
  if (!walk.has_line) return;
  put_line_gradient(s, walk, g.load<C>(one_g ? 0 : walk.line), divisor.load<C>(0), all,
                    stats.load<C>(2 * walk.line), stats.load<C>(2 * walk.line + 1), gx);
}

/** Returns the number of targets that count, to all threads of the block: the divisor of a mean. */
template <class C> __device__ C counted_targets(const Scores& s, C* room) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  C count = 0;
  for (std::int64_t i = thread; i < s.lines.count; i += threads)
    count += s.counts(s.target.load<std::int64_t>(i)) ? C(1) : C(0);
  return joined(Spread{.slots = 1, .parts = threads}, {0, thread}, room, count, Plus{});
}

/** line_loss_kernel with the total, and backward_kernel, without class weights: each block counts
 *  the targets. Without a ticket the total is not written. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    loss_and_gradient_kernel(const Scores __grid_constant__ s, const Results<C> out,
                             unsigned* ticket, const Array g, const Array gx) {
  MZ_SHARED(C, room, kSpreadThreads);
  const LineWalk walk(s.lines);
  const LineState<C> state = line_state(s, walk, s.lines.length, room);
  if (walk.is_first()) finish_line(s, walk.line, state, out);
  const C divisor = out.reduction == Reduction::mean ? counted_targets(s, room) : C(1);
  if (walk.has_line)
    put_line_gradient(s, walk, g.load<C>(0), divisor, state.weight, state.max, state.sum, gx);
  if (ticket) total_loss_of_blocks(s.lines.count, out.losses, out.weights, out, ticket, room);
}

// ---- lines that are rows of packs, without class weights ----------------------------------------

/** RowPacks<float, 1> of a row whose elements are of T, 16 bits, and are widened when they are
 *  loaded: half a pack of T is one of f32. */
template <class T> struct WidenedPacks {
  static constexpr int kWidth = kPerPack<float>;
  const T* row;
  int lanes, lane, packs, held = -1;
  Pack<std::uint32_t, 2> pack[kHeldPacks];

  __device__ WidenedPacks(const Team& team, int its_packs, const T* its_row)
      : row(its_row), lanes(team.lanes), lane(team.lane), packs(team.has_row ? its_packs : 0) {}

  template <class F> __device__ void for_each(F&& f) {
#pragma unroll 1
    for (int chunk = 0; chunk < packs; chunk += kHeldPacks * lanes) {
      if (chunk != held) load(chunk);
#pragma unroll
      for (int j = 0; j < kHeldPacks; ++j) {
        const int at = chunk + j * lanes + lane;
        if (at >= packs) break;
        float values[1][kWidth];
        widen_part<kWidth, T>(pack[j], values[0]);
        f(j, at * kWidth, values);
      }
    }
  }

 private:
  __device__ void load(int chunk) {
    held = chunk;
#pragma unroll
    for (int j = 0; j < kHeldPacks; ++j) {
      const int at = chunk + j * lanes + lane;
      if (at < packs) pack[j] = reinterpret_cast<const Pack<std::uint32_t, 2>*>(row)[at];
    }
  }
};

/** The packs of a row of T, computed with in C: T, or f32. */
template <class T, class C>
using ScorePacks = std::conditional_t<std::is_same_v<T, C>, RowPacks<T, 1>, WidenedPacks<T>>;

/** line_loss_kernel, or piece_state_kernel for lines of several parts. With C = f32 the results
 *  have the bits of scores that were converted to f32 first. */
template <class T, class C>
__global__ void __launch_bounds__(kTeamThreads)
    packed_loss_kernel(const Scores __grid_constant__ s, const RowParts lines,
                       LineState<float>* states, const Results<float> out) {
  constexpr int kWidth = kPerPack<C>;
  MZ_SHARED(float, room, kTeamWarps);
  const PartTeam team(lines);
  ScorePacks<T, C> x(
      team, team.packs,
      static_cast<const T*>(s.x.data) + team.whole_row * s.lines.length + team.first_pack * kWidth);
  MaxSum<C> own;
  x.for_each([&](int, int, const float(&v)[1][kWidth]) { own.add(v[0]); });
  own = own.of_all(team, room);
  LineState<float> state{own.max, own.sum};
  if (s.spread != 0) {
    state.weight = static_cast<float>(team.packs * kWidth);
    x.for_each([&](int, int, const float(&v)[1][kWidth]) {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) state.distance += own.max - v[0][k];
    });
    state.distance = team.all(state.distance, Plus{}, room);
  }
  if (!team.is_first()) return;
  if (team.is_whole) return finish_line(s, team.whole_row, state, out);
  if (state.max == lowest<float>()) state.distance = 0;  // as in piece_state_kernel
  states[team.row] = state;
}

/** backward_kernel with a gradient of G; C as in packed_loss_kernel. */
template <class T, class C, class G>
__global__ void __launch_bounds__(kTeamThreads)
    packed_gradient_kernel(const Scores __grid_constant__ s, const RowParts lines, const Array g,
                           bool one_g, const float* stats, const float* divisor, G* gx) {
  constexpr int kWidth = kPerPack<C>;
  const PartTeam team(lines);
  if (!team.has_row) return;
  const std::int64_t base = team.whole_row * s.lines.length + team.first_pack * kWidth;
  const std::int64_t t = s.target.load<std::int64_t>(team.whole_row);
  const bool counts = s.counts(t) && s.in_range(t);
  const float scale = counts ? g.load<float>(one_g ? 0 : team.whole_row) / *divisor : 0.0f;
  const float max = stats[2 * team.whole_row], sum = stats[2 * team.whole_row + 1];
  const float keep = static_cast<float>(s.keep), spread = static_cast<float>(s.spread);
  const float factor = (keep + spread * static_cast<float>(s.lines.length)) * scale / sum;
  const int target = counts ? static_cast<int>(t) - team.first_pack * kWidth : -1;
  ScorePacks<T, C> x(team, team.packs, static_cast<const T*>(s.x.data) + base);
  x.for_each([&](int, int at, const float(&v)[1][kWidth]) {
    float value[kWidth];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      value[k] = packed_exp<C>(v[0][k] - max) * factor - spread * scale;
      if (at + k == target) value[k] -= keep * scale;
      if (!counts) value[k] = 0;
    }
    store_values<kWidth>(gx + base + at, value);
  });
}

/** The operands as kernel arguments; the tensors own their memory. `compute` is the dtype of the
 *  scores; those in memory may have 16 bits, of which f32 scores are the exact values. */
struct EntropyOperands {
  Tensor x, target, weight;
  DType compute;
  Scores scores;

  EntropyOperands(const Tensor& scores_tensor, const Tensor& targets, const Tensor& weights,
                  const op::CrossEntropyAttrs& attrs)
      : x(row_major(op::late_source(scores_tensor))),
        target(row_major(targets)),
        weight(row_major(weights)),
        compute(scores_tensor.dtype()),
        scores{.lines = lines_along(x.shape(), op::class_dim(x.shape())),
               .x = Array(x),
               .target = Array(target),
               .weight = Array(weight),
               .ignore_index = attrs.ignore_index,
               .keep = 1 - attrs.label_smoothing,
               .spread = attrs.label_smoothing == 0
                             ? 0
                             : attrs.label_smoothing /
                                   static_cast<double>(x.shape()[op::class_dim(x.shape())]),
               .bad = nullptr} {}
};

/** Returns true if the kernels on packs of `compute` take the lines. */
bool in_packs(const Scores& s, DType compute) {
  const std::size_t bytes = 16 / item_size(compute) * item_size(s.x.dtype);  // of a pack's elements
  return s.lines.inner == 1 && !s.weight.data && are_packs(s.lines.length, compute) &&
         reinterpret_cast<std::uintptr_t>(s.x.data) % bytes == 0;
}

/** Calls run(states) to compute the states of `parts` parts of each line, and launches the
 *  computation of the losses from them. */
template <class C, class Run>
void put_losses_of_parts(const Scores& scores, std::int64_t parts, const Results<C>& results,
                         Device device, const Run& run) {
  const std::int64_t count = scores.lines.count;
  const Lines states = lines_along({count, parts}, 1);
  const Tensor room =
      workspace(count * parts * static_cast<std::int64_t>(sizeof(LineState<C>)), device);
  auto* const partial = static_cast<LineState<C>*>(room.raw_data());
  run(partial);
  launch(&join_pieces_kernel<C>, grid_of(states), current_stream(device), scores, states, partial,
         results);
}

/** put_line_losses for rows of packs. */
void put_packed_losses(const Scores& scores, DType compute, const Results<float>& results,
                       Device device) {
  const RowParts lines = RowParts::of(scores.lines.count, scores.lines.length, compute);
  const auto run = [&](LineState<float>* states) {
    visit_packed(scores.x.dtype, compute,
                 [&]<class T, class C>(std::type_identity<T>, std::type_identity<C>) {
                   launch(&packed_loss_kernel<T, C>, lines.teams.grid(), current_stream(device),
                          scores, lines, states, results);
                 });
  };
  if (lines.parts == 1) return run(nullptr);
  put_losses_of_parts(scores, lines.parts, results, device, run);
}

/** Number of losses up to which one block computes their sum. */
constexpr std::int64_t kOfOneBlock = 8 * kSpreadThreads;

/** Launches the computation of every line's loss. Returns true if the total is computed, too. */
template <class C>
bool put_line_losses(const EntropyOperands& held, const Results<C>& results, Device device) {
  const Scores& scores = held.scores;
  if constexpr (std::is_same_v<C, float>)
    if (in_packs(scores, held.compute)) {
      put_packed_losses(scores, held.compute, results, device);
      return false;
    }
  const Lines& lines = scores.lines;
  const runtime::Stream stream = current_stream(device);
  const Pieces pieces = pieces_of(lines);
  if (pieces.count == 1) {
    const bool with_total = results.reduction != Reduction::none && lines.count <= kOfOneBlock;
    launch(&line_loss_kernel<C>, grid_of(lines), stream, scores, results,
           with_total ? tickets(device) : nullptr);
    return with_total;
  }
  put_losses_of_parts(scores, pieces.count, results, device, [&](LineState<C>* states) {
    launch(&piece_state_kernel<C>, pieces.grid(lines), stream, scores, pieces, states);
  });
  return false;
}

/** Launches the sum or mean of all losses, of which many are divided over blocks. */
template <class C> void put_total(std::int64_t count, const Results<C>& results, Device device) {
  constexpr std::int64_t kPiece = 2 * kSpreadThreads;
  const runtime::Stream stream = current_stream(device);
  if (count <= kOfOneBlock)
    return launch(&total_loss_kernel<C>, {.blocks = 1, .threads = kSpreadThreads}, stream, count,
                  results.losses, results.weights, results);
  const std::int64_t pieces = blocks_for(count, kPiece);
  const Tensor room = workspace(2 * pieces * static_cast<std::int64_t>(sizeof(C)), device);
  C* const losses = static_cast<C*>(room.raw_data());
  launch(&partial_loss_kernel<C>, {.blocks = pieces, .threads = kSpreadThreads}, stream, count,
         kPiece, results, tickets(device), losses, losses + pieces);
}

/** The range of the classes of an op's targets. */
ClassRange classes_of(const EntropyOperands& held, const Tensor& target) {
  return {"cross_entropy", target.shape(), held.scores.lines.length, held.scores.ignore_index};
}

void forward(Inputs in, Outputs out, const op::CrossEntropyAttrs& attrs) {
  EntropyOperands held(in[0], in[1], in[2], attrs);
  const Device device = in[0].device();
  const std::int64_t count = held.scores.lines.count;
  held.scores.bad = watch(device, classes_of(held, in[1]));
  const runtime::Stream stream = current_stream(device);
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    const Tensor room = workspace(2 * count * static_cast<std::int64_t>(sizeof(C)), device);
    C* const losses = static_cast<C*>(room.raw_data());
    const Results<C> results{
        out[1].template data<C>(), losses,         losses + count, Array(out[0]),
        out[2].template data<C>(), attrs.reduction};
    const Lines& lines = held.scores.lines;
    if (are_few(lines))
      return launch(&few_lines_kernel<C>, {.blocks = 1, .threads = lines.spread.threads()}, stream,
                    held.scores, lines.blocks(), results);
    const bool has_total = put_line_losses(held, results, device);
    if (attrs.reduction != Reduction::none && !has_total) put_total(count, results, device);
  });
}

void late_forward(Inputs in, Outputs out, const op::LateCrossEntropy::Attrs& attrs) {
  const Tensor operands[] = {in[0], in[1], {}};
  op::CrossEntropyResults results(operands, attrs, out[0]);
  forward(operands, results.of, attrs);
}

/** Launches loss_and_gradient_kernel and returns true, where it computes what forward() and
 *  backward() do. `loss` is undefined if it is not to be written. */
bool put_loss_and_gradient(EntropyOperands& held, const Tensor& target, const Tensor& g,
                           const op::CrossEntropyBackward::Attrs& attrs, const Tensor& loss,
                           Tensor& gx) {
  const Lines& lines = held.scores.lines;
  const Device device = target.device();
  const bool takes_packs = in_packs(held.scores, held.compute) && !are_few(lines);
  if (takes_packs || pieces_of(lines).count > 1 || lines.count > kOfOneBlock ||
      held.scores.weight.data || attrs.reduction == Reduction::none)
    return false;
  held.scores.bad = watch(device, classes_of(held, target));
  visit_floating_compute(held.compute, [&]<class C>(std::type_identity<C>) {
    const Tensor room =
        workspace((4 * lines.count + 1) * static_cast<std::int64_t>(sizeof(C)), device);
    C* const stats = static_cast<C*>(room.raw_data());
    C* const losses = stats + 2 * lines.count;
    const Results<C> results{
        stats,          losses, losses + lines.count, Array(loss), losses + 2 * lines.count,
        attrs.reduction};
    launch(&loss_and_gradient_kernel<C>, grid_of(lines), current_stream(device), held.scores,
           results, loss.defined() ? tickets(device) : nullptr, Array(g), Array(gx));
  });
  return true;
}

void backward(Inputs in, Outputs out, const op::CrossEntropyBackward::Attrs& attrs) {
  EntropyOperands held(in[1], in[2], in[3], attrs);
  const Tensor g = row_major(in[0]);
  if (!in[4].defined()) {
    if (put_loss_and_gradient(held, in[2], g, attrs, in[6], out[0])) return;
    op::CrossEntropyResults results(in.subspan(1, 3), attrs, in[6]);
    forward(in.subspan(1, 3), results.of, attrs);
    const Tensor operands[] = {in[0], in[1], in[2], in[3], results.of[1], results.of[2], {}};
    return backward(operands, out, attrs);
  }
  const Lines& lines = held.scores.lines;
  const runtime::Stream stream = current_stream(in[1].device());
  const DType compute = held.compute, of_scores = held.scores.x.dtype;
  const bool is_stored = attrs.result == compute || attrs.result == of_scores ||
                         (of_scores == DType::f32 && item_size(attrs.result) == 2);
  if (in_packs(held.scores, compute) && is_stored && !are_few(lines)) {
    const RowParts packed = RowParts::of(lines.count, lines.length, compute);
    const auto run = [&]<class T, class C, class G>(std::type_identity<T>, std::type_identity<C>,
                                                    std::type_identity<G>) {
      if constexpr (std::is_same_v<G, C> || std::is_same_v<G, T> || std::is_same_v<T, float>)
        launch(&packed_gradient_kernel<T, C, G>, packed.teams.grid(), stream, held.scores, packed,
               Array(g), attrs.reduction != Reduction::none, in[4].template data<float>(),
               in[5].template data<float>(), out[0].template data<G>());
    };
    return visit_packed(of_scores, compute, [&](auto scores_type, auto computed) {
      visit_packed(attrs.result, [&](auto result) { run(scores_type, computed, result); });
    });
  }
  const Pieces pieces = pieces_of(lines);
  visit_floating_compute(in[1].dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&backward_kernel<C>, pieces.grid(lines), stream, held.scores, pieces, Array(g),
           attrs.reduction != Reduction::none, Array(in[4]), Array(in[5]), Array(out[0]));
  });
}

}  // namespace

void attach_cross_entropy() {
  attach<op::CrossEntropyBackward, backward>();
  attach<op::CrossEntropyIndices, forward>();
  attach<op::LateCrossEntropy, late_forward>();
}

}  // namespace mezzo::gpu
