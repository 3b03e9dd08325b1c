#include "roof.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "../tensor/core/dispatch.h"
#include "../tensor/ops/create.h"
#include "../tensor/ops/elementwise/arithmetic.h"
#include "../tensor/ops/matmul/matmul.h"
#include "../tensor/ops/reduce/reduce.h"
#include "stopwatch.h"

namespace mezzo {

double Roof::flops_per_s(DType operands) const {
  switch (operands) {
    case DType::f16: return f16_flops_per_s;
    case DType::bf16: return bf16_flops_per_s;
    case DType::f32:
    case DType::f64:
    case DType::boolean:
    case DType::u8:
    case DType::i32:
    case DType::i64: break;
  }
  return f32_flops_per_s;
}

double Roof::seconds(const OpWork& work, DType operands) const {
  const auto time = [](double amount, double rate) { return rate > 0 ? amount / rate : 0; };
  const double step = is_low(operands) ? low_step_seconds : step_seconds;
  return work.steps * step +
         std::max({time(work.flops, flops_per_s(operands)), time(work.bytes, cache_bytes_per_s),
                   time(work.bytes - 2 * cache_bytes, memory_bytes_per_s), op_seconds});
}

Roof Roof::best_of(const Roof& other) const {
  Roof best;
  for (double Roof::* limit :
       {&Roof::f32_flops_per_s, &Roof::f16_flops_per_s, &Roof::bf16_flops_per_s,
        &Roof::memory_bytes_per_s, &Roof::cache_bytes_per_s, &Roof::cache_bytes, &Roof::op_seconds,
        &Roof::step_seconds, &Roof::low_step_seconds})
    best.*limit = std::max(this->*limit, other.*limit);
  return best;
}

namespace {

/** Measures calls on one device. */
class Calls {
 public:
  explicit Calls(Device device) : device_(device), probe_(ones({1}, {.device = device})) {}

  /** Returns the seconds of the fastest of several runs of f(), each with so many calls that
   *  synchronising and reading the clock cost nothing. */
  template <class F> double best(const F& f) const {
    constexpr double kWanted = 3e-3, kLong = 0.1;
    constexpr int kRuns = 5;
    const auto run = [&](int calls) {
      return mezzo::seconds([&] {
        for (int i = 0; i < calls; ++i) f();
        synchronize();
      });
    };
    run(1);
    const double once = run(1);
    if (once > kLong) return once;  // noise is short beside it
    const int calls = static_cast<int>(std::clamp(kWanted / once, 1.0, 1000.0));
    double least = run(calls);
    for (int i = 1; i < kRuns; ++i) least = std::min(least, run(calls));
    return least / calls;
  }

 private:
  /** Waits for the device: a value is read after all work before. */
  void synchronize() const {
    if (device_ != cpu) (void)probe_.item<float>();
  }

  Device device_;
  Tensor probe_;
};

/** Returns the speed of products at the best size. Increases the size until a product takes 1 ms,
 *  because small products do not fill a device. Of each size it measures square products and some
 *  with four times as many rows, since packing the other operand, which a layer's weight needs
 *  only once, is a quarter of the time of a square product by AMX. */
double product_speed(const Calls& calls, DType dtype, Device device) {
  constexpr std::int64_t kMostSide = 8192;
  double speed = 0, time = 0;
  for (std::int64_t side = 256; time < 1e-3 && side <= kMostSide; side *= 2) {
    const Tensor b = ones({side, side}, {.dtype = dtype, .device = device});
    for (const std::int64_t rows : {4 * side, side}) {
      const Tensor a = ones({rows, side}, {.dtype = dtype, .device = device});
      time = calls.best([&] { (void)matmul(a, b); });
      const auto n = static_cast<double>(side);
      speed = std::max(speed, 2 * static_cast<double>(rows) * n * n / time);
    }
  }
  return speed;
}

/** Returns the bandwidth for two arrays of `bytes` together: in additions, which read both and
 *  write one, or in sums, which only read; the higher one. */
double bandwidth(const Calls& calls, double bytes, Device device) {
  const auto n = static_cast<std::int64_t>(bytes / 2 / sizeof(float));
  const Tensor both = zeros({2 * n}, {.device = device});
  const Tensor x = both.narrow(0, 0, n), y = both.narrow(0, n, n);
  const double add = 1.5 * bytes / calls.best([&] { add_(x, y); });
  return std::max(add, bytes / calls.best([&] { (void)sum(both); }));
}

/** Measures bandwidths and the size of the caches. */
void measure_memory(const Calls& calls, Device device, Roof& roof) {
  constexpr double kLeast = 1 << 18, kStep = 4, kMemory = 1 << 28, kMost = 1 << 29;
  if (device == cpu) roof.cache_bytes = cache_bytes_of_cpus();
  std::vector<std::pair<double, double>> rates;  // by size
  const double last = std::clamp(8 * roof.cache_bytes, kMemory, kMost);
  for (double bytes = kLeast; bytes < last; bytes *= kStep)
    rates.emplace_back(bytes, bandwidth(calls, bytes, device));
  roof.memory_bytes_per_s = bandwidth(calls, last, device);
  roof.cache_bytes_per_s = roof.memory_bytes_per_s;
  for (const auto& [bytes, rate] : rates)
    roof.cache_bytes_per_s = std::max(roof.cache_bytes_per_s, rate);
  if (roof.cache_bytes > 0) return;
  // The caches hold less than the next size above the largest that is clearly faster than memory.
  constexpr double kFaster = 1.25;
  for (const auto& [bytes, rate] : rates)
    if (rate > kFaster * roof.memory_bytes_per_s) roof.cache_bytes = bytes * kStep;
}

}  // namespace

Roof measure_roof(Device device) {
  const NoGrad no_grad;
  const CastScope no_casts{nullptr};
  const Calls calls(device);
  Roof roof;
  roof.f32_flops_per_s = product_speed(calls, f32, device);
  roof.f16_flops_per_s = std::max(roof.f32_flops_per_s, product_speed(calls, f16, device));
  roof.bf16_flops_per_s = std::max(roof.f32_flops_per_s, product_speed(calls, bf16, device));
  measure_memory(calls, device, roof);
  return roof;
}

namespace {

std::string first_word(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

/** Returns the bytes of a size such as "1024K" or "32M"; 0 for other text. */
double bytes_of(const std::string& size) {
  double number = 0;
  std::size_t i = 0;
  for (; i < size.size() && size[i] >= '0' && size[i] <= '9'; ++i)
    number = 10 * number + (size[i] - '0');
  const std::string unit = size.substr(i);
  if (unit == "K") return number * 1024;
  if (unit == "M") return number * 1024 * 1024;
  return unit.empty() ? number : 0;
}

}  // namespace

double cache_bytes_of_cpus(const std::string& cpus) {
  namespace fs = std::filesystem;
  std::set<std::string> counted;  // level and CPUs of each cache
  double total = 0;
  std::error_code absent;
  for (const fs::directory_entry& one : fs::directory_iterator(cpus, absent)) {
    std::error_code no_caches;
    for (const fs::directory_entry& cache :
         fs::directory_iterator(one.path() / "cache", no_caches)) {
      const std::string level = first_word(cache.path() / "level");
      if (level.empty() || level == "1") continue;
      const std::string sharers = first_word(cache.path() / "shared_cpu_list");
      if (counted.insert(level + " " + sharers).second)
        total += bytes_of(first_word(cache.path() / "size"));
    }
  }
  return total;
}

}  // namespace mezzo
