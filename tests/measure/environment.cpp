// The environment that reports name, and which levels it computes in f32.
#include "../../measure/environment.h"

#include <thread>

#include "../../tensor/core/numerics.h"
#include "../../tensor/core/version.h"
#include "../../tensor/device/cpu_isa.h"
#include "../../tensor/device/parallel.h"
#include "../support/catch.h"
#include "../support/exact_products.h"
#include "../support/levels.h"

using namespace mezzo;

TEST_CASE("the environment names machine, build and time", "[environment]") {
  const int threads = num_threads();
  set_num_threads(3);
  const Environment e = environment();
  set_num_threads(threads);
  CHECK(e.device == "cpu");
  CHECK(e.hardware.find("3 threads") != std::string::npos);
  CHECK(e.threads == 3);
  CHECK(e.cores == static_cast<int>(std::thread::hardware_concurrency()));
  CHECK(e.cpu_isa == str(cpu_isa()));
  CHECK(e.multiplies_bf16 == cpu_multiplies_bf16());
  CHECK(e.exact_products == exact_products());
  CHECK(e.version == version());
  CHECK_FALSE(e.commit.empty());
  CHECK(e.commit != "MEZZO_COMMIT");
  CHECK((e.compiler.starts_with("gcc ") || e.compiler.starts_with("clang ")));
  CHECK(e.flags.find("buildtype=") == 0);
  CHECK(e.flags.find("cpu_arch=") != std::string::npos);
  CHECK(e.date.size() == 20);
  CHECK(e.date.substr(0, 2) == "20");
  CHECK(e.date[10] == 'T');
  CHECK(e.date.back() == 'Z');
  CHECK_THROWS_AS(environment({DeviceKind::cuda, 63}), DeviceError);
}

TEST_CASE("only levels that compute their products in f32 are emulated", "[environment]") {
  const auto emulated = [] {
    std::string found;
    for (const char* level : levels::names())
      if (emulates_level(level)) found += level;
    return found;
  };
  const std::string kind = cpu_product_kind();
  CHECK(emulated() == (kind == "amx" ? "" : kind == "bf16" ? "O1O2O3" : "O1O2O3O4O5"));
  {
    const ExactProducts exact(true);
    CHECK(emulated() == "O1O2O3O4O5");
  }
  CHECK_FALSE(emulates_level("O9"));
  CHECK_FALSE(emulates_level("O2", {DeviceKind::cuda, 0}));
}
