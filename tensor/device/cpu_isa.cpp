#include "cpu_isa.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#  include <cpuid.h>
#endif

#include "../core/error.h"
#include "../core/numerics.h"

/** The functions of the kernels that other code calls, made by tensor/cpu/variants/variants.py. */
struct MezzoKernelTable {
  std::size_t count;
  void** slots;                          // what the calls jump to
  std::array<void* const*, 3> variants;  // the functions compiled for v3, v4 and bf16
};

extern "C" {

/** Absent (null) if the kernels are compiled once. */
__attribute__((weak, visibility("hidden"))) extern const MezzoKernelTable mezzo_kernel_table;

/** Makes the calls of a table lead to the kernels for the instruction set in use. Its callers keep
 *  only registers that can hold arguments. Errors: as cpu_isa(). */
MZ_API void mezzo_choose_kernels(const MezzoKernelTable* table);
}

namespace mezzo {

namespace {

constexpr std::array<std::string_view, kNumCpuIsas> kNames = {"baseline", "v3", "v4", "bf16"};
constexpr const char* kVariable = "MEZZO_CPU_ISA";

/** The instruction set that the compiler was told to use. */
constexpr CpuIsa kCompiled =
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && \
    defined(__AVX512BF16__)
    CpuIsa::v4_bf16;
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
    CpuIsa::v4;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
    CpuIsa::v3;
#else
    CpuIsa::baseline;
#endif

#if defined(__x86_64__)
struct CpuidRegisters {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

/** Returns zeros for a leaf that the CPU does not have. */
CpuidRegisters cpuid(unsigned leaf, unsigned subleaf = 0) {
  CpuidRegisters r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

bool has_all(unsigned value, unsigned mask) { return (value & mask) == mask; }

/** Returns the register states that the operating system saves; only with OSXSAVE. */
unsigned saved_states() {
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool cpu_has_v3() {
  constexpr unsigned kOsxsave = 1u << 27;
  // SSE3, SSSE3, FMA, CMPXCHG16B, SSE4.1, SSE4.2, MOVBE, POPCNT, AVX, F16C
  constexpr unsigned kFirst = 1u << 0 | 1u << 9 | 1u << 12 | 1u << 13 | 1u << 19 | 1u << 20 |
                              1u << 22 | 1u << 23 | 1u << 28 | 1u << 29;
  constexpr unsigned kSeventh = 1u << 3 | 1u << 5 | 1u << 8;  // BMI1, AVX2, BMI2
  constexpr unsigned kExtended = 1u << 0 | 1u << 5;           // LAHF, LZCNT
  return has_all(cpuid(1).c, kOsxsave | kFirst) && has_all(saved_states(), 0x6) &&
         has_all(cpuid(7).b, kSeventh) && has_all(cpuid(0x80000001).c, kExtended);
}

bool cpu_has_v4() {
  // AVX-512 F, DQ, CD, BW, VL
  constexpr unsigned kSeventh = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
  return has_all(cpuid(7).b, kSeventh) && has_all(saved_states(), 0xE6);
}

bool cpu_has_bf16() { return has_all(cpuid(7, 1).a, 1u << 5); }

/** Returns the best instruction set of this CPU. */
CpuIsa best_of_cpu() {
  if (!cpu_has_v3()) return CpuIsa::baseline;
  if (!cpu_has_v4()) return CpuIsa::v3;
  return cpu_has_bf16() ? CpuIsa::v4_bf16 : CpuIsa::v4;
}
#else
CpuIsa best_of_cpu() { return CpuIsa::baseline; }
#endif

/** Returns the instruction set that MEZZO_CPU_ISA names; `best` if it is unset or empty. */
CpuIsa named_isa(CpuIsa best) {
  const char* text = std::getenv(kVariable);
  if (!text || !*text) return best;
  for (std::size_t i = 1; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<CpuIsa>(i);
  fail<ValueError>(kVariable, {.what = "unknown instruction set",
                               .got = "\"" + std::string(text) + "\"",
                               .expected = "v3, v4 or bf16"});
}

CpuIsa compiled_isa() {
  const CpuIsa named = named_isa(kCompiled);
  if (named != kCompiled)
    fail<ValueError>(kVariable,
                     {.what = "the kernels of this build have one instruction set",
                      .got = str(named),
                      .expected = kCompiled == CpuIsa::baseline ? "nothing" : str(kCompiled),
                      .hint = "a build with -Dcpu_arch=portable can choose"});
  return named;
}

CpuIsa chosen_isa() {
  const CpuIsa best = best_of_cpu(), named = named_isa(best);
  if (best == CpuIsa::baseline)
    fail<Unsupported>("cpu", {.what = "this CPU lacks instructions that the kernels use",
                              .expected = "x86-64-v3 (AVX2, FMA, F16C)",
                              .hint = "build with -Dcpu_arch=native"});
  if (named > best)
    fail<ValueError>(kVariable, {.what = "this CPU lacks the instruction set",
                                 .got = str(named),
                                 .expected = best == CpuIsa::v3 ? "v3" : "v3 or v4"});
  return named;
}

}  // namespace

CpuIsa cpu_isa() {
  static const CpuIsa isa = &mezzo_kernel_table ? chosen_isa() : compiled_isa();
  return isa;
}

bool emulates_products(DType dtype, Device device) {
  return device == cpu && (dtype == f16 || (dtype == bf16 && !cpu_multiplies_bf16()));
}

bool cpu_multiplies_bf16() { return cpu_isa() == CpuIsa::v4_bf16 && !exact_products(); }

std::string str(CpuIsa isa) { return std::string(kNames[static_cast<std::size_t>(isa)]); }

}  // namespace mezzo

void mezzo_choose_kernels(const MezzoKernelTable* table) {
  const auto variant = static_cast<std::size_t>(mezzo::cpu_isa()) - 1;
  for (std::size_t i = 0; i < table->count; ++i)
    std::atomic_ref(table->slots[i]).store(table->variants[variant][i], std::memory_order_relaxed);
}
