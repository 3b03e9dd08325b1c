// Helpers of the tests of attention by cuDNN: which calls it serves, and their errors.
#pragma once

#include <string>

#include "../emulator/counters.h"
#include "../emulator/dnn.h"
#include "../support/catch.h"
#include "attention.h"

namespace attention {

/** Returns what a call and its gradients run: "library", or "own" for our kernels. Runs that verify
 *  the library happen before and are not included. */
inline std::string served_by(const Call& call, DType dtype = f16) {
  results(call, dtype, kDevice);
  const emulator::LaunchLog log;
  results(call, dtype, kDevice);
  std::string all;
  for (const std::string& name : log.names) {
    if (name.rfind("cuDNN attention", 0) == 0) all += "library ";
    if (name.rfind("attention_tensor", 0) == 0 || name.rfind("attention.", 0) == 0 ||
        name.rfind("attention_backward.", 0) == 0)
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
  const std::vector<Tensor> exact = results(call, f64, cpu), got = results(call, dtype, kDevice);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    INFO(name(dtype) << " result " << i);
    CHECK(error(got[i], exact[i], dtype) <= 2);
  }
}

/** Sets the limit of the gradients of scores until the end of the scope. */
struct ScoreBytes {
  explicit ScoreBytes(std::int64_t bytes) { emulator::set_most_score_gradients(bytes); }
  ~ScoreBytes() { emulator::set_most_score_gradients(std::int64_t{256} << 20); }
  ScoreBytes(const ScoreBytes&) = delete;
  ScoreBytes& operator=(const ScoreBytes&) = delete;
};

}  // namespace attention
