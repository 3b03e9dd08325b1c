// The emulated cuBLASLt. It computes on the host and rejects what the library would reject.
#include "../../cuda/blas/calls.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "../../tensor/core/error.h"
#include "../../tensor/core/half.h"
#include "../../tensor/cpu/gemm.h"
#include "../../tensor/ops/elementwise/activation.h"
#include "cuda.h"
#include "dnn.h"
#include "faults.h"
#include "memory.h"

namespace mezzo::gpu::blas {

namespace {

using emulator::EpilogueFault;

/** Throws Fault for an invalid call, so that no fallback hides it. */
void require(bool holds, const char* what) {
  if (!holds) throw emulator::Fault(std::string("cublasLtMatmul: bad call: ") + what);
}

/** Checks what the library's descriptors require: rows that do not overlap, in device memory. */
void check(const Matrix& x, std::int64_t rows, std::int64_t columns) {
  require(x.data && emulator::is_device_memory(x.data), "an operand is not device memory");
  require(x.stride >= (x.transposed ? rows : columns), "rows overlap");
}

const void* at(const Matrix& x, DType dtype, std::int64_t entry) {
  return static_cast<const char*>(x.data) +
         entry * x.batch_stride * static_cast<std::int64_t>(item_size(dtype));
}

cpu_kernels::Matrix matrix(const Matrix& x, DType dtype, std::int64_t entry) {
  const cpu_kernels::Matrix stored{at(x, dtype, entry), dtype, x.stride, 1};
  return x.transposed ? stored.transposed() : stored;
}

template <class T> void relu(const Gemm& g) {
  T* c = static_cast<T*>(const_cast<void*>(g.c.data));
  for (std::int64_t i = 0; i < g.m; ++i)
    for (std::int64_t j = 0; j < g.n; ++j) {
      T& value = c[i * g.c.stride + j];
      if (static_cast<float>(value) <= 0) value = static_cast<T>(0.0f);
    }
}

/** Applies gelu or its gradient to unrounded sums, as the library does, and rounds once. */
template <class T> void round_through_gelu(const Gemm& g, const std::vector<float>& sums) {
  const op::Gelu::Attrs form{op::Gelu::Form::tanh};
  T *c = static_cast<T*>(const_cast<void*>(g.c.data)), *kept = static_cast<T*>(g.epilogue.memory);
  for (std::int64_t i = 0; i < g.m; ++i)
    for (std::int64_t j = 0; j < g.n; ++j) {
      const float sum = sums[static_cast<std::size_t>(i * g.n + j)];
      T* const at = kept ? kept + i * g.epilogue.stride + j : nullptr;
      const bool forward = g.epilogue.kind == Epilogue::Kind::gelu;
      if (forward && at) *at = static_cast<T>(sum);
      const bool spoilt = emulator::epilogue_fault() == EpilogueFault::wrong_gelu;
      const float argument = forward || spoilt ? 0 : static_cast<float>(*at);
      c[i * g.c.stride + j] = static_cast<T>(
          forward ? op::Gelu::forward(sum, form) : op::Gelu::gradient(sum, argument, 0.0f, form));
    }
}

template <class T> void row_sums(const Gemm& g) {
  const T* a = static_cast<const T*>(g.a.data);
  for (std::int64_t i = 0; i < g.m; ++i) {
    float sum = 0;
    const std::int64_t terms =
        emulator::epilogue_fault() == EpilogueFault::short_sums ? g.k - 1 : g.k;
    for (std::int64_t p = 0; p < terms; ++p)
      sum += static_cast<float>(a[g.a.transposed ? p * g.a.stride + i : i * g.a.stride + p]);
    static_cast<T*>(g.epilogue.memory)[i] = static_cast<T>(sum);
  }
}

template <class T> void finish(const Gemm& g) {
  switch (g.epilogue.kind) {
    case Epilogue::Kind::relu: return relu<T>(g);
    case Epilogue::Kind::row_sums: return row_sums<T>(g);
    case Epilogue::Kind::gelu:
    case Epilogue::Kind::through_gelu:
    case Epilogue::Kind::none: break;
  }
}

void check_epilogue(const Gemm& g) {
  const Epilogue& e = g.epilogue;
  if (e.kind == Epilogue::Kind::none) return;
  require(g.batch == 1, "an epilogue of a batch");
  if (e.kind == Epilogue::Kind::relu) return require(!e.memory, "memory of relu");
  if (e.kind == Epilogue::Kind::gelu && !e.memory) return;
  require(emulator::is_device_memory(e.memory), "the epilogue's memory is not device memory");
  if (e.kind == Epilogue::Kind::row_sums) return require(!g.bias, "a bias beside sums of rows");
  require(
      e.stride % 8 == 0 && e.stride >= g.n && reinterpret_cast<std::uintptr_t>(e.memory) % 16 == 0,
      "rows of gelu's argument are not multiples of 16 bytes");
  require(emulator::is_device_memory(
              static_cast<char*>(e.memory) +
              ((g.m - 1) * e.stride + g.n) * static_cast<std::int64_t>(item_size(g.dtype)) - 1),
          "gelu's argument exceeds its memory");
}

/** A product whose sums run in order of depth, as those of our own CUDA kernels: tests compare
 *  bits. gemm() adds partial sums for a single row or column, which is therefore computed twice. */
void sum_in_order(std::int64_t m, std::int64_t n, std::int64_t k, cpu_kernels::Matrix a,
                  cpu_kernels::Matrix b, const cpu_kernels::MatrixOut& c,
                  cpu_kernels::Epilogue epilogue) {
  if (m != 1 && n != 1) return cpu_kernels::gemm(m, n, k, a, b, c, epilogue);
  const std::int64_t rows = m == 1 ? 2 : m, columns = n == 1 ? 2 : n;
  if (m == 1) a.row = epilogue.addend.row = 0;
  if (n == 1) b.column = epilogue.addend.column = 0;
  const auto item = static_cast<std::int64_t>(item_size(c.dtype));
  std::vector<char> both(static_cast<std::size_t>(rows * columns * item));
  cpu_kernels::gemm(rows, columns, k, a, b, {both.data(), c.dtype, columns, 1}, epilogue);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      std::memcpy(static_cast<char*>(c.data) + (i * c.row + j * c.column) * item,
                  both.data() + (i * columns + j) * item, static_cast<std::size_t>(item));
}

/** Computes one product of the batch into `c`. */
void multiply(const Gemm& g, std::int64_t entry, const cpu_kernels::MatrixOut& c) {
  cpu_kernels::Epilogue epilogue{g.alpha, g.beta, {}};
  if (g.beta != 0) epilogue.addend = matrix(g.addend, g.result, entry);
  const std::int64_t step = emulator::epilogue_fault() == EpilogueFault::wrong_bias ? 0 : 1;
  if (g.bias) epilogue = {g.alpha, 1, {g.bias, g.result, 0, step}};
  sum_in_order(g.m, g.n, g.k, matrix(g.a, g.dtype, entry), matrix(g.b, g.dtype, entry), c,
               epilogue);
}

template <class T> void compute(const Gemm& g) {
  const bool gelu =
      g.epilogue.kind == Epilogue::Kind::gelu || g.epilogue.kind == Epilogue::Kind::through_gelu;
  if (gelu) {
    std::vector<float> sums(static_cast<std::size_t>(g.m * g.n));
    multiply(g, 0, {sums.data(), DType::f32, g.n, 1});
    return round_through_gelu<T>(g, sums);
  }
  for (std::int64_t i = 0; i < g.batch; ++i)
    multiply(g, i, {const_cast<void*>(at(g.c, g.result, i)), g.result, g.c.stride, 1});
  finish<T>(g);
}

void compute(const Gemm& g) {
  const emulator::MemoryScope scope;
  if (g.result == DType::f16)
    compute<Half>(g);
  else if (g.result == DType::bf16)
    compute<BFloat16>(g);
  else
    compute<float>(g);
}

}  // namespace

// The library has no epilogues for f64.
bool takes(const Gemm& g) {
  return g.dtype != DType::f64 || !(g.bias || g.epilogue.kind != Epilogue::Kind::none);
}

std::vector<Algorithm> algorithms(const Gemm&, Device, int most) {
  if (emulator::fails_in(emulator::LibraryStage::support)) return {};
  emulator::reach_stage(emulator::LibraryStage::heuristics, "cublasLtMatmulAlgoGetHeuristic");
  return std::vector<Algorithm>(
      static_cast<std::size_t>(std::min(most, emulator::kLibraryAlgorithms)));
}

void multiply(const Gemm& g, const Algorithm&, const Tensor&, Device, runtime::Stream stream,
              int times) {
  check(g.a, g.m, g.k);
  check(g.b, g.k, g.n);
  check(g.c, g.m, g.n);
  require(!g.c.transposed && !g.addend.transposed, "the result is transposed");
  require(!(g.bias && g.beta != 0), "a bias beside an addend");
  require(reinterpret_cast<std::uintptr_t>(g.bias) % 16 == 0, "the bias is not 16-byte aligned");
  require(g.m > 0 && g.n > 0 && g.k > 0 && g.batch > 0, "an empty product");
  require(g.result == g.dtype || (is_low(g.dtype) && g.result == DType::f32),
          "a result of another dtype");
  require(g.result == g.dtype || g.epilogue.kind == Epilogue::Kind::none,
          "an epilogue of a result of another dtype");
  check_epilogue(g);
  for (int i = 0; i < times; ++i) {
    emulator::reach_stage(emulator::LibraryStage::execution, "cublasLtMatmul");
    emulator::submit({"cuBLASLt", 0, stream}, [g] { compute(g); });
  }
}

std::string description() { return "cuBLASLt emulated on the host"; }

}  // namespace mezzo::gpu::blas

namespace mezzo::emulator {

namespace {
EpilogueFault current_epilogue_fault = EpilogueFault::none;
}

EpilogueFault epilogue_fault() { return current_epilogue_fault; }
void set_epilogue_fault(EpilogueFault wanted) { current_epilogue_fault = wanted; }

}  // namespace mezzo::emulator
