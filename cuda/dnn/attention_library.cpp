#include "attention_library.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "../../tensor/core/numerics.h"
#include "../../tensor/core/row_major.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"
#include "../blas/key.h"
#include "../kernels/attention/attention_masks.h"
#include "../kernels/result_difference.h"
#include "../own_kernels.h"
#include "../runtime/device.h"

namespace mezzo::gpu {

namespace {

using dnn::Attention;

/** Returns true if the library may be used. A single key is excluded because the library does not
 *  support its gradient, and dropout of everything because its factor is not finite. */
bool in_scope(const Tensor& q, const Tensor& k, const Tensor& v, const op::AttentionAttrs& attrs) {
  const auto fits = [](std::int64_t columns) {
    return columns > 0 && columns <= kWidestHeads && columns % kPiece == 0;
  };
  return cudnn_sdp_enabled() && !OwnKernels::active() && is_low(q.dtype()) && attrs.dropout_p < 1 &&
         k.size(-2) >= 2 && fits(q.size(-1)) && fits(v.size(-1));
}

void advance(const void*& address, std::int64_t bytes) {
  if (address) address = static_cast<const char*>(address) + bytes;
}

/** Returns entries [first, first + count) of a problem. */
Attention part_of(const Attention& a, std::int64_t first, std::int64_t count) {
  const std::int64_t item = static_cast<std::int64_t>(item_size(a.dtype));
  Attention part = a;
  part.entries = count;
  for (Attention::Rows* x :
       {&part.q, &part.k, &part.v, &part.g, &part.y, &part.dq, &part.dk, &part.dv})
    advance(x->data, first * x->entry * item);
  advance(part.log_sums, first * a.heads * a.queries * std::int64_t{sizeof(float)});
  if (part.bias.entries > 1) part.bias.entries = count;
  return part;
}

/** Returns the bytes of the largest array of scores that an entry needs for itself. */
std::int64_t score_bytes_of_entry(const Attention& a) {
  const std::int64_t rows = a.heads * a.queries;
  std::int64_t most = 0;
  if (a.wanted == Attention::Wanted::gradients && a.repeats) most = 2 * rows * a.keys;
  if (a.drops) most = 2 * rows * a.pitch();
  return a.bias.entries > 1 ? std::max(most, a.bias_bytes() / a.entries) : most;
}

/** Returns the number of entries per call, in equal calls, so that no array of scores exceeds
 *  most_score_bytes(). Returns 0 if that of one entry, or a bias that all entries share, does. */
std::int64_t entries_of_call(const Attention& a) {
  const std::int64_t limit = dnn::most_score_bytes(), bytes = score_bytes_of_entry(a);
  if (bytes > limit || (a.bias.entries == 1 && a.bias_bytes() > limit)) return 0;
  if (bytes == 0) return a.entries;
  const std::int64_t most = limit / bytes, calls = (a.entries + most - 1) / most,
                     entries = (a.entries + calls - 1) / calls;
  // Four f32 logarithms are 16 bytes.
  const std::int64_t step = 4 / std::gcd(std::int64_t{4}, a.heads * a.queries);
  return calls == 1 ? a.entries : std::max<std::int64_t>(1, entries / step * step);
}

/** Limits on the number of length combinations per family. Compiling a plan takes some tenths of a
 *  second, so calls with further lengths use Mezzo's own kernels. With one query, as in text
 *  generation, each call may have another number of keys. Plans are kept: a captured step, or a
 *  kernel still in a stream, may use one, and if lengths come in turns, each call would find that
 *  its plan had been replaced. */
constexpr int kMostLengths = 128, kMostLengthsOfOneQuery = 2;

class CheckedProblems {
 public:
  /** Enqueues the problem if the library keeps NaN in its kind. That is checked once for each kind;
   *  within a capture, a call of a kind not checked yet returns false. */
  bool serve(const Attention& problem, Device device) {
    Key key = problem.kind();
    key.push_back(device.index);
    std::unique_lock lock(mutex_);
    if (const auto known = served_.find(key); known != served_.end()) {
      const bool serves = known->second;
      lock.unlock();
      return serves && dnn::attend(problem, device, current_stream(device));
    }
    if (Capture::current()) return false;
    int& lengths = lengths_[family_of(problem, device)];
    if (lengths == (problem.queries == 1 ? kMostLengthsOfOneQuery : kMostLengths)) return false;
    const Outcome outcome = tried(problem, device);
    if (outcome == Outcome::no_engine) return false;  // not cached: asking again is cheap
    ++lengths;
    return served_[key] = outcome == Outcome::good;
  }

 private:
  using Key = std::vector<std::int64_t>;
  /** What problems of different lengths have in common. */
  static Key family_of(const Attention& a, Device device) {
    Key family{static_cast<std::int64_t>(a.wanted), static_cast<std::int64_t>(a.dtype),
               device.index};
    for (const std::int64_t size : {a.heads, a.features, a.values, a.bias.heads})
      family.push_back(size);
    for (const bool has : {a.is_causal, a.drops, a.bias.queries > 1, a.queries == 1})
      family.push_back(has ? 1 : 0);
    return family;
  }
  enum class Outcome : std::uint8_t { no_engine, good, unfit };

  /** Solves the problem, and then checks the library. */
  static Outcome tried(const Attention& problem, Device device) {
    try {
      if (!dnn::attend(problem, device, current_stream(device))) return Outcome::no_engine;
      if (attention_keeps_nan(problem, device)) return Outcome::good;
    } catch (const OutOfMemory&) {
      return Outcome::unfit;  // the op itself needs less memory
    }
    log_text(Severity::warning,
             str("cuDNN: ", problem.text(), " loses nan; Mezzo's own kernel serves such calls"));
    return Outcome::unfit;
  }

  std::mutex mutex_;
  std::unordered_map<Key, bool, KeyHash> served_;
  std::unordered_map<Key, int, KeyHash> lengths_;
};

CheckedProblems& checked_problems() {
  static auto& all = *new CheckedProblems;  // never destroyed: tensors may outlive main
  return all;
}

/** What the bias and the mask of dropout are made from. `batch`: of the whole problem. */
struct MaskSources {
  Tensor mask;
  Shape batch;
  PhiloxStream stream;
};

/** Solves the problem in one or several calls. Returns false if an array of scores would exceed
 *  most_score_bytes(), if the logarithms of some call would not begin at a multiple of 16 bytes, or
 *  if a call fails; all results are then computed again. */
bool serve(const Attention& problem, const MaskSources& from, Device device) {
  const std::int64_t count = entries_of_call(problem);
  if (count < problem.entries && (count == 0 || count * problem.heads * problem.queries % 4 != 0))
    return false;
  Tensor shared_bias;
  if (problem.bias.entries == 1) shared_bias = bias_for_mask(problem, from.mask, from.batch, 0);
  for (std::int64_t first = 0; first < problem.entries; first += count) {
    Attention part = part_of(problem, first, std::min(count, problem.entries - first));
    Tensor bias = shared_bias, kept;
    if (problem.bias.entries > 1) bias = bias_for_mask(part, from.mask, from.batch, first);
    if (bias.defined()) part.bias.data = bias.raw_data();
    if (part.drops) kept = kept_probabilities(part, from.stream, first, device);
    if (kept.defined()) part.kept = kept.raw_data();
    if (!checked_problems().serve(part, device)) return false;
  }
  if (problem.wanted == Attention::Wanted::y && problem.bias.exists())
    clear_hidden_rows(problem, device);
  return true;
}

LibraryProofs& proofs() {
  static auto& all = *new LibraryProofs;  // never destroyed: tensors may outlive main
  return all;
}

/** Solves the problem if the library's results agree with Mezzo's own. Returns false if the results
 *  are still to be computed. */
bool serve_proven(const Attention& problem, const MaskSources& from, Device device,
                  const ResultPairs& pairs) {
  LibraryProofs::Kind kind = problem.kind();
  kind.push_back(device.index);
  if (!proofs().allows_call(kind) || !serve(problem, from, device)) return false;
  // The library rounds probabilities after dropout, which multiplies them, and slopes.
  const double tolerance = 2 * proof_tolerance(problem.dtype) / problem.keep_probability;
  return proofs().accepts(kind, {"cuDNN", tolerance}, pairs, [&] { return problem.text(); });
}

/** Returns y and the logarithms of a call beside Mezzo's own. */
std::vector<ResultPair> beside_own(Inputs in, Outputs out, const op::AttentionAttrs& attrs) {
  std::array<Tensor, 2> own;
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = mezzo::detail::contiguous_scratch(out[i]);
  own_attention(in, own, attrs);
  const double operands = nan_unless_finite(in.first(3));
  return {{out[0], own[0], operands}, {out[1], own[1], operands}};
}

/** Returns the gradients of q, k and v beside Mezzo's own. Their typical sizes are those of equal
 *  probabilities. */
std::vector<ResultPair> beside_own_gradients(Inputs in, Outputs out, const Attention& problem,
                                             const op::AttentionBackward::Attrs& attrs) {
  std::array<Tensor, 4> own;
  for (std::size_t i = 0; i < 3; ++i) own[i] = mezzo::detail::contiguous_scratch(out[i]);
  own_attention_backward(in, own, attrs);
  const double g = root_mean_square(in[0]), q = root_mean_square(in[1]),
               k = root_mean_square(in[2]), v = root_mean_square(in[3]);
  const auto keys = static_cast<double>(problem.keys),
             queries = static_cast<double>(problem.queries);
  const double slope =
      std::abs(problem.scale) * std::sqrt(static_cast<double>(problem.values)) * g * v / keys;
  return {{out[0], own[0], std::sqrt(keys) * slope * k},
          {out[1], own[1], std::sqrt(queries) * slope * q},
          {out[2], own[2], std::sqrt(queries) / keys * g}};
}

/** The lowest compute capability that the library's attention supports, and the first for which its
 *  gradients are not used: from there on NVIDIA selects the deterministic engine by hand, while for
 *  older devices the graph suffices. */
constexpr int kAmpere = 80, kBlackwell = 100;

/** Returns whether the library's gradients may be nan for some numbers, where the logarithms of
 *  rows are below -88.7: its tiles have 128 keys, and it does not hide the upper half of the last
 *  where a mask is given and the keys end with the lower half, nor the queries beside a single one.
 *  Sources: pytorch's issue 196678 (cuDNN 9.19) and cudnn-frontend's issue 1072 (9.26). */
bool is_unsafe(const Attention& gradients) {
  return gradients.queries == 1 || (gradients.bias.exists() && gradients.keys % 128 == 64);
}

/** Returns whether gradients are to have the same bits in every run. Those of whole tiles may be
 *  summed in any order where the program allows it. */
bool must_repeat(const Attention& gradients) {
  return !allow_nondeterministic() || gradients.queries % 64 != 0 || gradients.features % 16 != 0;
}

}  // namespace

bool attention_by_library(Inputs in, Outputs out, const op::AttentionAttrs& attrs) {
  const Device device = in[0].device();
  if (out[1].numel() == 0 || !in_scope(in[0], in[1], in[2], attrs)) return false;
  if (runtime::compute_capability(device.index) < kAmpere) return false;
  std::optional<Attention> problem =
      as_heads({.q = in[0], .k = in[1], .v = in[2], .y = out[0], .mask = in[3]}, attrs);
  if (!problem) return false;
  problem->log_sums = out[1].raw_data();
  return serve_proven(*problem, {in[3], op::attention_batch(in[0], in[1], in[2]), attrs.stream},
                      device, [&] { return beside_own(in, out, attrs); });
}

bool attention_backward_by_library(Inputs in, Outputs out,
                                   const op::AttentionBackward::Attrs& attrs) {
  const Device device = in[1].device();
  if (in[6].numel() == 0 || attrs.mask_gradient || !in_scope(in[1], in[2], in[3], attrs.forward))
    return false;
  const int capability = runtime::compute_capability(device.index);
  if (capability < kAmpere || capability >= kBlackwell) return false;
  // Gradients that are still to be summed over broadcast dimensions have a wider dtype than the
  // library supports.
  for (int i = 0; i < 3; ++i)
    if (out[static_cast<std::size_t>(i)].dtype() != in[1].dtype()) return false;
  AttentionTensors of{.q = in[1],
                      .k = in[2],
                      .v = in[3],
                      .y = in[5],
                      .mask = in[4],
                      .g = in[0],
                      .dq = out[0],
                      .dk = out[1],
                      .dv = out[2]};
  std::optional<Attention> problem = as_heads(of, attrs.forward);
  if (!problem) {
    of.y = row_major(of.y);
    of.g = row_major(of.g);
    problem = as_heads(of, attrs.forward);
  }
  if (!problem || problem->key_heads != problem->heads || is_unsafe(*problem)) return false;
  problem->repeats = must_repeat(*problem);
  const Tensor log_sums = row_major(in[6]);
  problem->log_sums = log_sums.raw_data();
  return serve_proven(*problem,
                      {in[4], op::attention_batch(in[1], in[2], in[3]), attrs.forward.stream},
                      device, [&] { return beside_own_gradients(in, out, *problem, attrs); });
}

}  // namespace mezzo::gpu
