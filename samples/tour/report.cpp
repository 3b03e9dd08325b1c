#include "chapters.h"

#include <mezzo.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace samples::tour {

using namespace mezzo;

namespace {

constexpr int kSteps = 1000;

void train(const std::string& level, amp::ReportFile& file, const ReportFinding& settings) {
  const SmallTask task = make_small_task();
  optim::Adam optimizer(task.net.parameters(), {.lr = settings.lr});
  auto session = amp::initialize(task.net, optimizer, {.opt_level = level, .verbosity = 0});
  const amp::Report report({.model = task.net, .optimizer = optimizer, .session = session}, file,
                           {.title = "tour " + level, .group = "tour", .every = settings.every});
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    amp::scale_loss(task.loss(), optimizer, [](const Tensor& scaled) { scaled.backward(); });
    optimizer.step();
  }
}

/** Adds what a line says about a step. */
void read_step(const nlohmann::json& line, RecordedRun& run) {
  const double loss = line.at("losses").at(0).get<double>();
  if (run.steps == 0) run.first_loss = loss;
  run.last_loss = loss;
  run.last_scale = line.at("scales").at(0).get<double>();
  if (line.at("results").at(0) == "skipped") ++run.skipped;
  ++run.steps;
}

/** Adds the updates in the histograms of a sampled step. */
void read_sample(const nlohmann::json& line, RecordedRun& run) {
  for (const auto& row : line.at("rows"))
    if (row.at("kind") == "update") {
      run.updates += row.at("n").get<std::int64_t>();
      run.no_effect += row.at("zero").get<std::int64_t>();
    }
}

/** Reads the lines of a report. */
std::vector<RecordedRun> read_runs(const std::string& path) {
  std::vector<RecordedRun> runs;
  std::ifstream lines(path);
  for (std::string text; std::getline(lines, text);) {
    const auto line = nlohmann::json::parse(text);
    const std::string type = line.at("type");
    if (type == "run") runs.push_back({.level = line.at("level")});
    if (type == "step") read_step(line, runs.back());
    if (type == "sample") read_sample(line, runs.back());
  }
  return runs;
}

void tell_runs(Guide& guide, const std::vector<RecordedRun>& runs) {
  Table table{.header = {"level", "first loss", "last loss", "skipped", "last scale",
                         "updates without effect"},
              .rows = {}};
  for (const RecordedRun& run : runs)
    table.rows.push_back(
        {run.level, fixed(run.first_loss, 3), fixed(run.last_loss, 3), str(run.skipped),
         power_text(run.last_scale),
         percent(static_cast<double>(run.no_effect) / static_cast<double>(run.updates))});
  guide.show(table);
}

/** Names the panels of the page and the chapters behind them. */
void tell_panels(Guide& guide) {
  guide.say(
      "Open the page (it needs no network) and choose the run at O3 at its top. Its panels, and "
      "the chapters behind them:");
  for (const char* line : {
           " 1 Training: the curves, and the steps that were skipped",
           " 2 Verdict: what was lost, and what to do about it",
           " 3 Where the numbers live: underflow and overflow by layer (3, 4)",
           " 4 Loss scale: over the steps, with what was skipped (4)",
           " 5 Updates beside their weights: the 2^-11 rule (2, 5)",
           " 6 The model: the type of each op, and where casts are (6)",
           " 7 Memory over a step: weights, masters, gradients (5)",
           " 8 Levels side by side: losses next to those of O0",
           " 9 Policy: the tags of all ops (6)",
           "10 Number explorer: any number, bit by bit (1, 2, 7)",
           "11 Lesson: eight questions about this very run",
       })
    guide.show(line);
  guide.show("");
}

}  // namespace

ReportFinding find_report(const std::string& page) {
  ReportFinding found;
  found.lr = 5e-5;
  found.every = 50;
  amp::ReportFile file(page);
  for (const char* level : {"O0", "O2", "O3"}) train(level, file, found);
  file.close();
  found.runs = read_runs(file.lines_path());
  return found;
}

void tell_report(Guide& guide) {
  guide.chapter(8, "Reading a report");
  guide.say(
      "amp::Report watches a training and makes a page of it: how large the activations, "
      "gradients, weights and updates are, what the loss scale does, what each level changes. It "
      "takes one line in a program, and the option --report in each sample.");
  guide.ask(str("The small net learns from the same first weights at O0, O2 and O3, for ", kSteps,
                " steps of Adam. Which loss is lower at the end, O2's or O3's? Does O2 skip steps? "
                "And at which level do updates have no effect?"));
  const ReportFinding found = find_report(guide.report());
  tell_runs(guide, found.runs);
  guide.show("The page: " + guide.report());
  guide.explain(
      "At O3 many updates are below 2^-11 of their weight and are lost (chapter 5), so it learns "
      "more slowly; O2 has masters, and skips a step until its loss scale fits (chapter 4).");
  tell_panels(guide);
}

}  // namespace samples::tour
