#include "environment.h"

#include <fstream>
#include <thread>

#include "../amp/policy.h"
#include "../tensor/core/build_facts.h"
#include "../tensor/core/numerics.h"
#include "../tensor/core/version.h"
#include "../tensor/device/cpu_isa.h"
#include "../tensor/device/parallel.h"
#include "../tensor/text/text.h"

namespace mezzo {

namespace {

/** Returns the name of the processor as reported by /proc; empty if there is none. */
std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

std::string compiler() {
#if defined(__clang__)
  return str("clang ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#elif defined(__GNUC__)
  return str("gcc ", __GNUC__, ".", __GNUC_MINOR__, ".", __GNUC_PATCHLEVEL__);
#else
  return "unknown";
#endif
}

}  // namespace

Environment environment(Device device) {
  return {.device = str(device),
          .hardware = description(device),
          .cpu_model = cpu_model(),
          .cores = static_cast<int>(std::thread::hardware_concurrency()),
          .threads = num_threads(),
          .cpu_isa = str(cpu_isa()),
          .multiplies_bf16 = cpu_multiplies_bf16(),
          .exact_products = exact_products(),
          .allow_tf32 = allow_tf32(),
          .allow_nondeterministic = allow_nondeterministic(),
          .search_products = search_products(),
          .compiler = compiler(),
          .flags = build_flags(),
          .version = std::string(version()),
          .commit = build_commit(),
          .date = utc_now()};
}

bool emulates_level(const std::string& level, Device device) {
  const amp::Level* found = amp::find_level(level);
  return found != nullptr &&
         emulates_products(found->low.value_or(found->cast_model_type.value_or(f32)), device);
}

}  // namespace mezzo
