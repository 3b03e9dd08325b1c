#include "attention_library.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "../tensor/capture.h"
#include "../tensor/log.h"
#include "../tensor/numerics.h"
#include "../tensor/row_major.h"
#include "../tensor/text.h"
#include "attention_heads.h"
#include "device.h"
#include "key.h"
#include "own_kernels.h"

namespace mezzo::gpu {

namespace {

using dnn::Attention;

/** Whether the library may be asked at all. A single query, as in generating text, comes with ever more keys, and each number of them would want
 *  a plan of its own; of a single key the library knows no gradient. */
bool in_scope(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
              const op::AttentionAttrs& attrs) {
  const auto fits = [](std::int64_t columns) {
    return columns > 0 && columns <= kWidestHeads && columns % kPiece == 0;
  };
  return cudnn_sdp_enabled() && !OwnKernels::active() && is_low(q.dtype()) && !mask.defined() &&
         attrs.dropout_p == 0 && q.size(-2) >= 2 && k.size(-2) >= 2 && fits(q.size(-1)) && fits(v.size(-1));
}

void advance(const void*& address, std::int64_t bytes) {
  if (address) address = static_cast<const char*>(address) + bytes;
}
void advance(void*& address, std::int64_t bytes) {
  if (address) address = static_cast<char*>(address) + bytes;
}

/** Entries [first, first + count) of a problem. */
Attention part_of(const Attention& a, std::int64_t first, std::int64_t count) {
  const std::int64_t item = static_cast<std::int64_t>(item_size(a.dtype)), rows = first * a.heads * a.queries,
                     key_rows = first * a.key_heads * a.keys;
  Attention part = a;
  part.entries = count;
  for (Attention::Rows* x : {&part.q, &part.k, &part.v, &part.g}) advance(x->data, first * x->entry * item);
  advance(part.y, rows * a.values * item);
  advance(part.log_sums, rows * std::int64_t{sizeof(float)});
  advance(part.dq, rows * a.features * item);
  advance(part.dk, key_rows * a.features * item);
  advance(part.dv, key_rows * a.values * item);
  return part;
}

/** Entries of a call: as many as the library has memory for the gradients of their scores, in
 *  equal calls. */
std::int64_t entries_of_call(const Attention& a) {
  if (a.wanted == Attention::Wanted::y) return a.entries;
  const std::int64_t bytes = 2 * a.heads * a.queries * a.keys,
                     most = std::max<std::int64_t>(1, dnn::most_score_gradients() / bytes);
  const std::int64_t calls = (a.entries + most - 1) / most, entries = (a.entries + calls - 1) / calls;
  // Four logarithms are 16 bytes.
  const std::int64_t step = 4 / std::gcd(std::int64_t{4}, a.heads * a.queries);
  return calls == 1 ? a.entries : std::max<std::int64_t>(1, entries / step * step);
}

/** A plan is compiled for its lengths, in some tenths of a second. Where they keep changing, those that come after so many are left to our own
 *  kernels. */
constexpr int kMostLengths = 16;

class Verdicts {
 public:
  /** Puts the problem into the stream if the library is known to solve it. What has to be tried out first waits for a call outside of a captured
   *  step. */
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
    int& lengths = lengths_[{problem.wanted, problem.dtype, problem.heads, problem.features, problem.values,
                             problem.is_causal, device.index}];
    if (lengths == kMostLengths) return false;
    const Outcome outcome = tried(problem, device);
    if (outcome == Outcome::no_engine) return false;  // which the next call may learn as quickly
    ++lengths;
    return served_[key] = outcome == Outcome::proved;
  }

 private:
  using Key = std::vector<std::int64_t>;
  using Family = std::tuple<Attention::Wanted, DType, std::int64_t, std::int64_t, std::int64_t, bool, int>;
  enum class Outcome : std::uint8_t { no_engine, proved, unfit };

  /** Solves the problem, and then one whose results are known. */
  static Outcome tried(const Attention& problem, Device device) {
    try {
      if (!dnn::attend(problem, device, current_stream(device))) return Outcome::no_engine;
      if (attention_is_proved(problem, device)) return Outcome::proved;
    } catch (const OutOfMemory&) {
      return Outcome::unfit;  // the op itself still has what it needs
    }
    log_text(Severity::warning,
             str("scaled_dot_product_attention: cuDNN's ",
                 problem.wanted == Attention::Wanted::y ? "results" : "gradients", " for ", problem.dtype,
                 " [", problem.entries, ", ", problem.heads, ", ", problem.queries, ", ", problem.features,
                 "] and ", problem.keys,
                 " keys differ from those of Mezzo's kernels; calls of this kind stay with Mezzo's"));
    return Outcome::unfit;
  }

  std::mutex mutex_;
  std::unordered_map<Key, bool, KeyHash> served_;
  std::map<Family, int> lengths_;
};

Verdicts& verdicts() {
  static auto& all = *new Verdicts;  // never destroyed: tensors may outlive main
  return all;
}

/** By as many calls as it takes, unless the logarithms of one would begin between multiples of 16
 *  bytes. What calls wrote before one fails is written again. */
bool serve(const Attention& problem, Device device) {
  const std::int64_t count = entries_of_call(problem);
  if (count < problem.entries && count * problem.heads * problem.queries % 4 != 0) return false;
  for (std::int64_t first = 0; first < problem.entries; first += count) {
    const Attention part = part_of(problem, first, std::min(count, problem.entries - first));
    if (!verdicts().serve(part, device)) return false;
  }
  return true;
}

/** The compute capability that the library's attention begins with; and that from which on NVIDIA picks the engine of gradients by hand for the same
 *  bits every time, where it leaves older ones to the graph. */
constexpr int kAmpere = 80, kBlackwell = 100;

}  // namespace

bool attention_by_library(Inputs in, Outputs out, const op::AttentionAttrs& attrs) {
  const Device device = in[0].device();
  if (out[1].numel() == 0 || !in_scope(in[0], in[1], in[2], in[3], attrs)) return false;
  if (runtime::compute_capability(device.index) < kAmpere) return false;
  std::optional<Attention> problem = as_heads(in[0], in[1], in[2], {}, attrs);
  if (!problem) return false;
  problem->y = out[0].raw_data();
  problem->log_sums = out[1].raw_data();
  return serve(*problem, device);
}

bool attention_backward_by_library(Inputs in, Outputs out, const op::AttentionBackward::Attrs& attrs) {
  const Device device = in[1].device();
  if (in[6].numel() == 0 || !in_scope(in[1], in[2], in[3], in[4], attrs.forward)) return false;
  const int capability = runtime::compute_capability(device.index);
  if (capability < kAmpere || capability >= kBlackwell) return false;
  // A gradient that is still to be summed over broadcast dimensions is wider than the library gives it.
  for (int i = 0; i < 3; ++i)
    if (out[static_cast<std::size_t>(i)].dtype() != in[1].dtype()) return false;
  std::optional<Attention> problem = as_heads(in[1], in[2], in[3], in[0], attrs.forward);
  Tensor g;
  if (!problem) problem = as_heads(in[1], in[2], in[3], g = row_major(in[0]), attrs.forward);
  if (!problem || problem->key_heads != problem->heads) return false;
  const Tensor y = row_major(in[5]), log_sums = row_major(in[6]);
  problem->y = y.raw_data();
  problem->log_sums = log_sums.raw_data();
  problem->dq = out[0].raw_data();
  problem->dk = out[1].raw_data();
  problem->dv = out[2].raw_data();
  return serve(*problem, device);
}

}  // namespace mezzo::gpu
