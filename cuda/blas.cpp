#include "blas.h"

#include <array>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "../tensor/capture.h"
#include "../tensor/numerics.h"
#include "../tensor/tensor.h"
#include "../tensor/text.h"
#include "../tensor/transfer.h"
#include "blas_problem.h"
#include "key.h"
#include "lines.h"
#include "per_device.h"

namespace mezzo::gpu::blas {

namespace {

// ---- algorithms, asked for once per kind of problem ------------------------------------------------------------------------

/** Bytes that an algorithm may use beside its operands; NVIDIA's advice for Hopper. */
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

/** What the choice of an algorithm depends on. */
using Key = std::array<std::int64_t, 22>;

Key key_of(const Gemm& g, Device device) {
  const std::int64_t flags = (g.a.transposed ? 1 : 0) | (g.b.transposed ? 2 : 0) | (g.bias ? 4 : 0) |
                             (g.beta != 0 ? 8 : 0) | (allow_tf32() ? 16 : 0) | (g.epilogue.memory ? 32 : 0) |
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

struct Choice {
  cublasLtMatmulAlgo_t algorithm;
  std::size_t workspace = 0;
  bool found = false;
  bool searched = false;   // the fastest of several
  bool keeps_nan = false;  // proved for the activation that it does on the way
};

/** What cuBLASLt has for a problem, what it takes for the fastest first. */
std::vector<Choice> candidates(const Library& lt, cublasLtHandle_t handle, const Problem& p, const Gemm& g,
                               int most) {
  cublasLtMatmulPreference_t preference = nullptr;
  check(lt.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(alignment(g.b.data)));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(alignment(g.a.data)));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      static_cast<std::uint32_t>(alignment(g.beta == 0 ? g.c.data : g.addend.data)));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(alignment(g.c.data)));
  // Sums of parts in an order that varies are the only thing that would make a product differ from run to run.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status = lt.cublasLtMatmulAlgoGetHeuristic(
      handle, p.description, p.b, p.a, p.addend, p.c, preference, most, results.data(), &count);
  lt.cublasLtMatmulPreferenceDestroy(preference);
  std::vector<Choice> choices;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return choices;
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  for (int i = 0; i < count; ++i)
    if (const auto& r = results[static_cast<std::size_t>(i)]; r.state == CUBLAS_STATUS_SUCCESS)
      choices.push_back({.algorithm = r.algo, .workspace = r.workspaceSize, .found = true});
  return choices;
}

/** A tensor of n NaNs. */
Tensor nans(std::int64_t n, DType dtype, Device device) {
  const Tensor x = empty_tensor({n}, dtype, device);
  const std::size_t bytes = item_size(dtype);
  const std::uint32_t bits = dtype == DType::f32 ? 0x7FC00000u : dtype == DType::f16 ? 0x7E00u : 0x7FC0u;
  std::vector<char> values(static_cast<std::size_t>(n) * bytes);
  for (std::size_t i = 0; i < values.size(); i += bytes) std::memcpy(&values[i], &bits, bytes);
  upload(x, values.data(), values.size());
  return x;
}

bool is_nan(const char* at, DType dtype) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, item_size(dtype));
  if (dtype == DType::f32) return (bits & 0x7FFFFFFFu) > 0x7F800000u;
  return (bits & 0x7FFFu) > (dtype == DType::f16 ? 0x7C00u : 0x7F80u);
}

/** Handle and algorithms of a device. */
class DeviceState {
 public:
  DeviceState(const Library& lt, Device device) : lt_(lt), device_(device) {
    check(lt.cublasLtCreate(&handle_), "cublasLtCreate");
  }

  bool run(const Gemm& g, runtime::Stream stream) {
    const bool proves = activates(g.epilogue.kind);
    if (proves && !g.bias) return false;  // then what an algorithm does with NaN cannot be tried out
    const std::lock_guard lock(mutex_);
    const Problem problem(lt_, g);
    const Choice& choice = choice_for(g, problem, stream);
    if (!choice.found || (proves && !choice.keeps_nan)) return false;
    launch(problem, g, choice, stream);
    return true;
  }

 private:
  static constexpr int kCandidates = 16, kTrials = 5;

  /** What has to be tried out first waits for a call outside of a captured step. */
  const Choice& choice_for(const Gemm& g, const Problem& problem, runtime::Stream stream) {
    const auto [entry, fresh] = choices_.try_emplace(key_of(g, device_));
    Choice& choice = entry->second;
    if (fresh)
      if (const auto all = candidates(lt_, handle_, problem, g, 1); !all.empty()) choice = all[0];
    if (!choice.found || Capture::current()) return choice;
    if (search_products() && !choice.searched) choice = fastest(g, problem, stream);
    if (activates(g.epilogue.kind) && !choice.keeps_nan) {
      choice.keeps_nan = keeps_nan(g, choice, stream);
      choice.found = choice.keeps_nan;
    }
    return choice;
  }

  /** Two timed events. */
  struct Stopwatch {
    Stopwatch() = default;
    ~Stopwatch() {
      runtime::destroy_event(end);
      runtime::destroy_event(begin);
    }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

    const runtime::Event begin = runtime::create_event(true), end = runtime::create_event(true);
  };

  /** Runs each candidate on the operands, into memory of its own: the result may be an addend too. One that the library refuses to run is passed over;
   *  without any other the choice is of none. */
  Choice fastest(const Gemm& g, const Problem& problem, runtime::Stream stream) {
    const std::int64_t elements = (g.batch - 1) * g.c.batch_stride + (g.m - 1) * g.c.stride + g.n;
    const Tensor room = empty_tensor({elements}, g.result, device_);
    Gemm trial = g;
    trial.c.data = room.raw_data();
    const Stopwatch watch;
    Choice best;
    float least = 0;
    for (Choice& choice : candidates(lt_, handle_, problem, g, kCandidates)) {
      if (start(problem, trial, choice, stream) != CUBLAS_STATUS_SUCCESS) continue;
      runtime::record(watch.begin, stream);
      for (int i = 0; i < kTrials; ++i) launch(problem, trial, choice, stream);
      runtime::record(watch.end, stream);
      runtime::synchronize_event(watch.end);
      const float time = runtime::elapsed(watch.begin, watch.end);
      if (best.found && time >= least) continue;
      best = choice;
      least = time;
    }
    best.searched = true;
    return best;
  }

  /** Whether an activation done on the way lets NaN through, as ours does: one that does not would hide an overflow from the loss scaler. The library does not
   *  say, so the algorithm is run with a bias of NaN, all of whose results must be NaN. */
  bool keeps_nan(const Gemm& g, const Choice& choice, runtime::Stream stream) {
    const Tensor bias = nans(g.n, g.result, device_);
    Gemm probe = g;
    probe.bias = bias.raw_data();
    launch(Problem(lt_, probe), probe, choice, stream);
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

  /** Undefined where none is needed. A captured step has its own: it may be replayed in another stream than that of its capture. */
  Tensor room_for(const Choice& choice, runtime::Stream stream) {
    if (choice.workspace == 0) return {};
    if (Capture::current()) return workspace(static_cast<std::int64_t>(choice.workspace), device_);
    Tensor& memory = workspaces_[stream];
    if (!memory.defined()) memory = workspace(static_cast<std::int64_t>(kWorkspaceBytes), device_);
    return memory;
  }

  void launch(const Problem& p, const Gemm& g, const Choice& choice, runtime::Stream stream) {
    check(start(p, g, choice, stream), "cublasLtMatmul");
  }

  cublasStatus_t start(const Problem& p, const Gemm& g, const Choice& choice, runtime::Stream stream) {
    const float alpha32 = static_cast<float>(g.alpha), beta32 = static_cast<float>(g.beta);
    const bool wide = g.dtype == DType::f64;
    const void* alpha = wide ? static_cast<const void*>(&g.alpha) : &alpha32;
    const void* beta = wide ? static_cast<const void*>(&g.beta) : &beta32;
    void* result = const_cast<void*>(g.c.data);
    const Tensor room = room_for(choice, stream);
    return lt_.cublasLtMatmul(handle_, p.description, alpha, g.b.data, p.b, g.a.data, p.a, beta,
                              g.beta == 0 ? result : g.addend.data, p.addend, result, p.c, &choice.algorithm,
                              room.defined() ? room.raw_data() : nullptr,
                              room.defined() ? static_cast<std::size_t>(room.numel()) : 0,
                              static_cast<cudaStream_t>(stream));
  }

  const Library& lt_;
  Device device_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<Key, Choice, KeyHash> choices_;
  std::unordered_map<runtime::Stream, Tensor> workspaces_;  // products of one stream run in order
};

}  // namespace

bool gemm(const Gemm& gemm, Device device, runtime::Stream stream) {
  const Library& lt = Library::get();
  return lt.usable() && per_device<DeviceState>(device, lt, device).run(gemm, stream);
}

std::string description() {
  const Library& lt = Library::get();
  return lt.usable() ? str("cuBLASLt ", static_cast<std::int64_t>(lt.cublasLtGetVersion())) : lt.missing();
}

}  // namespace mezzo::gpu::blas
