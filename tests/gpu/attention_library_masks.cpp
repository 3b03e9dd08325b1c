// Attention by cuDNN with masks, dropout and one query: results agree with the CPU and with Mezzo's
// own kernels.
#include <mezzo.h>

#include <algorithm>

#include "attention_library.h"

using namespace attention;

namespace {

/** Returns a mask that hides key 3, and all keys from query 1 where queries differ. */
Tensor hiding(const Shape& shape) {
  Tensor mask = ones(shape, {.dtype = boolean});
  mask.select(-1, 3).fill_(false);
  if (mask.dim() > 1 && mask.size(-2) > 1) mask.select(-2, 1).fill_(false);
  return mask;
}

Call masked_call(const Shape& batch, const Sizes& s, const Tensor& mask, double dropout_p,
                 bool is_causal = false) {
  Call call = drawn_call(batch, s);
  call.mask = mask;
  call.options = {.dropout_p = dropout_p, .is_causal = is_causal};
  return call;
}

/** Checks what computes a call and its gradients, and that cuDNN and Mezzo's own kernels both agree
 *  with f64. Dropout multiplies cuDNN's roundings by up to 1 / (1 - p), so that the same roundings
 *  are expected. */
void check_paths(const Call& call, DType dtype, const std::string& served = kBoth) {
  CHECK(served_by(call, dtype).substr(0, served.size()) == served);
  if (call.options.dropout_p > 0)
    check_roundings(call, dtype, served == kBoth);
  else
    check_numbers(call, dtype);
  const OwnKernels scope;
  CHECK(is_own(served_by(call, dtype)));
  check_numbers(call, dtype);
}

}  // namespace

TEST_CASE("cuDNN computes attention with masks that broadcast, dropout, or both",
          "[gpu][attention][dnn]") {
  manual_seed(31);
  const Sizes s{9, 13, 16, 8};
  for (const DType dtype : {f16, bf16})
    for (const double dropout_p : {0.0, 0.25})
      for (const Shape& shape :
           {Shape{13}, Shape{9, 13}, Shape{2, 1, 1, 13}, Shape{3, 1, 13}, Shape{2, 1, 9, 13},
            Shape{1, 3, 9, 13}, Shape{2, 3, 9, 13}, Shape{2, 3, 1, 13}}) {
        INFO(name(dtype) << " " << dropout_p << " " << str(shape));
        check_paths(masked_call({2, 3}, s, hiding(shape), dropout_p), dtype);
      }
  for (const std::int64_t keys : {12, 13, 16})
    for (const bool is_causal : {false, true}) {
      INFO(keys << " " << is_causal);
      check_paths(masked_call({2, 3}, {9, keys, 16, 8}, {}, 0.25, is_causal), bf16);
    }
}

TEST_CASE("cuDNN computes attention with masks of numbers, of any strides",
          "[gpu][attention][dnn]") {
  manual_seed(32);
  const Sizes s{9, 13, 16, 8};
  Tensor hidden = drawn({2, 1, 9, 13});
  hidden.select(-1, 5).fill_(-INFINITY);
  hidden.select(-2, 4).fill_(-INFINITY);
  Tensor lowest = drawn({9, 13});
  lowest.select(-2, 2).fill_(-65504.0);  // equal for all keys
  for (const Tensor& mask : {hidden, lowest, drawn({13, 9}).t(), drawn({3, 1, 13})}) {
    Call call = masked_call({2, 3}, s, mask, 0);
    for (const DType dtype : {f16, bf16}) {
      INFO(str(mask.shape()));
      check_paths(call, dtype, kForward);  // Mezzo's own kernels compute the gradient of a mask
    }
    call.wants_mask_gradient = false;
    check_paths(call, bf16);
    // Near -65504 scores are rounded to multiples of 2^-8, which f16 shows.
    if (amin(mask).item<double>() != -65504) check_paths(call, f16);
  }
}

TEST_CASE("rows without visible keys, and the lowest numbers of masks, agree on both paths",
          "[gpu][attention][dnn]") {
  manual_seed(35);
  const Sizes s{9, 13, 16, 8};
  constexpr double kLowestOfBf16 = -0x1.FEp127;
  for (const DType dtype : {f16, bf16})
    for (const double low : {double{-INFINITY}, kLowestOfBf16})
      for (const double noise : {0.0, 1.0}) {
        if (dtype == f16 && low == kLowestOfBf16) continue;  // -inf in f16
        Tensor mask = drawn({2, 1, 9, 13}) * noise;
        mask.select(-1, 5).fill_(low);                   // a key
        mask.select(-2, 4).fill_(low);                   // all keys of a query
        mask.select(-2, 6).slice(-1, 0, 12).fill_(low);  // all keys but the last
        for (const bool wants_gradient : {false, true}) {
          INFO(name(dtype) << " " << low << " " << noise << " " << wants_gradient);
          Call call = masked_call({2, 3}, s, mask, 0);
          call.wants_mask_gradient = wants_gradient;
          check_paths(call, dtype, wants_gradient ? kForward : kBoth);
          const std::vector<Tensor> got = attention_results(call, dtype, kDevice);
          for (const Tensor& x : got) CHECK(all(isfinite(x)).item<bool>());
          for (const std::size_t result : {0, 1}) {  // y and the gradient of q
            const bool is_zero = amax(abs(got[result].select(-2, 4))).item<double>() == 0;
            CHECK(is_zero == (low == -INFINITY));
          }
        }
      }
}

TEST_CASE("nan in a key or value that a mask hides, by cuDNN", "[gpu][attention][dnn]") {
  manual_seed(36);
  CHECK(served_by(masked_call({2, 3}, {9, 13, 16, 8}, hiding({13}), 0)) == kBoth);
  Tensor added = zeros({13}, {.dtype = f64});
  added.select(0, 3).fill_(-INFINITY);
  for (const bool in_key : {false, true})
    for (const Tensor& mask : {hiding({13}), added}) {
      INFO(in_key << " " << name(mask.dtype()));
      Call call = masked_call({2, 3}, {9, 13, 16, 8}, mask, 0);
      call.wants_mask_gradient = false;
      (in_key ? call.k : call.v).select(0, 1).select(0, 2).select(0, 3).fill_(NAN);
      CHECK(served_by(call) == kBoth);
      const Tensor finite = isfinite(attention_results(call, f16, kDevice)[0]).to(f64);
      CHECK(sum(finite.select(0, 1).select(0, 2)).item<double>() == 0);  // of the head
      CHECK(sum(finite).item<double>() == 5 * 9 * 8);
      // The CPU and Mezzo's own kernels ignore a key that a mask of bool hides.
      const Tensor here = isfinite(attention_results(call, f16, cpu)[0]).to(f64);
      const OwnKernels own;
      const Tensor there = isfinite(attention_results(call, f16, kDevice)[0]).to(f64);
      CHECK(here.to_vector<double>() == there.to_vector<double>());
      const bool is_ignored = in_key && mask.dtype() == boolean;
      CHECK((sum(here).item<double>() == 6 * 9 * 8) == is_ignored);
      if (!is_ignored) CHECK(here.to_vector<double>() == finite.to_vector<double>());
    }
}

TEST_CASE("cuDNN with masks: shared keys and one query", "[gpu][attention][dnn]") {
  manual_seed(33);
  Call shared = masked_call({2, 2, 3}, {9, 11, 16, 8}, hiding({2, 2, 3, 9, 11}), 0.25);
  shared.k = drawn({2, 2, 1, 11, 16}), shared.v = drawn({2, 2, 1, 11, 8});
  check_paths(shared, f16, kForward);
  // Gradients of one query are not left to cuDNN.
  check_paths(masked_call({2, 3}, {1, 12, 16, 8}, {}, 0), f16, kForward);
  check_paths(masked_call({2, 3}, {1, 12, 16, 8}, hiding({2, 1, 1, 12}), 0), bf16, kForward);
  for (const std::int64_t keys : {12, 13, 14}) {  // more lengths than one query gets plans for
    const Call one = masked_call({2, 3}, {1, keys, 40, 16}, {}, 0.25);
    const bool is_served = keys < 14;
    CHECK((served_by(one).rfind(kForward, 0) == 0) == is_served);
    if (is_served)
      check_roundings(one, f16, false);
    else
      check_numbers(one, f16);
  }
}

namespace {

/** Returns a mask that hides key i + 3, and from query 1 all keys, in entry i of a batch. */
Tensor hiding_by_entry(std::int64_t entries, std::int64_t queries, std::int64_t keys) {
  Tensor mask = ones({entries, 1, queries, keys}, {.dtype = boolean});
  for (std::int64_t i = 0; i < entries; ++i) {
    mask.select(0, i).select(-1, i + 3).fill_(false);
    mask.select(0, i).select(-2, 1).fill_(false);
  }
  return mask;
}

}  // namespace

TEST_CASE("cuDNN with masks computes chunks of the batch with the bits of the whole",
          "[gpu][attention][dnn]") {
  manual_seed(37);
  constexpr std::int64_t kKept = 2 * 3 * 12 * 16;  // bytes of an entry's mask of dropout
  for (const Tensor& mask : {hiding_by_entry(5, 12, 12), hiding({12, 12})}) {
    const Call call = masked_call({5, 3}, {12, 12, 16, 8}, mask, 0.25);
    check_paths(call, f16);
    const std::vector<Tensor> whole = attention_results(call, f16, kDevice);
    for (const std::size_t entries : {2, 1}) {  // chunks of 2, 2 and 1, or of 1
      INFO(str(mask.shape()) << " " << entries);
      const ScoreBytes limit(static_cast<std::int64_t>(entries) * kKept);
      CHECK(served_by(call).size() == (entries == 2 ? 3 : 5) * kBoth.size());
      const std::vector<Tensor> parts = attention_results(call, f16, kDevice);
      for (std::size_t i = 0; i < whole.size(); ++i)
        CHECK(parts[i].to_vector<double>() == whole[i].to_vector<double>());
    }
  }
}

TEST_CASE("the bias of a mask beyond the limit is computed in chunks, or by our own kernels",
          "[gpu][attention][dnn]") {
  manual_seed(38);
  constexpr std::int64_t kBias = 4 * 3 * 12 * 16;  // bytes of an entry
  const Sizes s{12, 12, 16, 8};
  const Call own = masked_call({4, 3}, s, rand({4, 3, 12, 12}) > 0.3, 0),
             shared = masked_call({4, 3}, s, rand({3, 12, 12}) > 0.3, 0);
  const std::vector<Tensor> whole = attention_results(own, f16, kDevice);
  check_paths(own, f16);
  {
    const ScoreBytes limit(2 * kBias);
    CHECK(served_by(own) == kBoth + kBoth);  // two chunks each
    const std::vector<Tensor> parts = attention_results(own, f16, kDevice);
    for (std::size_t i = 0; i < whole.size(); ++i)
      CHECK(parts[i].to_vector<double>() == whole[i].to_vector<double>());
    CHECK(served_by(shared) == kBoth);
  }
  const ScoreBytes limit(kBias - 1);
  for (const Call& call : {own, shared}) {
    CHECK(is_own(served_by(call)));
    check_numbers(call, f16);
  }
}

TEST_CASE("a captured step by cuDNN draws a new mask of dropout at each replay",
          "[gpu][attention][dnn][graph]") {
  const std::vector<Tensor> in{drawn({2, 18, 16}).to(f16).to(kDevice),
                               drawn({2, 19, 16}).to(f16).to(kDevice),
                               hiding({2, 1, 19}).to(kDevice)};
  const auto step = [](const std::vector<Tensor>& x) -> std::vector<Tensor> {
    const Tensor q = x[0].detach().requires_grad_();
    const Tensor y = scaled_dot_product_attention(q, x[1], x[1], {.mask = x[2], .dropout_p = 0.25});
    return {y.detach(), grad(TensorList(sum(y)), TensorList(q))[0]};
  };
  manual_seed(34);
  std::vector<std::vector<double>> eager;
  for (int i = 0; i < 4; ++i)
    for (const Tensor& x : step(in)) eager.push_back(x.to_vector<double>());
  CHECK(eager[0] != eager[2]);
  manual_seed(34);
  gpu::CapturedStep captured(step, {kDevice});
  for (std::size_t i = 0; i < 4; ++i) {
    const emulator::LaunchLog log;
    const std::vector<Tensor> now = captured(in);
    for (std::size_t r = 0; r < 2; ++r) CHECK(now[r].to_vector<double>() == eager[2 * i + r]);
    CHECK(std::count(log.names.begin(), log.names.end(), "cuDNN attention") == 2);
  }
}
