// Compares the first losses of every net at every level with those in curves.txt and PyTorch's.
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "../../samples/bench/workload.h"
#include "../support/catch.h"
#include "../support/device.h"
#include "../support/levels.h"
#include "../support/test_data.h"
#include "curves_path.h"

using namespace samples;

namespace {

using Curve = std::vector<double>;

/** Returns {net, level}: losses. */
std::map<std::pair<std::string, std::string>, Curve> kept_curves() {
  std::map<std::pair<std::string, std::string>, Curve> curves;
  std::ifstream file(mezzo::testing::test_data(kCurvesPath, "samples/curves.txt"));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string net, level;
    words >> net >> level;
    Curve& curve = curves[{net, level}];
    for (double loss = 0; words >> loss;) curve.push_back(loss);
  }
  return curves;
}

double largest_difference(const Curve& a, const Curve& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return largest;
}

/** Processors and compilers differ in the order of f32 sums, and a difference may change how a
 *  16-bit value rounds. Relative changes of 1e-7 in the initial weights changed these losses by up
 *  to 1e-6 at O0 and 8e-3 at the other levels. */
double tolerance(const std::string& level) { return level == "O0" ? 1e-4 : 2e-2; }

/** On an emulated device the other nets take minutes. */
bool trains_here(const std::string& net) {
  return mezzo::testing::test_device() == mezzo::cpu || net == "char_gpt" || net == "lenet" ||
         net == "mlp";
}

}  // namespace

TEST_CASE("every net's losses match the stored ones and PyTorch's", "[curves]") {
  const auto curves = kept_curves();
  for (const NetEntry& entry : all_nets()) {
    const std::string net(entry.name);
    if (!trains_here(net)) continue;
    const auto torch = curves.find({net, "torch"});
    REQUIRE(torch != curves.end());
    for (const char* level : levels::names()) {
      INFO(net << " " << level);
      const auto kept = curves.find({net, level});
      REQUIRE(kept != curves.end());
      REQUIRE(kept->second.size() == 20);
      const auto workload =
          make_workload(net, {.level = level, .device = mezzo::testing::test_device()});
      Curve losses;
      for (std::int64_t i = 0; i < 20; ++i) losses.push_back(workload->step(i).loss);
      CHECK(largest_difference(losses, kept->second) < tolerance(level));
      if (std::string(level) == "O0") CHECK(largest_difference(losses, torch->second) < 1e-4);
    }
  }
}
