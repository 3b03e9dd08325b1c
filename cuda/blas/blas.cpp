#include "blas.h"

#include <array>
#include <cmath>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../tensor/core/half.h"
#include "../../tensor/core/numerics.h"
#include "../../tensor/core/tensor.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/memory/transfer.h"
#include "../../tensor/text/text.h"
#include "../kernels/host_lines.h"
#include "../library_fallback.h"
#include "../runtime/device.h"
#include "../stopwatch.h"
#include "calls.h"
#include "key.h"

namespace mezzo::gpu::blas {

namespace {

/** Everything that the choice of an algorithm depends on. */
using Key = std::array<std::int64_t, 22>;

Key key_of(const Gemm& g, Device device) {
  const std::int64_t flags = (g.a.transposed ? 1 : 0) | (g.b.transposed ? 2 : 0) |
                             (g.bias ? 4 : 0) | (g.beta != 0 ? 8 : 0) | (allow_tf32() ? 16 : 0) |
                             (g.epilogue.memory ? 32 : 0) |
                             static_cast<std::int64_t>(g.epilogue.kind) * 64;
  return {static_cast<std::int64_t>(g.dtype),
          static_cast<std::int64_t>(g.result),
          g.m,
          g.n,
          g.k,
          g.batch,
          g.a.stride,
          g.b.stride,
          g.c.stride,
          g.addend.stride,
          g.a.batch_stride,
          g.b.batch_stride,
          g.c.batch_stride,
          g.addend.batch_stride,
          alignment(g.a.data),
          alignment(g.b.data),
          alignment(g.c.data),
          alignment(g.addend.data),
          alignment(g.bias),
          alignment(g.epilogue.memory),
          flags,
          device.index};
}

/** Returns a tensor of n NaNs. */
Tensor nans(std::int64_t n, DType dtype, Device device) {
  const Tensor x = empty_tensor({n}, dtype, device);
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (is_floating(dtype_of<T>())) {
      const std::vector<T> values(static_cast<std::size_t>(n), static_cast<T>(NAN));
      upload(x, values.data(), values.size() * sizeof(T));
    }
  });
  return x;
}

bool is_nan(const char* at, DType dtype) {
  return visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!is_floating(dtype_of<T>())) {
      return false;
    } else {
      T x;
      std::memcpy(&x, at, sizeof x);
      return std::isnan(static_cast<double>(x));
    }
  });
}

/** Describes the product, for the log. */
std::string text_of(const Gemm& g) {
  constexpr const char* kEpilogues[] = {"", ", then relu", ", then gelu",
                                        ", times the gradient of gelu", " and sums of rows"};
  return str("the product of ", g.dtype, ' ', g.m, " x ", g.k, " and ", g.k, " x ", g.n,
             g.batch > 1 ? str(" in a batch of ", g.batch) : std::string(),
             g.bias ? " with a bias" : "", g.beta != 0 ? " with an addend" : "",
             kEpilogues[static_cast<std::size_t>(g.epilogue.kind)]);
}

/** The algorithms for a device's products, queried once per kind of problem. */
class DeviceState {
 public:
  explicit DeviceState(Device device) : device_(device) {}

  bool run(const Gemm& g, runtime::Stream stream, const ResultPairs& pairs) {
    const bool proves = activates(g.epilogue.kind);
    if (proves && !g.bias) return false;  // without a bias, NaN handling cannot be tested
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[key_of(g, device_)];
    // An algorithm that must be tested first cannot be chosen within a capture.
    if (proves && Capture::current() && !entry.algorithms.chosen()) return false;
    bool searches = search_products() && !Capture::current() && !entry.searched;
    if (searches) entry.algorithms.choose_again();
    return entry.algorithms.run(
        {"cuBLASLt", proof_tolerance(g.dtype)},
        [&](int first) {
          std::optional<Choice> found;
          if (std::exchange(searches, false)) {
            entry.searched = true;
            found = fastest(g, stream);
          }
          return found ? found : next(g, first, stream);
        },
        [&](const Choice& choice) { launch(g, choice.algorithm, stream); },
        [&] { return text_of(g); }, pairs);
  }

 private:
  static constexpr int kCandidates = 16;

  /** An algorithm and its index in the library's list; -1: found by search, so that a fallback
   *  begins with the list's first. */
  struct Choice {
    Algorithm algorithm;
    int index = 0;
  };
  struct Entry {
    LibraryAlgorithms<Choice> algorithms;
    bool searched = false;
  };

  /** Returns the first usable algorithm at index `first` or later. */
  std::optional<Choice> next(const Gemm& g, int first, runtime::Stream stream) {
    for (int i = first; i < kCandidates; ++i) {
      const std::vector<Algorithm> all = algorithms(g, device_, i + 1);
      if (static_cast<int>(all.size()) <= i) break;
      if (may_use(g, all.back(), stream)) return Choice{all.back(), i};
    }
    return std::nullopt;
  }

  /** Times each candidate on the operands and returns the fastest. Results go to separate memory,
   *  because c may also be the addend. Candidates that fail are skipped. */
  std::optional<Choice> fastest(const Gemm& g, runtime::Stream stream) {
    const std::int64_t elements = (g.batch - 1) * g.c.batch_stride + (g.m - 1) * g.c.stride + g.n;
    const Tensor results = empty_tensor({elements}, g.result, device_);
    Gemm trial = g;
    trial.c.data = results.raw_data();
    const auto best = gpu::fastest(
        algorithms(g, device_, kCandidates), "cublasLtMatmul", stream,
        [&](const Algorithm& algorithm, int times) { launch(trial, algorithm, stream, times); });
    if (!best || !may_use(g, *best, stream)) return std::nullopt;
    return Choice{*best, -1};
  }

  /** Returns true if the fused activation propagates NaN, as Mezzo's does: one that does not would
   *  hide an overflow from the loss scaler. The library does not document it, so the algorithm is
   *  run with a bias of NaN, and all results must be NaN. */
  bool may_use(const Gemm& g, const Algorithm& algorithm, runtime::Stream stream) {
    if (!activates(g.epilogue.kind)) return true;
    const Tensor bias = nans(g.n, g.result, device_);
    Gemm probe = g;
    probe.bias = bias.raw_data();
    launch(probe, algorithm, stream);
    const std::size_t bytes = item_size(g.result), row = static_cast<std::size_t>(g.n) * bytes;
    std::vector<char> results(row);
    for (const std::int64_t i : {std::int64_t{0}, g.m / 2, g.m - 1}) {
      const auto* from =
          static_cast<const char*>(g.c.data) + static_cast<std::size_t>(i * g.c.stride) * bytes;
      runtime::copy(results.data(), from, row, stream);
      runtime::synchronize(stream);
      for (std::size_t at = 0; at < row; at += bytes)
        if (!is_nan(&results[at], g.result)) return false;
    }
    return true;
  }

  /** Returns the algorithm's workspace, undefined where it needs none. A captured step gets a
   *  workspace of its own, because it may be replayed in another stream than that of its
   *  capture. */
  Tensor room_for(const Algorithm& algorithm, runtime::Stream stream) {
    if (algorithm.workspace == 0) return {};
    if (Capture::current())
      return workspace(static_cast<std::int64_t>(algorithm.workspace), device_);
    Tensor& memory = workspaces_[stream];
    if (!memory.defined()) memory = workspace(static_cast<std::int64_t>(kWorkspaceBytes), device_);
    return memory;
  }

  void launch(const Gemm& g, const Algorithm& algorithm, runtime::Stream stream, int times = 1) {
    multiply(g, algorithm, room_for(algorithm, stream), device_, stream, times);
  }

  Device device_;
  std::mutex mutex_;
  std::unordered_map<Key, Entry, KeyHash> entries_;
  // one per stream, whose products run in order
  std::unordered_map<runtime::Stream, Tensor> workspaces_;
};

}  // namespace

bool gemm(const Gemm& gemm, Device device, runtime::Stream stream, const ResultPairs& pairs) {
  return takes(gemm) && per_device<DeviceState>(device, device).run(gemm, stream, pairs);
}

}  // namespace mezzo::gpu::blas
