#include "calls.h"

#include <cstring>

#include "../../tensor/text/text.h"
#include "../runtime/device.h"
#include "key.h"
#include "problem.h"

namespace mezzo::gpu::blas {

namespace {

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(Algorithm::words));

struct Handle {
  Handle() { check(Library::get().cublasLtCreate(&handle), "cublasLtCreate"); }
  cublasLtHandle_t handle = nullptr;
};

/** Constraints on the algorithms of a product; destroyed with its scope. */
class Preference {
 public:
  Preference(const Library& lt, const Gemm& g) : lt_(lt) {
    check(lt.cublasLtMatmulPreferenceCreate(&handle_), "cublasLtMatmulPreferenceCreate");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    set_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, g.b.data);
    set_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, g.a.data);
    set_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                  g.beta == 0 ? g.c.data : g.addend.data);
    set_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, g.c.data);
    // Only reduction schemes with a fixed order: others make results vary from run to run.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE |
                                   CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  }
  ~Preference() { lt_.cublasLtMatmulPreferenceDestroy(handle_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  operator cublasLtMatmulPreference_t() const { return handle_; }

 private:
  template <class T> void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    check(lt_.cublasLtMatmulPreferenceSetAttribute(handle_, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  }
  void set_alignment(cublasLtMatmulPreferenceAttributes_t attribute, const void* data) {
    set(attribute, static_cast<std::uint32_t>(alignment(data)));
  }

  const Library& lt_;
  cublasLtMatmulPreference_t handle_ = nullptr;
};

}  // namespace

bool takes(const Gemm&) { return Library::get().usable(); }

std::vector<Algorithm> algorithms(const Gemm& g, Device device, int most) {
  const Library& lt = Library::get();
  const Problem p(lt, g);
  const Preference preference(lt, g);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status =
      lt.cublasLtMatmulAlgoGetHeuristic(per_device<Handle>(device).handle, p.description, p.b, p.a,
                                        p.addend, p.c, preference, most, results.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<Algorithm> found;
  for (int i = 0; i < count; ++i) {
    const auto& r = results[static_cast<std::size_t>(i)];
    if (r.state != CUBLAS_STATUS_SUCCESS) continue;
    found.push_back({.workspace = r.workspaceSize});
    std::memcpy(found.back().words.data(), &r.algo, sizeof r.algo);
  }
  return found;
}

void multiply(const Gemm& g, const Algorithm& algorithm, const Tensor& room, Device device,
              runtime::Stream stream, int times) {
  const Library& lt = Library::get();
  const Problem p(lt, g);
  cublasLtMatmulAlgo_t own;
  std::memcpy(&own, algorithm.words.data(), sizeof own);
  const float alpha32 = static_cast<float>(g.alpha), beta32 = static_cast<float>(g.beta);
  const bool wide = g.dtype == DType::f64;
  const void* alpha = wide ? static_cast<const void*>(&g.alpha) : &alpha32;
  const void* beta = wide ? static_cast<const void*>(&g.beta) : &beta32;
  void* result = const_cast<void*>(g.c.data);
  for (int i = 0; i < times; ++i)
    check(lt.cublasLtMatmul(per_device<Handle>(device).handle, p.description, alpha, g.b.data, p.b,
                            g.a.data, p.a, beta, g.beta == 0 ? result : g.addend.data, p.addend,
                            result, p.c, &own, room.defined() ? room.raw_data() : nullptr,
                            room.defined() ? static_cast<std::size_t>(room.numel()) : 0,
                            static_cast<cudaStream_t>(stream)),
          "cublasLtMatmul");
}

std::string description() {
  const Library& lt = Library::get();
  return lt.usable() ? str("cuBLASLt ", static_cast<std::int64_t>(lt.cublasLtGetVersion()))
                     : lt.missing();
}

}  // namespace mezzo::gpu::blas
