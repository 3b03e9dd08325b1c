// amp::Report of captured steps: sampled steps run op by op, and replays are counted.
#include "../../measure/report/run_data.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "../support/catch.h"
#include "training.h"

using namespace captured;
using amp::report::Kind;

namespace {

/** A report file that is removed in the end. */
struct ReportPath {
  std::string path = std::filesystem::temp_directory_path() /
                     ("mezzo_gpu_report_" + std::to_string(::getpid()) + ".jsonl");
  ~ReportPath() { std::filesystem::remove(path); }
};

std::int64_t count_rows(const amp::report::Sample& sample, Kind kind) {
  return std::count_if(sample.rows.begin(), sample.rows.end(),
                       [&](const auto& row) { return row.kind == kind; });
}

/** Trains with captured steps, recorded into a file if there is one. Returns losses and weights. */
std::vector<double> trained_losses(const std::string& level, std::int64_t steps,
                                   const std::string& path) {
  manual_seed(3);
  Net net;
  net.to(kDevice);
  optim::Adam optimizer(net.parameters(), {.lr = 1e-2});
  const std::vector<Tensor> data = batch(8, false);
  amp::Session session = amp::initialize(net, optimizer, {.opt_level = level, .verbosity = 0});
  std::optional<amp::Report> report;
  if (!path.empty()) report.emplace(net, optimizer, session, path, amp::ReportOptions{.every = 4});
  gpu::CapturedStep step(training_step(net, optimizer), {kDevice});
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < steps; ++i) {
    const Tensor loss = step(data)[0];
    const NoGrad evaluation;  // reading the loss is no activation of the next step
    add_all(numbers, loss);
  }
  CHECK(step.captures() == 1);
  for (const Tensor& p : net.parameters()) add_all(numbers, p);
  add_all(numbers, optimizer.state_dict());
  return numbers;
}

}  // namespace

TEST_CASE("a report of captured steps samples them and counts replays", "[gpu][graph][report]") {
  NEED_DEVICE();
  for (const std::string level : {"O0", "O1", "O2", "O5"}) {
    INFO(level);
    const ReportPath file;
    const std::vector<double> without = trained_losses(level, 14, "");
    CHECK(same(trained_losses(level, 14, file.path), without));
    const auto data = amp::report::read_report({file.path});
    REQUIRE(data.runs.size() == 1);
    const auto& run = data.runs[0];
    CHECK(run.complete);
    REQUIRE(run.steps.size() == 14);
    for (std::size_t i = 0; i < run.steps.size(); ++i) {
      CHECK(run.steps[i].step == static_cast<std::int64_t>(i));
      CHECK(run.steps[i].sampled == (i % 4 == 0));
      if (i % 4 == 0) CHECK(run.steps[i].losses == std::vector<double>{without[i]});
    }
    REQUIRE(run.samples.size() == 4);
    for (const auto& sample : run.samples) {
      INFO("step " << sample.step);
      CHECK(count_rows(sample, Kind::activation) >= 5);
      CHECK(count_rows(sample, Kind::activation_grad) >= 5);
      CHECK(count_rows(sample, Kind::weight_grad) == 6);
    }
  }
}

TEST_CASE("replays of a graph are steps that are not sampled", "[gpu][graph][report]") {
  NEED_DEVICE();
  const ReportPath file;
  Net net;
  net.to(kDevice);
  optim::Adam optimizer(net.parameters());
  amp::Session session = amp::initialize(net, optimizer, {.opt_level = "O1", .verbosity = 0});
  const std::vector<Tensor> data = batch(8, false);
  const auto step = training_step(net, optimizer);
  gpu::Graph graph;
  {
    const amp::Report report(net, optimizer, session, file.path, {.every = 1});
    step(data);
    graph.capture(kDevice, [&] { step(data); });
    for (int i = 0; i < 3; ++i) graph.replay();
  }
  graph.replay();  // the report does not exist any more
  const auto run = amp::report::read_report({file.path}).runs.at(0);
  REQUIRE(run.steps.size() == 4);
  CHECK(run.steps[0].sampled);
  for (std::size_t i = 1; i < 4; ++i) CHECK_FALSE(run.steps[i].sampled);
  CHECK(run.complete);
}
