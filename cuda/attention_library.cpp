#include "attention_library.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "../tensor/capture.h"
#include "../tensor/log.h"
#include "../tensor/numerics.h"
#include "../tensor/row_major.h"
#include "../tensor/text.h"
#include "device.h"
#include "key.h"

namespace mezzo::gpu {

namespace {

using dnn::Attention;

/** Elements that the library loads at once: rows and operands begin at multiples of 16 bytes. */
constexpr std::int64_t kPiece = 8;
constexpr std::int64_t kWidestRows = 128;

// ---- a batch as entries of heads -------------------------------------------------------------------------------------------

/** Elements from one matrix of a batch to the next, by dimension; 0 where broadcast. */
std::vector<std::int64_t> batch_steps(const Tensor& x, const Shape& batch) {
  std::vector<std::int64_t> steps;
  for (int i = 0; i < batch.rank(); ++i) {
    const int dim = x.dim() - 2 - batch.rank() + i;
    steps.push_back(dim < 0 || x.shape()[dim] == 1 ? 0 : x.strides()[dim]);
  }
  return steps;
}

/** Dimensions [begin, end) of a batch as a single one, where steps allow it. */
struct Folded {
  std::int64_t count = 1, step = 0;
};
std::optional<Folded> folded(const Shape& batch, const std::vector<std::int64_t>& steps, int begin, int end) {
  Folded f;
  for (int i = end - 1; i >= begin; --i) {
    if (batch[i] == 1) continue;
    const std::int64_t step = steps[static_cast<std::size_t>(i)];
    if (f.count == 1) f.step = step;
    if (step != f.step * f.count) return std::nullopt;
    f.count *= batch[i];
  }
  return f;
}

/** Where the last dimensions of [begin, end) begin over which an operand is broadcast. */
int broadcast_from(const Shape& batch, const std::vector<std::int64_t>& steps, int begin, int end) {
  while (end > begin && (batch[end - 1] == 1 || steps[static_cast<std::size_t>(end - 1)] == 0)) --end;
  return end;
}

/** An operand as heads of entries, where that can be said with a step each: one dimension of the batch is the first of the heads. */
struct Heads {
  std::int64_t entries, heads;
  Attention::Rows rows;
};
std::optional<Heads> as_heads(const Tensor& x, const Shape& batch, int first_head, bool shares) {
  const std::vector<std::int64_t> steps = batch_steps(x, batch);
  const int rank = batch.rank();
  const int end = shares ? broadcast_from(batch, steps, first_head, rank) : rank;
  const auto entries = folded(batch, steps, 0, first_head), heads = folded(batch, steps, first_head, end);
  if (!entries || !heads) return std::nullopt;
  const std::int64_t num_rows = x.size(-2), columns = x.size(-1);
  Attention::Rows rows{x.raw_data(), entries->step, heads->step, x.strides()[x.dim() - 2]};
  // A step that is never made is that of an array without gaps.
  if (num_rows == 1) rows.row = columns;
  if (heads->count == 1) rows.head = rows.row * num_rows;
  if (entries->count == 1) rows.entry = rows.head * heads->count;
  const auto fits = [](std::int64_t step) { return step > 0 && step % kPiece == 0; };
  const std::int64_t reach = (entries->count - 1) * rows.entry + (heads->count - 1) * rows.head +
                             (num_rows - 1) * rows.row + columns;
  const bool loads = fits(rows.entry) && fits(rows.head) && fits(rows.row) && x.strides()[x.dim() - 1] == 1 &&
                     alignment(x.raw_data()) >= 16 && reach <= std::int64_t{0x7FFFFFFF};
  if (!loads) return std::nullopt;
  return Heads{entries->count, heads->count, rows};
}

/** Operands of a call, where the library could serve it by their sizes and places. g is undefined in the forward direction. */
std::optional<Attention> problem_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                                    const op::AttentionAttrs& attrs) {
  const Shape batch = op::attention_batch(q, k, v);
  for (int i = 0; i <= batch.rank(); ++i) {
    const int first_head = i < batch.rank() ? batch.rank() - 1 - i : batch.rank();  // [entries, heads] first
    if (first_head < 0) continue;
    const auto queries = as_heads(q, batch, first_head, false), keys = as_heads(k, batch, first_head, true),
               values = as_heads(v, batch, first_head, true);
    const auto slopes = g.defined() ? as_heads(g, batch, first_head, false) : queries;
    if (!queries || !keys || !values || !slopes || keys->heads != values->heads) continue;
    return Attention{.wanted = g.defined() ? Attention::Wanted::gradients : Attention::Wanted::y,
                     .dtype = q.dtype(),
                     .entries = queries->entries,
                     .heads = queries->heads,
                     .key_heads = keys->heads,
                     .queries = q.size(-2),
                     .keys = k.size(-2),
                     .features = q.size(-1),
                     .values = v.size(-1),
                     .is_causal = attrs.is_causal,
                     .scale = attrs.scale,
                     .q = queries->rows,
                     .k = keys->rows,
                     .v = values->rows,
                     .g = g.defined() ? slopes->rows : Attention::Rows{}};
  }
  return std::nullopt;
}

/** Whether the library may be asked at all. A single query, as in generating text, comes with ever more keys, and each number of them would want
 *  a plan of its own; of a single key the library knows no gradient. */
bool in_scope(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
              const op::AttentionAttrs& attrs) {
  const auto fits = [](std::int64_t columns) {
    return columns > 0 && columns <= kWidestRows && columns % kPiece == 0;
  };
  return cudnn_sdp_enabled() && is_low(q.dtype()) && !mask.defined() && attrs.dropout_p == 0 &&
         q.size(-2) >= 2 && k.size(-2) >= 2 && fits(q.size(-1)) && fits(v.size(-1));
}

// ---- what is known of a kind -----------------------------------------------------------------------------------------------

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
    std::string fault = "differ from those of Mezzo's kernels";
    try {
      if (!dnn::attend(problem, device, current_stream(device))) return Outcome::no_engine;
      if (attention_is_proved(problem, device)) return Outcome::proved;
    } catch (const OutOfMemory&) {
      return Outcome::unfit;  // the op itself still has what it needs
    } catch (const CudaError& error) {
      fault = str("end with an error (", error.what(), ")");
    }
    log_text(Severity::warning,
             str("scaled_dot_product_attention: cuDNN's ",
                 problem.wanted == Attention::Wanted::y ? "results" : "gradients", " for ", problem.dtype,
                 " [", problem.entries, ", ", problem.heads, ", ", problem.queries, ", ", problem.features,
                 "] and ", problem.keys, " keys ", fault, "; calls of this kind stay with Mezzo's"));
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

/** The compute capability that the library's attention begins with; and that from which on its gradients need more than the right graph to give the
 *  same bits every time. */
constexpr int kAmpere = 80, kBlackwell = 100;

}  // namespace

bool attention_by_library(Inputs in, Outputs out, const op::AttentionAttrs& attrs) {
  const Device device = in[0].device();
  if (out[1].numel() == 0 || !in_scope(in[0], in[1], in[2], in[3], attrs)) return false;
  if (runtime::compute_capability(device.index) < kAmpere) return false;
  std::optional<Attention> problem = problem_of(in[0], in[1], in[2], {}, attrs);
  if (!problem) return false;
  problem->y = out[0].raw_data();
  problem->log_sums = out[1].raw_data();
  return verdicts().serve(*problem, device);
}

bool attention_backward_by_library(Inputs in, Outputs out, const op::AttentionBackward::Attrs& attrs) {
  const Device device = in[1].device();
  if (in[6].numel() == 0 || !in_scope(in[1], in[2], in[3], in[4], attrs.forward)) return false;
  const int capability = runtime::compute_capability(device.index);
  if (capability < kAmpere || capability >= kBlackwell) return false;
  // A gradient that is still to be summed over broadcast dimensions is wider than the library gives it.
  for (int i = 0; i < 3; ++i)
    if (out[static_cast<std::size_t>(i)].dtype() != in[1].dtype()) return false;
  std::optional<Attention> problem = problem_of(in[1], in[2], in[3], in[0], attrs.forward);
  Tensor g;
  if (!problem) problem = problem_of(in[1], in[2], in[3], g = row_major(in[0]), attrs.forward);
  if (!problem || problem->key_heads != problem->heads) return false;
  const Tensor y = row_major(in[5]), log_sums = row_major(in[6]);
  problem->y = y.raw_data();
  problem->log_sums = log_sums.raw_data();
  problem->dq = out[0].raw_data();
  problem->dk = out[1].raw_data();
  problem->dv = out[2].raw_data();
  return verdicts().serve(*problem, device);
}

std::vector<std::int64_t> dnn::Attention::kind() const {
  std::vector<std::int64_t> numbers{static_cast<std::int64_t>(wanted),
                                    static_cast<std::int64_t>(dtype),
                                    entries,
                                    heads,
                                    key_heads,
                                    queries,
                                    keys,
                                    features,
                                    values,
                                    is_causal ? 1 : 0};
  for (const Rows& x : {q, k, v, g}) numbers.insert(numbers.end(), {x.entry, x.head, x.row});
  return numbers;
}

}  // namespace mezzo::gpu
