#include "blas.h"

#include <cublasLt.h>

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "../tensor/error.h"
#include "../tensor/numerics.h"
#include "../tensor/tensor.h"
#include "../tensor/text.h"
#include "key.h"
#include "shared_library.h"

namespace mezzo::gpu::blas {

namespace {

/** The functions of cuBLASLt that are called here. */
class Library {
 public:
  static const Library& get() {
    static const Library only;
    return only;
  }

  bool usable() const { return file_.usable(); }
  const std::string& missing() const { return file_.missing(); }

#define MZ_CUBLASLT_FUNCTIONS(F)          \
  F(cublasLtCreate)                       \
  F(cublasLtGetVersion)                   \
  F(cublasLtMatmul)                       \
  F(cublasLtMatmulAlgoGetHeuristic)       \
  F(cublasLtMatmulDescCreate)             \
  F(cublasLtMatmulDescDestroy)            \
  F(cublasLtMatmulDescSetAttribute)       \
  F(cublasLtMatmulPreferenceCreate)       \
  F(cublasLtMatmulPreferenceDestroy)      \
  F(cublasLtMatmulPreferenceSetAttribute) \
  F(cublasLtMatrixLayoutCreate)           \
  F(cublasLtMatrixLayoutDestroy)          \
  F(cublasLtMatrixLayoutSetAttribute)
#define MZ_DECLARE(name) decltype(&::name) name = nullptr;
  MZ_CUBLASLT_FUNCTIONS(MZ_DECLARE)
#undef MZ_DECLARE

 private:
  Library() {
#define MZ_LOAD(function) file_.load(function, #function);
    MZ_CUBLASLT_FUNCTIONS(MZ_LOAD)
#undef MZ_LOAD
  }

  SharedLibrary file_{str("libcublasLt.so.", CUBLAS_VER_MAJOR)};
};

void check(cublasStatus_t status, const char* call, CallPlace place = CallPlace::current()) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail<CudaError>(call, {.what = "cuBLASLt refused",
                           .got = str("status ", static_cast<int>(status)),
                           .hint = str(place.file, ":", place.line)});
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f64: return CUDA_R_64F;
    default: return CUDA_R_32F;
  }
}

cublasComputeType_t compute_type(DType dtype) {
  if (dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  return dtype == DType::f32 && allow_tf32() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// ---- descriptors, destroyed with their scope ----------------------------------------------------------------------------

class Description {
 public:
  Description(const Library& lt, const Gemm& g) : lt_(lt) {
    check(lt.cublasLtMatmulDescCreate(&handle_, compute_type(g.dtype),
                                      g.dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    // Row-major matrices are the transposes of column-major ones: C^T = B^T A^T, so b comes first.
    set(CUBLASLT_MATMUL_DESC_TRANSA, g.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, g.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (!g.bias) return;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(g.dtype));
  }
  ~Description() { lt_.cublasLtMatmulDescDestroy(handle_); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  operator cublasLtMatmulDesc_t() const { return handle_; }

 private:
  template <class T> void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(lt_.cublasLtMatmulDescSetAttribute(handle_, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }

  const Library& lt_;
  cublasLtMatmulDesc_t handle_ = nullptr;
};

/** A stored matrix of `rows` x `columns`, row-major. */
class Layout {
 public:
  Layout(const Library& lt, DType dtype, std::int64_t rows, std::int64_t columns, const Matrix& x,
         std::int64_t batch)
      : lt_(lt) {
    check(lt.cublasLtMatrixLayoutCreate(&handle_, data_type(dtype), static_cast<std::uint64_t>(columns),
                                        static_cast<std::uint64_t>(rows), x.stride),
          "cublasLtMatrixLayoutCreate");
    if (batch == 1) return;
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, x.batch_stride);
  }
  ~Layout() { lt_.cublasLtMatrixLayoutDestroy(handle_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  operator cublasLtMatrixLayout_t() const { return handle_; }

 private:
  template <class T> void set(cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
    check(lt_.cublasLtMatrixLayoutSetAttribute(handle_, attribute, &value, sizeof value),
          "cublasLtMatrixLayoutSetAttribute");
  }

  const Library& lt_;
  cublasLtMatrixLayout_t handle_ = nullptr;
};

struct Problem {
  Description description;
  Layout a, b, addend, c;

  Problem(const Library& lt, const Gemm& g)
      : description(lt, g),
        a(lt, g.dtype, g.a.transposed ? g.k : g.m, g.a.transposed ? g.m : g.k, g.a, g.batch),
        b(lt, g.dtype, g.b.transposed ? g.n : g.k, g.b.transposed ? g.k : g.n, g.b, g.batch),
        addend(lt, g.dtype, g.m, g.n, g.beta == 0 ? g.c : g.addend, g.batch),
        c(lt, g.dtype, g.m, g.n, g.c, g.batch) {}
};

// ---- algorithms, asked for once per kind of problem ------------------------------------------------------------------------

/** Bytes that an algorithm may use beside its operands; NVIDIA's advice for Hopper. */
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

/** What the choice of an algorithm depends on. */
using Key = std::array<std::int64_t, 20>;

Key key_of(const Gemm& g, Device device) {
  const std::int64_t flags = (g.a.transposed ? 1 : 0) | (g.b.transposed ? 2 : 0) | (g.bias ? 4 : 0) |
                             (g.beta != 0 ? 8 : 0) | (allow_tf32() ? 16 : 0);
  return {static_cast<std::int64_t>(g.dtype),
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
          flags,
          device.index};
}

struct Choice {
  cublasLtMatmulAlgo_t algorithm;
  std::size_t workspace = 0;
  bool found = false;
};

Choice choose(const Library& lt, cublasLtHandle_t handle, const Problem& p, const Gemm& g) {
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
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  const cublasStatus_t status = lt.cublasLtMatmulAlgoGetHeuristic(handle, p.description, p.b, p.a, p.addend,
                                                                  p.c, preference, 1, &result, &count);
  lt.cublasLtMatmulPreferenceDestroy(preference);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  return {result.algo, result.workspaceSize, result.state == CUBLAS_STATUS_SUCCESS};
}

/** Handle and algorithms of a device. */
class DeviceState {
 public:
  DeviceState(const Library& lt, Device device) : lt_(lt), device_(device) {
    check(lt.cublasLtCreate(&handle_), "cublasLtCreate");
  }

  bool run(const Gemm& g, runtime::Stream stream) {
    const std::lock_guard lock(mutex_);
    const Problem problem(lt_, g);
    const auto [entry, fresh] = choices_.try_emplace(key_of(g, device_));
    if (fresh) entry->second = choose(lt_, handle_, problem, g);
    const Choice& choice = entry->second;
    if (!choice.found) return false;
    Tensor& workspace = workspaces_[stream];
    if (choice.workspace > 0 && !workspace.defined()) {
      const CategoryScope category(MemoryCategory::workspace);
      workspace = empty_tensor({static_cast<std::int64_t>(kWorkspaceBytes)}, DType::u8, device_);
    }
    launch(problem, g, choice, workspace, stream);
    return true;
  }

 private:
  void launch(const Problem& p, const Gemm& g, const Choice& choice, const Tensor& workspace,
              runtime::Stream stream) {
    const float alpha32 = static_cast<float>(g.alpha), beta32 = static_cast<float>(g.beta);
    const bool wide = g.dtype == DType::f64;
    const void* alpha = wide ? static_cast<const void*>(&g.alpha) : &alpha32;
    const void* beta = wide ? static_cast<const void*>(&g.beta) : &beta32;
    void* result = const_cast<void*>(g.c.data);
    check(lt_.cublasLtMatmul(handle_, p.description, alpha, g.b.data, p.b, g.a.data, p.a, beta,
                             g.beta == 0 ? result : g.addend.data, p.addend, result, p.c, &choice.algorithm,
                             workspace.defined() ? workspace.raw_data() : nullptr,
                             workspace.defined() ? kWorkspaceBytes : 0, static_cast<cudaStream_t>(stream)),
          "cublasLtMatmul");
  }

  const Library& lt_;
  Device device_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<Key, Choice, KeyHash> choices_;
  std::unordered_map<runtime::Stream, Tensor> workspaces_;  // products of one stream run in order
};

DeviceState& state_of(const Library& lt, Device device) {
  static std::mutex mutex;
  static auto& all =
      *new std::vector<std::unique_ptr<DeviceState>>;  // never destroyed: tensors may outlive main
  const std::lock_guard lock(mutex);
  const auto index = static_cast<std::size_t>(device.index);
  if (all.size() <= index) all.resize(index + 1);
  if (!all[index]) all[index] = std::make_unique<DeviceState>(lt, device);
  return *all[index];
}

}  // namespace

bool gemm(const Gemm& gemm, Device device, runtime::Stream stream) {
  const Library& lt = Library::get();
  return lt.usable() && state_of(lt, device).run(gemm, stream);
}

std::string description() {
  const Library& lt = Library::get();
  return lt.usable() ? str("cuBLASLt ", static_cast<std::int64_t>(lt.cublasLtGetVersion())) : lt.missing();
}

}  // namespace mezzo::gpu::blas
