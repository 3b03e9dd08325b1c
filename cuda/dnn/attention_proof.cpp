// The comparison of cuDNN's attention with Mezzo's own kernels on random problems.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "../../tensor/core/half.h"
#include "../../tensor/memory/transfer.h"
#include "../../tensor/random/philox.h"
#include "../kernels/attention_masks.h"
#include "../kernels/host_lines.h"
#include "../runtime/device.h"
#include "attention_library.h"

namespace mezzo::gpu {

namespace {

using dnn::Attention;

using Numbers = std::vector<float>;

/** Largest difference of results, relative to the largest result: eight half units of the dtype.
 *  Both sides round a result once, a half unit each, and the library rounds probabilities too. */
float tolerance(DType dtype) { return dtype == DType::f16 ? 0x1p-9f : 0x1p-6f; }
/** Largest difference of the logarithms, which are f32 throughout. */
constexpr float kLogTolerance = 1e-4f;

std::uint16_t narrowed(float x, DType dtype) {
  return dtype == DType::f16 ? Half(x).bits : BFloat16(x).bits;
}

/** Returns 16-bit random numbers. They repeat with a prime period, so that rows differ. */
std::vector<std::uint16_t> random_bits(std::int64_t count, DType dtype, std::uint64_t draw) {
  constexpr std::int64_t kPeriod = 65521;
  std::vector<std::uint16_t> bits;
  bits.reserve(static_cast<std::size_t>(count) + 1);
  while (static_cast<std::int64_t>(bits.size()) < std::min(count, kPeriod)) {
    const NormalPair pair = normal_pair(philox_block({1, draw}, bits.size()));
    bits.push_back(narrowed(static_cast<float>(pair.first), dtype));
    bits.push_back(narrowed(static_cast<float>(pair.second), dtype));
  }
  bits.resize(static_cast<std::size_t>(std::min(count, kPeriod)));
  for (std::int64_t i = kPeriod; i < count; ++i)
    bits.push_back(bits[static_cast<std::size_t>(i - kPeriod)]);
  return bits;
}

/** The shape of an operand. Neighbouring heads that share a key form a dimension of their own, over
 *  which Mezzo's kernels broadcast. */
struct Sizes {
  std::int64_t entries, heads, sharing, rows, columns;
  Shape shape() const { return {entries, heads, sharing, rows, columns}; }
  Shape batch() const { return {entries, heads, sharing}; }
};

Tensor room(const Sizes& s, DType dtype, Device device) {
  const CategoryScope scope(MemoryCategory::workspace);
  return empty_tensor(s.shape(), dtype, device);
}
/** Returns memory filled with NaN, so that unwritten results show. */
Tensor results(const Sizes& s, DType dtype, Device device) {
  const Tensor x = room(s, dtype, device);
  const std::vector<unsigned char> bytes(static_cast<std::size_t>(x.numel()) * item_size(dtype),
                                         0xFF);
  upload(x, bytes.data(), bytes.size());
  return x;
}

/** Returns the number of elements from the first to the last of a tensor in the layout of `rows`.
 */
std::int64_t reach(const Sizes& s, const Attention::Rows& rows) {
  return (s.entries - 1) * rows.entry + (s.heads * s.sharing - 1) * rows.head +
         (s.rows - 1) * rows.row + s.columns;
}

/** Returns a tensor with these elements in the layout of `rows`, and sets its address there. */
Tensor laid_out(const Sizes& s, Attention::Rows& rows, const std::vector<std::uint16_t>& bits,
                DType dtype, Device device) {
  const Tensor all = room({1, 1, 1, 1, static_cast<std::int64_t>(bits.size())}, dtype, device);
  upload(all, bits.data(), bits.size() * sizeof(bits[0]));
  rows.data = all.raw_data();
  return alias(all, s.shape(), {rows.entry, rows.head * s.sharing, rows.head, rows.row, 1}, 0);
}

/** Returns a random operand in the layout of the problem's. `with_nan`: the last row of its first
 *  matrix begins with NaN. */
Tensor operand(const Sizes& s, Attention::Rows& rows, DType dtype, Device device,
               std::uint64_t draw, bool with_nan) {
  std::vector<std::uint16_t> bits = random_bits(reach(s, rows), dtype, draw);
  if (with_nan)
    bits[static_cast<std::size_t>((s.rows - 1) * rows.row)] =
        narrowed(std::numeric_limits<float>::quiet_NaN(), dtype);
  return laid_out(s, rows, bits, dtype, device);
}

/** Returns memory for a result in the layout of the problem's, filled with NaN. */
Tensor results(const Sizes& s, Attention::Rows& rows, DType dtype, Device device) {
  return laid_out(s, rows,
                  std::vector<std::uint16_t>(static_cast<std::size_t>(reach(s, rows)), 0xFFFF),
                  dtype, device);
}

/** Calls f(offset) for the elements of x in order. */
template <class F> void for_each_offset(const Tensor& x, F&& f) {
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (int d = x.dim() - 1; d >= 0; --d) {
      offset += rest % x.shape()[d] * x.strides()[d];
      rest /= x.shape()[d];
    }
    f(static_cast<std::size_t>(offset));
  }
}

/** Returns the 16-bit elements of x, which may have any strides, from its first to its last. */
std::vector<std::uint16_t> bits_of(const Tensor& x) {
  std::int64_t count = 1;
  for (int d = 0; d < x.dim(); ++d) count += (x.shape()[d] - 1) * x.strides()[d];
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(count));
  download(alias(x, {count}, {1}, 0), bits.data(), bits.size() * sizeof(bits[0]));
  return bits;
}

Numbers numbers_of(const Tensor& x) {
  Numbers numbers;
  if (x.dtype() == DType::f32) {
    numbers.resize(static_cast<std::size_t>(x.numel()));
    download(x, numbers.data(), numbers.size() * sizeof(float));
    return numbers;
  }
  const std::vector<std::uint16_t> bits = bits_of(x);
  for_each_offset(x, [&](std::size_t at) {
    numbers.push_back(x.dtype() == DType::f16 ? static_cast<float>(Half::from_bits(bits[at]))
                                              : static_cast<float>(BFloat16::from_bits(bits[at])));
  });
  return numbers;
}

/** Returns the elements of a dense x in the layout of `rows`. */
Tensor copied(const Tensor& x, const Sizes& s, Attention::Rows& rows, Device device) {
  const std::vector<std::uint16_t> dense = bits_of(x);
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(reach(s, rows)));
  const Tensor to = laid_out(s, rows, bits, x.dtype(), device);
  std::size_t i = 0;
  for_each_offset(to, [&](std::size_t at) { bits[at] = dense[i++]; });
  upload(alias(to, {static_cast<std::int64_t>(bits.size())}, {1}, 0), bits.data(),
         bits.size() * sizeof(bits[0]));
  return to;
}

bool any_nan(const Numbers& numbers) {
  return std::any_of(numbers.begin(), numbers.end(), [](float x) { return std::isnan(x); });
}

/** Returns true if the numbers agree up to `relative` times the largest, with NaN in the same
 *  places. */
bool agree(const Numbers& got, const Numbers& expected, float relative) {
  float greatest = 0;
  for (const float x : expected)
    if (std::isfinite(x) && std::fabs(x) > greatest) greatest = std::fabs(x);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) != std::isnan(expected[i])) return false;
    if (std::fabs(got[i] - expected[i]) > relative * greatest) return false;
  }
  return true;
}

bool same_bits(const Numbers& a, const Numbers& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/** A problem of the kind to be compared, with random operands, and both ways to solve it. */
class Trial {
 public:
  Trial(const Attention& kind, Device device, bool with_nan)
      : problem_(kind),
        device_(device),
        attrs_{.scale = 1 / std::sqrt(static_cast<double>(kind.features)),
               .is_causal = kind.is_causal,
               .dropout_p = kind.drops ? 0.25 : 0,
               .stream = {1, 5}} {
    const bool gradients = kind.wanted == Attention::Wanted::gradients;
    problem_.scale = attrs_.scale;
    problem_.keep_probability = 1 - attrs_.dropout_p;
    if (kind.bias.exists()) mask_ = mask();
    q_ = operand(queries(kind.features), problem_.q, kind.dtype, device, 1, with_nan && !gradients);
    k_ = operand(keys(kind.features), problem_.k, kind.dtype, device, 2, false);
    v_ = operand(keys(kind.values), problem_.v, kind.dtype, device, 3, false);
    if (gradients) g_ = operand(queries(kind.values), problem_.g, kind.dtype, device, 4, with_nan);
    y_ = results(queries(kind.values), kind.dtype, device);
    log_sums_ = alias_rows(results(queries(1), DType::f32, device));
  }

  /** Returns the results of Mezzo's own kernels: y and logarithms, or the gradients of q, k and
   *  v. */
  std::vector<Numbers> own() {
    const Tensor in[] = {q_, k_, v_, mask_};
    Tensor forward[] = {y_, log_sums_};
    own_attention(in, forward, attrs_);
    if (problem_.wanted == Attention::Wanted::y) return {numbers_of(y_), numbers_of(log_sums_)};
    const Tensor given[] = {g_, q_, k_, v_, mask_, y_, log_sums_};
    Tensor gradients[] = {results(queries(problem_.features), problem_.dtype, device_),
                          results(keys(problem_.features), problem_.dtype, device_),
                          results(keys(problem_.values), problem_.dtype, device_),
                          room({1, 1, 1, 1, 0}, DType::f32, device_)};
    own_attention_backward(given, gradients, {.forward = attrs_});
    return {numbers_of(gradients[0]), numbers_of(gradients[1]), numbers_of(gradients[2])};
  }

  /** Returns the results of the library. For gradients, own() must have computed y and logarithms
   *  before. */
  std::vector<Numbers> library() {
    std::vector<Tensor> made;
    Tensor y;
    if (problem_.wanted == Attention::Wanted::y) {
      made = {results(queries(problem_.values), problem_.y, problem_.dtype, device_),
              results(queries(1), DType::f32, device_)};
      problem_.log_sums = made[1].raw_data();
    } else {
      made = {results(queries(problem_.features), problem_.dq, problem_.dtype, device_),
              results(keys(problem_.features), problem_.dk, problem_.dtype, device_),
              results(keys(problem_.values), problem_.dv, problem_.dtype, device_)};
      y = copied(y_, queries(problem_.values), problem_.y, device_);
      problem_.log_sums = log_sums_.raw_data();
    }
    Tensor bias, kept;
    if (mask_.defined()) {
      bias = bias_for_mask(problem_, mask_, queries(1).batch(), 0);
      problem_.bias.data = bias.raw_data();
    }
    if (problem_.drops) {
      kept = kept_probabilities(problem_, attrs_.stream, 0, device_);
      problem_.kept = kept.raw_data();
    }
    if (!dnn::attend(problem_, device_, current_stream(device_))) return {};
    if (problem_.wanted == Attention::Wanted::y && mask_.defined())
      clear_hidden_rows(problem_, device_);
    std::vector<Numbers> all;
    for (const Tensor& x : made) all.push_back(numbers_of(x));
    return all;
  }

 private:
  Sizes queries(std::int64_t columns) const {
    return {problem_.entries, problem_.key_heads, problem_.heads / problem_.key_heads,
            problem_.queries, columns};
  }
  Sizes keys(std::int64_t columns) const {
    return {problem_.entries, problem_.key_heads, 1, problem_.keys, columns};
  }
  /** Returns a random mask of 16-bit numbers that hides every third key; of four rows, one hides
   *  the first half of the keys and one hides all. */
  Tensor mask() const {
    const std::int64_t groups = problem_.bias.heads == 1 ? 1 : problem_.key_heads;
    const Sizes sizes{problem_.bias.entries, groups, problem_.bias.heads / groups,
                      problem_.bias.queries, problem_.keys};
    const Tensor x = room(sizes, problem_.dtype, device_);
    std::vector<std::uint16_t> bits = random_bits(x.numel(), problem_.dtype, 6);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const std::int64_t row = i / problem_.keys % 4, key = i % problem_.keys;
      if (key % 3 == 2 || (row == 1 && key < problem_.keys / 2) || row == 3)
        bits[static_cast<std::size_t>(i)] =
            narrowed(-std::numeric_limits<float>::infinity(), problem_.dtype);
    }
    upload(x, bits.data(), bits.size() * sizeof(bits[0]));
    return x;
  }
  /** Returns x without its last dimension, which has size 1. */
  static Tensor alias_rows(const Tensor& x) {
    Shape shape = x.shape();
    Strides strides = x.strides();
    shape.erase(shape.rank() - 1);
    strides.erase(strides.rank() - 1);
    return alias(x, shape, strides, 0);
  }

  Attention problem_;
  Device device_;
  op::AttentionAttrs attrs_;
  Tensor q_, k_, v_, g_, y_, mask_, log_sums_;
};

/** Returns true if the library's result number i is acceptable. */
bool fits(const Numbers& got, const Numbers& expected, const Attention& kind, std::size_t i,
          bool with_nan) {
  const bool gradients = kind.wanted == Attention::Wanted::gradients,
             logarithms = !gradients && i == 1;
  // The number of masked keys whose gradients become NaN depends on the tile size. The NaN of a
  // logarithm is redundant with that of its row.
  if (with_nan && gradients) return any_nan(got);
  if (with_nan && logarithms) return true;
  return agree(got, expected, logarithms ? kLogTolerance : tolerance(kind.dtype));
}

}  // namespace

bool attention_is_proved(const Attention& kind, Device device) {
  for (const bool with_nan : {false, true}) {
    Trial trial(kind, device, with_nan);
    const std::vector<Numbers> expected = trial.own(), got = trial.library();
    if (got.size() != expected.size()) return false;
    for (std::size_t i = 0; i < got.size(); ++i)
      if (!fits(got[i], expected[i], kind, i, with_nan)) return false;
    if (with_nan) continue;
    const std::vector<Numbers> again = trial.library();
    for (std::size_t i = 0; i < got.size(); ++i)
      if (!same_bits(got[i], again[i])) return false;
  }
  return true;
}

}  // namespace mezzo::gpu
