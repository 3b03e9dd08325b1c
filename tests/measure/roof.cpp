// The roof: its lower bounds of time, the size of the caches, and the measured limits.
#include "../../measure/roof.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "../../measure/stopwatch.h"
#include "../../tensor/ops/create.h"
#include "../../tensor/ops/matmul/matmul.h"
#include "../io/files.h"
#include "../support/catch.h"

using namespace mezzo;

namespace {

constexpr Roof kRoof{.f32_flops_per_s = 100,
                     .f16_flops_per_s = 200,
                     .bf16_flops_per_s = 400,
                     .memory_bytes_per_s = 10,
                     .cache_bytes_per_s = 50,
                     .cache_bytes = 1000};

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text << "\n";
}

/** Lists a cache as Linux does. */
void list_cache(const std::filesystem::path& folder, const char* level, const char* size,
                const char* sharers) {
  write(folder / "level", level);
  write(folder / "size", size);
  write(folder / "shared_cpu_list", sharers);
}

}  // namespace

TEST_CASE("the least time of an op is that of its slowest resource", "[roof]") {
  CHECK(kRoof.seconds({.flops = 300, .bytes = 20}) == 3.0);       // the product
  CHECK(kRoof.seconds({.flops = 300, .bytes = 20}, f16) == 1.5);  // its operands are f16
  CHECK(kRoof.seconds({.flops = 300, .bytes = 20}, bf16) == 0.75);
  CHECK(kRoof.seconds({.flops = 300, .bytes = 20}, f64) == 3.0);
  CHECK(kRoof.seconds({.flops = 0, .bytes = 2000}) == 40.0);  // all may be in the caches
  CHECK(kRoof.seconds({.flops = 0, .bytes = 2600}) == 60.0);  // 600 bytes cannot be
  CHECK(kRoof.seconds({}) == 0.0);
  CHECK(Roof{}.seconds({.flops = 300, .bytes = 20}) == 0.0);  // no limit was measured
  Roof steps = kRoof;
  steps.step_seconds = 2;
  steps.low_step_seconds = 1;
  CHECK(steps.seconds({.flops = 300, .steps = 5}) == 13.0);
  CHECK(steps.seconds({.flops = 300, .steps = 5}, bf16) == 5.75);
}

TEST_CASE("the best of two roofs has the larger of each limit", "[roof]") {
  Roof other = kRoof;
  other.f32_flops_per_s = 150;
  other.cache_bytes_per_s = 40;
  const Roof best = kRoof.best_of(other);
  CHECK(best.f32_flops_per_s == 150);
  CHECK(best.cache_bytes_per_s == 50);
  CHECK(best.f16_flops_per_s == 200);
  CHECK(best.bf16_flops_per_s == 400);
  CHECK(best.memory_bytes_per_s == 10);
  CHECK(best.cache_bytes == 1000);
}

TEST_CASE("a cache that CPUs share counts once, and level 1 does not", "[roof]") {
  const files::Directory folder;
  const std::filesystem::path cpus = folder.path();
  CHECK(cache_bytes_of_cpus(folder.path()) == 0);
  CHECK(cache_bytes_of_cpus(folder.path() + "/absent") == 0);
  for (const char* name : {"cpu0", "cpu1"}) {
    const std::filesystem::path caches = cpus / name / "cache";
    list_cache(caches / "index0", "1", "48K", name + 3);
    list_cache(caches / "index2", "2", "1024K", name + 3);
    list_cache(caches / "index3", "3", "32M", "0-1");
  }
  write(cpus / "online", "0-1");
  CHECK(cache_bytes_of_cpus(folder.path()) == (2 * 1 + 32) * 1024.0 * 1024.0);
}

namespace {

/** Returns the highest speed of a product of this dtype in several runs, in flops per second. */
double product_speed(DType dtype) {
  const Tensor a = ones({512, 384}, {.dtype = dtype}), b = ones({384, 512}, {.dtype = dtype});
  double least = 1e30;
  for (int i = 0; i < 20; ++i) least = std::min(least, seconds([&] { (void)matmul(a, b); }));
  return 2.0 * 512 * 384 * 512 / least;
}

/** Returns whether the limit for products of this dtype fits the speed of a product. */
bool fits(const Roof& roof, DType dtype, double speed) {
  return speed > 0.05 * roof.flops_per_s(dtype) && speed < 2 * roof.flops_per_s(dtype);
}

}  // namespace

TEST_CASE("a roof is measured, and no product is far above it", "[roof]") {
  Roof roof = measure_roof();
  CHECK(roof.memory_bytes_per_s > 0);
  CHECK(roof.cache_bytes_per_s >= roof.memory_bytes_per_s);
  for (const DType dtype : {f32, f16, bf16}) {
    INFO(name(dtype));
    CHECK(roof.flops_per_s(dtype) >= roof.f32_flops_per_s);
    // Other programs can slow both measurements down. The best of several finds the true limits.
    constexpr int kMostMeasurements = 20;
    double speed = product_speed(dtype);
    for (int i = 1; i < kMostMeasurements && !fits(roof, dtype, speed); ++i) {
      roof = roof.best_of(measure_roof());
      speed = std::max(speed, product_speed(dtype));
    }
    INFO(speed << " of " << roof.flops_per_s(dtype));
    CHECK(fits(roof, dtype, speed));
  }
}
