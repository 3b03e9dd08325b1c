// The emulated cuDNN's attention. It computes on the host, with probabilities rounded as the
// library rounds them, and rejects what the library would reject.
#include <cmath>
#include <vector>

#include "../../tensor/core/error.h"
#include "../../tensor/core/half.h"
#include "cuda.h"
#include "dnn.h"
#include "dnn_plan.h"
#include "faults.h"
#include "memory.h"

namespace mezzo::gpu::dnn {

namespace {

using emulator::AttentionFault;
using Wanted = Attention::Wanted;
using Numbers = std::vector<float>;

AttentionFault attention_fault = AttentionFault::none;
std::int64_t most_bytes = std::int64_t{256} << 20;

/** Throws Fault for an invalid call, so that no fallback hides it. */
void require_attention(bool holds, const char* what) {
  if (!holds) throw emulator::Fault(std::string("cudnnBackendExecute: bad call: ") + what);
}

bool whole_pieces(std::int64_t elements) { return elements > 0 && elements % 8 == 0; }

void require_on_device(const void* data, const char* what) {
  require_attention(
      emulator::is_device_memory(data) && reinterpret_cast<std::uintptr_t>(data) % 16 == 0, what);
}

void check_attention(const Attention::Rows& x) {
  require_on_device(x.data, "an operand is not 16-byte aligned device memory");
  require_attention(whole_pieces(x.entry) && whole_pieces(x.head) && whole_pieces(x.row),
                    "strides are not multiples of 16 bytes");
}

void check_attention(const Attention& a) {
  require_attention(is_low(a.dtype), "the dtype is not 16-bit");
  require_attention(
      whole_pieces(a.features) && a.features <= 128 && whole_pieces(a.values) && a.values <= 128,
      "rows are not multiples of 8 elements, or longer than 128");
  require_attention(a.heads % a.key_heads == 0, "heads is not a multiple of key_heads");
  require_attention(a.entries * a.heads * a.queries * a.keys > 0, "the problem is empty");
  check_attention(a.q);
  check_attention(a.k);
  check_attention(a.v);
  check_attention(a.y);
  require_attention(emulator::is_device_memory(a.log_sums),
                    "the logarithms are not in device memory");
  if (a.bias.exists()) {
    require_on_device(a.bias.data, "the bias is not 16-byte aligned device memory");
    const auto broadcasts = [](std::int64_t size, std::int64_t all) {
      return size == 1 || size == all;
    };
    require_attention(broadcasts(a.bias.entries, a.entries) && broadcasts(a.bias.heads, a.heads) &&
                          broadcasts(a.bias.queries, a.queries),
                      "the sizes of the bias are not those of the scores");
    require_attention(a.bias_bytes() <= most_bytes, "the bias exceeds the limit");
  }
  if (a.drops) {
    require_on_device(a.kept, "the mask of dropout is not 16-byte aligned device memory");
    require_attention(2 * a.entries * a.heads * a.queries * a.pitch() <= most_bytes,
                      "the mask of dropout exceeds the limit");
  }
  if (a.wanted == Wanted::y) return;
  require_attention(a.heads == a.key_heads && a.keys > 1,
                    "gradients of shared keys, or of a single key");
  for (const Attention::Rows& x : {a.g, a.dq, a.dk, a.dv}) check_attention(x);
}

float rounded(DType dtype, float x) {
  return dtype == DType::f16 ? static_cast<float>(Half(x)) : static_cast<float>(BFloat16(x));
}

/** Loads 16-bit elements [first, first + count). */
Numbers load(DType dtype, const void* data, std::int64_t first, std::int64_t count) {
  Numbers x;
  for (std::int64_t i = first; i < first + count; ++i)
    x.push_back(dtype == DType::f16 ? static_cast<float>(static_cast<const Half*>(data)[i])
                                    : static_cast<float>(static_cast<const BFloat16*>(data)[i]));
  return x;
}
void store(DType dtype, const void* data, std::int64_t first, const Numbers& x) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(first) + i;
    if (dtype == DType::f16)
      static_cast<Half*>(const_cast<void*>(data))[at] = Half(x[i]);
    else
      static_cast<BFloat16*>(const_cast<void*>(data))[at] = BFloat16(x[i]);
  }
}

float dot(const Numbers& a, const Numbers& b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
void add(Numbers& sums, float factor, const Numbers& x) {
  for (std::size_t i = 0; i < x.size(); ++i) sums[i] += factor * x[i];
}

using Matrix = std::vector<Numbers>;
Matrix zeros(std::int64_t rows, std::int64_t columns) {
  return Matrix(static_cast<std::size_t>(rows), Numbers(static_cast<std::size_t>(columns), 0.0f));
}

/** One head of one batch entry. */
class Head {
 public:
  Head(const Attention& a, std::int64_t entry, std::int64_t head)
      : a_(a), entry_(entry), head_(head), place_(entry * a.heads + head) {
    const std::int64_t key_head = head / (a.heads / a.key_heads);
    q_ = rows(a.q, entry, head, a.queries, a.features);
    k_ = rows(a.k, entry, key_head, a.keys, a.features);
    v_ = rows(a.v, entry, key_head, a.keys, a.values);
    if (a.wanted == Wanted::gradients) g_ = rows(a.g, entry, head, a.queries, a.values);
  }

  void forward() const {
    const float factor = static_cast<float>(1 / a_.keep_probability);
    for (std::int64_t i = 0; i < a_.queries; ++i) {
      const Numbers s = scores(i);
      float greatest = -INFINITY, sum = 0;
      for (const float x : s) greatest = x > greatest ? x : greatest;
      for (const float x : s) sum += std::exp(x - greatest);
      Numbers y(static_cast<std::size_t>(a_.values), 0.0f);
      const Numbers keeps = kept(i);
      for (std::size_t j = 0; j < s.size(); ++j)
        add(y, rounded(a_.dtype, std::exp(s[j] - greatest) / sum * keeps[j] * factor), v_[j]);
      spoil(y);
      store(a_.dtype, a_.y.data, row_of(a_.y, i), y);
      static_cast<float*>(const_cast<void*>(a_.log_sums))[place_ * a_.queries + i] =
          greatest + std::log(sum);
    }
  }

  void backward() const {
    Matrix dk = zeros(a_.keys, a_.features), dv = zeros(a_.keys, a_.values);
    const float keep = static_cast<float>(a_.keep_probability), factor = 1 / keep;
    for (std::int64_t i = 0; i < a_.queries; ++i) {
      const std::int64_t row = place_ * a_.queries + i;
      const Numbers s = scores(i), &g = g_[static_cast<std::size_t>(i)],
                    &q = q_[static_cast<std::size_t>(i)];
      const Numbers keeps = kept(i);
      const float offset = dot(g, load(a_.dtype, a_.y.data, row_of(a_.y, i), a_.values)) *
                           (attention_fault == AttentionFault::wrong_offsets ? 1.0f + keep : 1.0f);
      Numbers dq(static_cast<std::size_t>(a_.features), 0.0f);
      for (std::size_t j = 0; j < s.size(); ++j) {
        const float p = std::exp(s[j] - static_cast<const float*>(a_.log_sums)[row]);
        const float slope = rounded(a_.dtype, p * (dot(g, v_[j]) * keeps[j] * factor - offset) *
                                                  static_cast<float>(a_.scale));
        add(dv[j], rounded(a_.dtype, p * keeps[j] * factor), g);
        add(dk[j], slope, q);
        add(dq, slope, k_[j]);
      }
      spoil(dq);
      store(a_.dtype, a_.dq.data, row_of(a_.dq, i), dq);
    }
    for (std::int64_t j = 0; j < a_.keys; ++j) {
      store(a_.dtype, a_.dk.data, row_of(a_.dk, j), dk[static_cast<std::size_t>(j)]);
      store(a_.dtype, a_.dv.data, row_of(a_.dv, j), dv[static_cast<std::size_t>(j)]);
    }
  }

 private:
  Matrix rows(const Attention::Rows& x, std::int64_t entry, std::int64_t head, std::int64_t count,
              std::int64_t columns) const {
    Matrix all;
    for (std::int64_t i = 0; i < count; ++i)
      all.push_back(load(a_.dtype, x.data, entry * x.entry + head * x.head + i * x.row, columns));
    return all;
  }

  /** Returns the first element of a row of this head. */
  std::int64_t row_of(const Attention::Rows& x, std::int64_t row) const {
    return entry_ * x.entry + head_ * x.head + row * x.row;
  }

  Numbers scores(std::int64_t query) const {
    const float* bias = nullptr;
    if (a_.bias.exists()) {
      // Without broadcasting, the rows after the first are read from beyond the bias.
      const bool ignores = attention_fault == AttentionFault::no_broadcast;
      const auto at = [](std::int64_t i, std::int64_t size) { return size == 1 ? 0 : i; };
      const Attention::Bias& b = a_.bias;
      if ((ignores && b.entries == 1 && entry_ > 0) || (ignores && b.heads == 1 && head_ > 0) ||
          (ignores && b.queries == 1 && query > 0))
        return scores_with(nullptr, query);
      bias = static_cast<const float*>(b.data) +
             ((at(entry_, b.entries) * b.heads + at(head_, b.heads)) * b.queries +
              at(query, b.queries)) *
                 a_.pitch();
    }
    return scores_with(bias, query);
  }
  Numbers scores_with(const float* bias, std::int64_t query) const {
    const std::int64_t shift = attention_fault == AttentionFault::sees_one_more ? 1 : 0;
    Numbers s;
    for (std::int64_t j = 0; j < a_.keys; ++j)
      s.push_back(a_.is_causal && j > query + shift
                      ? -INFINITY
                      : dot(q_[static_cast<std::size_t>(query)], k_[static_cast<std::size_t>(j)]) *
                                static_cast<float>(a_.scale) +
                            (bias ? bias[j] : 0.0f));
    return s;
  }

  /** Returns 1 for the keys of a query that dropout keeps, else 0. */
  Numbers kept(std::int64_t query) const {
    if (!a_.drops) return Numbers(static_cast<std::size_t>(a_.keys), 1.0f);
    return load(a_.dtype, a_.kept, (place_ * a_.queries + query) * a_.pitch(), a_.keys);
  }

  void spoil(Numbers& x) const {
    static int runs = 0;
    for (float& number : x) {
      if (attention_fault == AttentionFault::loses_nan && std::isnan(number)) number = 0;
      if (attention_fault == AttentionFault::varies && ++runs % 3 == 0) number *= 1.004f;
    }
  }

  const Attention& a_;
  std::int64_t entry_, head_, place_;
  Matrix q_, k_, v_, g_;
};

void compute_attention(const Attention& a) {
  const emulator::MemoryScope scope;
  for (std::int64_t entry = 0; entry < a.entries; ++entry)
    for (std::int64_t head = 0; head < a.heads; ++head) {
      const Head one(a, entry, head);
      if (a.wanted == Wanted::y)
        one.forward();
      else
        one.backward();
    }
}

}  // namespace

bool takes(const Attention&) { return emulator::has_dnn(); }

std::optional<Choice> find_plan(const Attention& a, Device, int first) {
  const std::int64_t bytes = 2 * a.entries * a.heads * a.queries * a.keys;
  if (a.wanted == Wanted::gradients && a.repeats && bytes > most_score_bytes()) return std::nullopt;
  return emulated_plan(first);
}

void execute(const Plan&, const Attention& a, Device, runtime::Stream stream) {
  check_attention(a);
  if (attention_fault == AttentionFault::fails)
    fail<CudaError>("cudnnBackendExecute",
                    {.what = "the library failed", .got = "an internal error"});
  emulator::reach_stage(emulator::LibraryStage::execution, "cudnnBackendExecute");
  emulator::submit({"cuDNN attention", 0, stream}, [a] { compute_attention(a); });
}

std::int64_t most_score_bytes() { return most_bytes; }

}  // namespace mezzo::gpu::dnn

namespace mezzo::emulator {

void set_attention_fault(AttentionFault wanted) { gpu::dnn::attention_fault = wanted; }
void set_most_score_bytes(std::int64_t bytes) { gpu::dnn::most_bytes = bytes; }

}  // namespace mezzo::emulator
