// The verdict of a report: six kinds of case, each with 10 random nets, and healthy runs.
#include <filesystem>

#include <mezzo.h>
#include <unistd.h>

#include "../../amp/report/verdict.h"
#include "../support/catch.h"

using namespace mezzo;
using amp::report::Finding;

namespace {

struct Case {
  const char* level = "O1";
  std::optional<amp::LossScale> scale = {};
  std::optional<double> least_scale = {};
  double loss_factor = 1, lr = 1e-2, input_factor = 1;
  bool exp_in_half = false;
  int steps = 12;
};

/** Trains a random net and returns the findings of its report. */
std::vector<Finding> findings_of(const Case& c, std::uint64_t seed) {
  const std::string path = std::filesystem::temp_directory_path() /
                           ("mezzo_verdict_" + std::to_string(::getpid()) + ".jsonl");
  manual_seed(seed);
  const auto width = static_cast<std::int64_t>(16 + seed * 7 % 33);
  const std::int64_t in = 8 + static_cast<std::int64_t>(seed % 5), classes = 4;
  const nn::Sequential net{nn::Linear{in, width}, nn::ReLU{}, nn::Linear{width, width}, nn::Tanh{},
                           nn::Linear{width, classes}};
  {
    optim::SGD optimizer(net.parameters(), {.lr = c.lr});
    auto session = amp::initialize(net, optimizer,
                                   {.opt_level = c.level,
                                    .loss_scale = c.scale,
                                    .verbosity = 0,
                                    .min_loss_scale = c.least_scale,
                                    .max_consecutive_skips = 0});
    std::optional<amp::policy_override> as_half;
    if (c.exp_in_half)
      as_half.emplace(
          std::initializer_list<std::pair<std::string_view, Precision>>{{"exp", Precision::low}});
    const amp::Report report(net, optimizer, session, path, {.every = 3});
    const Tensor x = randn({32, in}) * c.input_factor, y = randint(0, classes, {32});
    for (int step = 0; step < c.steps; ++step) {
      Tensor loss = cross_entropy(net(x), y) * c.loss_factor;
      if (c.exp_in_half) loss = loss + mean(log(exp(net(x) + 12)));
      optimizer.zero_grad();
      amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
      optimizer.step();
    }
  }
  const amp::report::ReportData data = amp::report::read_report({path});
  std::filesystem::remove(path);
  REQUIRE(data.runs.size() == 1);
  return amp::report::verdict(data.runs[0]);
}

void check_each(const Case& c, const std::string& kind) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const std::vector<Finding> findings = findings_of(c, seed);
    std::string text = "seed " + std::to_string(seed) + ":";
    bool found = false;
    for (const Finding& finding : findings) {
      text += " [" + finding.kind + "] " + finding.text;
      found = found || finding.kind == kind;
    }
    INFO(text);
    CHECK(found);
  }
}

}  // namespace

TEST_CASE("a verdict names gradients that underflow", "[amp][report]") {
  check_each({.level = "O3", .scale = amp::LossScale(1.0), .loss_factor = 1e-5}, "underflow");
}

TEST_CASE("a verdict names gradients that overflow", "[amp][report]") {
  check_each({.level = "O2", .least_scale = 0x1p22, .loss_factor = 10}, "overflow");
}

TEST_CASE("a verdict names updates that are lost", "[amp][report]") {
  check_each({.level = "O3", .scale = amp::LossScale(128.0), .lr = 1e-5}, "lost_update");
}

TEST_CASE("a verdict names an op with the wrong precision tag", "[amp][report]") {
  check_each({.exp_in_half = true}, "wrong_tag");
}

TEST_CASE("a verdict says that f16 would do", "[amp][report]") {
  check_each({.level = "O0"}, "fine_in_f16");
}

TEST_CASE("a verdict says that bf16 is needed", "[amp][report]") {
  check_each({.level = "O0", .lr = 1e-9, .input_factor = 3e6}, "needs_bf16");
}

TEST_CASE("a verdict is silent on healthy runs", "[amp][report]") {
  for (const char* level : {"O1", "O2", "O4", "O5"}) check_each({.level = level}, "healthy");
}
