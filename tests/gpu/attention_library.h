// Helpers of the tests of attention by cuDNN: which calls it serves, and their errors.
#pragma once

#include <cmath>
#include <string>

#include "../emulator/counters.h"
#include "../emulator/dnn.h"
#include "../support/catch.h"
#include "attention.h"

namespace attention {

/** Returns what a call and its gradients run: "library", or "own" for our kernels. Runs that check
 *  the library happen before and are not included. */
inline std::string served_by(const Call& call, DType dtype = f16) {
  attention_results(call, dtype, kDevice);
  const emulator::LaunchLog log;
  attention_results(call, dtype, kDevice);
  std::string all;
  for (const std::string& name : log.names) {
    if (name.rfind("cuDNN attention", 0) == 0) all += "library ";
    if (name.rfind("attention_tensor", 0) == 0 || name.rfind("attention_quads", 0) == 0 ||
        name.rfind("attention.", 0) == 0 || name.rfind("attention_backward.", 0) == 0)
      all += "own ";
  }
  return all;
}
inline const std::string kBoth = "library library ", kForward = "library own ";
/** Our kernels include one that computes offsets. */
inline bool is_own(const std::string& served) {
  return served.find("library") == std::string::npos && !served.empty();
}

/** Checks that results and gradients agree with f64 within 16-bit precision. */
inline void check_numbers(const Call& call, DType dtype) {
  const std::vector<Tensor> exact = attention_results(call, f64, cpu),
                            got = attention_results(call, dtype, kDevice);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    INFO(name(dtype) << " result " << i);
    CHECK(error(got[i], exact[i], dtype) <= 2);
  }
}

/** Returns the result and the gradients of q, k and v in f64, but rounded where cuDNN rounds: the
 *  probabilities, after dropout, and the gradients of the scores. For keys that no heads share. */
inline std::vector<Tensor> rounded_results(const Call& call, DType dtype) {
  const auto low = [&](const Tensor& x) { return x.to(dtype).to(f64); };
  // The values of the keys are unit vectors, so that the results are probabilities.
  const auto probabilities = [&](double dropout_p) {
    AttentionOptions options = call.options;
    options.mask = call.mask;
    options.dropout_p = dropout_p;
    manual_seed(5);
    return scaled_dot_product_attention(call.q, call.k, eye(call.k.size(-2), {.dtype = f64}),
                                        options);
  };
  const double scale = call.options.scale.value_or(1 / std::sqrt(call.q.size(-1)));
  const Tensor p = probabilities(0), kept = probabilities(call.options.dropout_p),
               y = matmul(low(kept), call.v), offsets = sum(call.g * low(y), -1, {.keepdim = true});
  const Tensor slopes =
      low(scale * (kept * matmul(call.g, call.v.transpose(-2, -1)) - p * offsets));
  return {y, matmul(slopes, call.k), matmul(slopes.transpose(-2, -1), call.q),
          matmul(low(kept).transpose(-2, -1), call.g)};
}

/** Checks that results and gradients of a call that cuDNN computes, or the result alone, have no
 *  other roundings than rounded_results() and one of their own. */
inline void check_roundings(const Call& call, DType dtype, bool gradients = true) {
  const std::vector<Tensor> expected = rounded_results(call, dtype),
                            got = attention_results(call, dtype, kDevice);
  for (std::size_t i = 0; i < (gradients ? expected.size() : 1); ++i) {
    INFO(name(dtype) << " result " << i << " with roundings");
    CHECK(error(got[i], expected[i], dtype) <= 1);
  }
}

/** Sets the limit of arrays of scores until the end of the scope. */
struct ScoreBytes {
  explicit ScoreBytes(std::int64_t bytes) { emulator::set_most_score_bytes(bytes); }
  ~ScoreBytes() { emulator::set_most_score_bytes(std::int64_t{256} << 20); }
  ScoreBytes(const ScoreBytes&) = delete;
  ScoreBytes& operator=(const ScoreBytes&) = delete;
};

}  // namespace attention
