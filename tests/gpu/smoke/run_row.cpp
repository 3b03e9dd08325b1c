#include "run_row.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "../../../cuda/own_kernels.h"

namespace smoke {

namespace {

constexpr std::uint64_t kSeed = 7;  // for operands and for random numbers of a row

Tensors moved(const Tensors& operands, Device device) {
  Tensors there;
  for (const Tensor& x : operands) there.push_back(x.to(device));
  return there;
}

Tensors widened(const Tensors& operands) {
  Tensors wide;
  for (const Tensor& x : operands) wide.push_back(is_floating(x.dtype()) ? x.to(f64) : x);
  return wide;
}

/** Returns the results of a call on the CPU. */
Tensors results(const Case& c, const Tensors& operands) {
  manual_seed(kSeed);
  return moved(c.prepare(operands)(), cpu);
}

/** Returns the largest difference of two results relative to the largest expected element; infinite
 *  where shapes or the positions of non-finite elements differ. */
double error_of(const Tensor& got, const Tensor& expected) {
  if (!(got.shape() == expected.shape())) return INFINITY;
  const std::vector<double> a = got.to_vector<double>(), b = expected.to_vector<double>();
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) != std::isfinite(b[i])) return INFINITY;
    if (!std::isfinite(b[i])) continue;
    largest = std::max(largest, std::fabs(b[i]));
    apart = std::max(apart, std::fabs(a[i] - b[i]));
  }
  return apart == 0 ? 0 : largest == 0 ? INFINITY : apart / largest;
}

double error_of(const Tensors& got, const Tensors& expected) {
  if (got.size() != expected.size()) return INFINITY;
  double error = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    error = std::max(error, error_of(got[i], expected[i]));
  return error;
}

// ---- time ---------------------------------------------------------------------------------------

template <class F> double seconds(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/** Returns the device's seconds per call. Runs so many calls that the final synchronisation is
 *  negligible. */
double seconds_of(const Step& step, Device device, bool tiny) {
  const gpu::Range range("timed");  // what tests/gpu.sh profiles
  const auto calls = [&](int count) {
    return seconds([&] {
      for (int i = 0; i < count; ++i) step();
      gpu::synchronize(device);
    });
  };
  if (tiny) return calls(1);
  constexpr double kRound = 0.01;
  calls(2);
  const int count = static_cast<int>(std::clamp(kRound / calls(1), 1.0, 1000.0));
  return std::min({calls(count), calls(count), calls(count)}) / count;
}

std::string rate_text(const Case& c, double seconds) {
  char text[48] = "";
  if (c.flops > 0)
    std::snprintf(text, sizeof text, "%10.3f TFLOP/s", c.flops / seconds * 1e-12);
  else if (c.bytes > 0)
    std::snprintf(text, sizeof text, "%10.3f GB/s", c.bytes / seconds * 1e-9);
  return text;
}

}  // namespace

Verdict run_row(const Row& row, Device device, bool tiny) {
  using Size = Maker::Size;
  manual_seed(kSeed);
  const Case check = row.make({tiny ? Size::tiny : Size::check, cpu});
  const bool close = row.expected == Expected::close;
  const Tensors expected = results(check, close ? widened(check.operands) : check.operands);
  const Tensors there = moved(check.operands, device);
  const Tensors got = results(check, there);
  const double error = error_of(got, expected);
  const bool varies = !row.may_vary && error_of(results(check, there), got) != 0;
  double own_error = 0, own_to_library = 0;
  if (row.by_library) {
    const gpu::OwnKernels scope;
    const Tensors own = results(check, there);
    own_error = error_of(own, expected);
    own_to_library = error_of(got, own);
  }
  manual_seed(kSeed);
  const Case timed = tiny ? Case{} : row.make({Size::timed, device});
  const double time =
      seconds_of(tiny ? check.prepare(there) : timed.prepare(timed.operands), device, tiny);
  char text[160], own[24] = "-";
  if (row.by_library) std::snprintf(own, sizeof own, "%.1e", own_to_library);
  std::snprintf(text, sizeof text, "CPU %.1e  own %-7s  %10.1f us  %s", error, own, 1e6 * time,
                rate_text(tiny ? check : timed, time).c_str());
  const bool is_near = error <= row.tolerance && own_error <= row.tolerance;
  std::string verdict = text;
  if (varies) verdict += ": not the same bits when computed again";
  if (!is_near) {
    std::snprintf(text, sizeof text,
                  ": at most %.1e from the CPU; our own kernels are %.1e from it", row.tolerance,
                  own_error);
    verdict += text;
  }
  return {is_near && !varies, verdict};
}

}  // namespace smoke
