#include "cpu_isa.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#if defined(__x86_64__)
#  include <cpuid.h>
#endif
#if defined(__linux__)
#  include <sys/syscall.h>
#  include <unistd.h>
#endif

#include "../core/error.h"
#include "../core/numerics.h"
#include "../text/log.h"

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

constexpr std::array<std::string_view, kNumCpuIsas> kNames = {"baseline", "v3", "v4", "bf16",
                                                              "amx"};
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

/** Returns whether VDPBF16PS is faster than fused multiply-adds of f32. On Intel's CPUs it is only
 *  on Cooper Lake, the one with AVX512-BF16 and without AVX512-VBMI. */
bool bf16_pays() {
  const CpuidRegisters vendor = cpuid(0);
  const bool is_intel = vendor.b == 0x756E6547 && vendor.d == 0x49656E69 && vendor.c == 0x6C65746E;
  constexpr unsigned kVbmi = 1u << 1;
  return !is_intel || !has_all(cpuid(7).c, kVbmi);
}

bool cpu_has_amx() { return has_all(cpuid(7).d, 1u << 22 | 1u << 24); }  // AMX-BF16, AMX-TILE

/** The register states of AMX: the configuration and the tiles. */
constexpr unsigned kTileStates = 1u << 17 | 1u << 18;

/** Requests the permission to use the tiles, which holds for the process. Returns 0 or an error
 *  number. */
int request_tiles() {
#  if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 ? 0 : errno;
#  else
  return ENOSYS;
#  endif
}

/** Returns what refuses AMX, or an empty string. Requests the permission. */
std::string refusal_of_amx() {
  if (!cpu_has_bf16() || !cpu_has_amx()) return "the CPU does not have AMX-BF16";
  if (!has_all(saved_states(), kTileStates))
    return "the operating system or virtual machine does not save the state of AMX";
  const int error = request_tiles();
  if (error == 0) return "";
  return std::string("the kernel refuses the permission (") + std::strerror(error) +
         (error == ENOSPC ? "; a signal stack of a thread is too small)" : ")");
}

/** Returns the highest instruction set that this CPU has, except AMX. */
CpuIsa highest_of_cpu() {
  if (!cpu_has_v3()) return CpuIsa::baseline;
  if (!cpu_has_v4()) return CpuIsa::v3;
  return cpu_has_bf16() ? CpuIsa::v4_bf16 : CpuIsa::v4;
}

/** Returns the one of v4, v4_bf16 and v4_amx by which products of 16 bits are fastest. */
CpuIsa fastest_of_bf16() {
  if (cpu_has_amx() && has_all(saved_states(), kTileStates)) {
    const std::string refusal = refusal_of_amx();
    if (refusal.empty()) return CpuIsa::v4_amx;
    log_text(Severity::warning,
             "cpu: AMX is not used: " + refusal + "; products of 16 bits are slower without it");
  }
  return bf16_pays() ? CpuIsa::v4_bf16 : CpuIsa::v4;
}
#else
std::string refusal_of_amx() { return "the CPU does not have AMX-BF16"; }
CpuIsa highest_of_cpu() { return CpuIsa::baseline; }
CpuIsa fastest_of_bf16() { return CpuIsa::baseline; }
#endif

/** Returns the instruction set that MEZZO_CPU_ISA names, if any. */
std::optional<CpuIsa> named_isa() {
  const char* text = std::getenv(kVariable);
  if (!text || !*text) return {};
  for (std::size_t i = 1; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<CpuIsa>(i);
  fail<ValueError>(kVariable, {.what = "unknown instruction set",
                               .got = "\"" + std::string(text) + "\"",
                               .expected = "v3, v4, bf16 or amx"});
}

/** Returns the instruction set of kernels between `lowest` and `highest`, which may be v4_bf16 and
 *  then includes v4_amx: the named one if any. `has_tiles`: this build has kernels for AMX;
 * `lacks`: what a higher one lacks. */
CpuIsa choose(std::optional<CpuIsa> named, CpuIsa lowest, CpuIsa highest, bool has_tiles,
              const char* lacks) {
  if (!named) return highest == CpuIsa::v4_bf16 ? fastest_of_bf16() : highest;
  if (*named == CpuIsa::v4_amx) {
    const std::string refusal = has_tiles ? refusal_of_amx() : lacks;
    if (!refusal.empty())
      fail<ValueError>(kVariable, {.what = "AMX cannot be used: " + refusal, .got = str(*named)});
    return *named;
  }
  if (*named >= lowest && *named <= highest) return *named;
  const std::string only = highest == CpuIsa::baseline ? "nothing" : str(highest);
  fail<ValueError>(
      kVariable, {.what = *named > highest ? lacks : "the kernels of this build are for one -march",
                  .got = str(*named),
                  .expected = lowest >= highest ? only : str(lowest) + " to " + str(highest),
                  .hint = *named < lowest ? "a build with -Dcpu_arch=portable can choose" : ""});
}

/** The choice of a build for one -march. */
CpuIsa compiled_isa() {
  const CpuIsa lowest = kCompiled == CpuIsa::v4_bf16 ? CpuIsa::v4 : kCompiled;
  return choose(named_isa(), lowest, kCompiled, kCompiled == CpuIsa::v4_bf16,
                "the kernels of this build are for one -march");
}

/** The choice of a portable build. */
CpuIsa chosen_isa() {
  const std::optional<CpuIsa> named = named_isa();
  const CpuIsa highest = highest_of_cpu();
  if (highest == CpuIsa::baseline)
    fail<Unsupported>("cpu", {.what = "this CPU lacks instructions that the kernels use",
                              .expected = "x86-64-v3 (AVX2, FMA, F16C)",
                              .hint = "build with -Dcpu_arch=native"});
  return choose(named, CpuIsa::v3, highest, true, "this CPU lacks the instruction set");
}

std::atomic<bool> models{false};

}  // namespace

CpuIsa cpu_isa() {
  static const CpuIsa isa = &mezzo_kernel_table ? chosen_isa() : compiled_isa();
  return isa;
}

bool emulates_products(DType dtype, Device device) {
  if (device != cpu) return false;
  const CpuIsa least = dtype == f16 ? CpuIsa::v4_amx : CpuIsa::v4_bf16;
  return (dtype == f16 || dtype == bf16) && (cpu_isa() < least || exact_products());
}

bool cpu_multiplies_bf16() { return cpu_isa() >= CpuIsa::v4_bf16 && !exact_products(); }

std::string cpu_product_kind() { return cpu_multiplies_bf16() ? str(cpu_isa()) : "f32"; }

bool models_tiles() { return models.load(std::memory_order_relaxed); }
void set_models_tiles(bool on) { models.store(on, std::memory_order_relaxed); }

CpuIsa product_isa() { return models_tiles() ? CpuIsa::v4_amx : cpu_isa(); }

std::string str(CpuIsa isa) { return std::string(kNames[static_cast<std::size_t>(isa)]); }

}  // namespace mezzo

void mezzo_choose_kernels(const MezzoKernelTable* table) {
  const auto isa = static_cast<std::size_t>(mezzo::cpu_isa());
  const std::size_t variant = std::min(isa, table->variants.size()) - 1;  // bf16 serves amx
  for (std::size_t i = 0; i < table->count; ++i)
    std::atomic_ref(table->slots[i]).store(table->variants[variant][i], std::memory_order_relaxed);
}
