// amp::Report: its rows against the tensors, its effect on the training, and bad input.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <mezzo.h>
#include <unistd.h>

#include "../../measure/report/findings.h"
#include "../../measure/report/run_data.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;
using amp::report::Histogram;
using amp::report::Kind;
using amp::report::ReportData;

namespace {

/** A folder that is removed at the end of the test. */
struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("mezzo_report_" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const char* name) const { return path / name; }
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/** Returns the counts of a tensor by exponent, by std::ilogb. */
std::map<int, std::int64_t> reference(const Tensor& x) {
  std::map<int, std::int64_t> counts;
  for (const double v : x.to(f64).to_vector<double>())
    if (v != 0 && std::isfinite(v)) ++counts[std::ilogb(v)];
  return counts;
}

std::map<int, std::int64_t> by_exponent(const Histogram& h) {
  std::map<int, std::int64_t> counts;
  for (std::size_t i = 0; i < h.counts.size(); ++i)
    if (h.counts[i] > 0) counts[h.lowest + static_cast<int>(i)] = h.counts[i];
  return counts;
}

nn::Sequential small_net() {
  manual_seed(3);
  return nn::Sequential{nn::Linear{6, 16}, nn::ReLU{}, nn::Linear{16, 4}};
}

/** Trains for some steps and returns the losses. Writes a report if there is a path. */
std::vector<double> train(const char* level, const std::string& path, int steps,
                          std::int64_t every = 1) {
  const nn::Sequential net = small_net();
  optim::Adam optimizer(net.parameters(), {.lr = 1e-2});
  auto session = amp::initialize(net, optimizer, {.opt_level = level, .verbosity = 0});
  std::unique_ptr<amp::Report> report;
  if (!path.empty())
    report = std::make_unique<amp::Report>(net, optimizer, session, path,
                                           amp::ReportOptions{.every = every});
  const Tensor x = randn({8, 6}), y = randint(0, 4, {8});
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const Tensor loss = cross_entropy(net(x), y);
    losses.push_back(loss.item<double>());
    optimizer.zero_grad();
    amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
    optimizer.step();
  }
  return losses;
}

}  // namespace

TEST_CASE("histograms of a report equal those of the exported tensors", "[amp][report]") {
  const Folder folder;
  const std::string path = folder.file("run.jsonl");
  struct Exported {
    Tensor weight, gradient, update;
  };
  std::vector<std::map<std::string, Exported>> steps;
  {
    const nn::Sequential net = small_net();
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    auto session =
        amp::initialize(net, optimizer, {.opt_level = "O1", .loss_scale = 1024.0, .verbosity = 0});
    const amp::Report report(net, optimizer, session, path, {.every = 2});
    const Tensor x = randn({8, 6}), y = randint(0, 4, {8});
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      amp::scale_loss(cross_entropy(net(x), y), optimizer,
                      [](const Tensor& scaled) { scaled.backward(); });
      std::map<std::string, Exported> exported;
      for (const nn::NamedTensor& p : net.named_parameters())
        exported[p.name] = {p.tensor.detach().clone(), p.tensor.grad().clone(), {}};
      optimizer.step();
      for (const nn::NamedTensor& p : net.named_parameters())
        exported[p.name].update = p.tensor.detach() - exported[p.name].weight;
      steps.push_back(std::move(exported));
    }
  }
  const ReportData data = amp::report::read_report({path});
  REQUIRE(data.runs.size() == 1);
  CHECK(data.runs[0].complete);
  REQUIRE(data.runs[0].steps.size() == 5);
  REQUIRE(data.runs[0].samples.size() == 3);
  std::map<Kind, int> compared;
  for (const amp::report::Sample& sample : data.runs[0].samples)
    for (const amp::report::SampleRow& row : sample.rows) {
      ++compared[row.kind];
      if (row.kind == Kind::activation || row.kind == Kind::activation_grad) continue;
      const Exported& exported = steps[static_cast<std::size_t>(sample.step)].at(row.name);
      const Tensor& x = row.kind == Kind::weight        ? exported.weight
                        : row.kind == Kind::weight_grad ? exported.gradient
                                                        : exported.update;
      INFO(row.name << ", step " << sample.step);
      CHECK(by_exponent(row.histogram) == reference(x));
      CHECK(row.histogram.largest == amax(abs(x)).item<double>());
      CHECK(row.scale == 1);
      if (row.kind == Kind::update) {
        REQUIRE(row.ratio);
        const Tensor ratio = exported.update / exported.weight;
        CHECK(by_exponent(*row.ratio) == reference(ratio));
      }
    }
  // linear, relu, linear, loss; their gradients; 4 parameters
  CHECK(compared[Kind::activation] >= 12);
  CHECK(compared[Kind::activation_grad] >= 9);
  for (const Kind kind : {Kind::weight, Kind::weight_grad, Kind::update})
    CHECK(compared[kind] == 12);
}

TEST_CASE("a report changes no bit of a training", "[amp][report]") {
  const Folder folder;
  for (const amp::Level& level : amp::kLevels) {
    const std::string path = folder.file("bits.jsonl");
    const auto plain = train(level.name.data(), {}, 6),
               observed = train(level.name.data(), path, 6);
    CHECK(plain == observed);
    const ReportData data = amp::report::read_report({path});
    REQUIRE(data.runs[0].steps.size() == 6);
    for (std::size_t i = 0; i < 6; ++i) {
      REQUIRE(data.runs[0].steps[i].losses.size() == 1);
      CHECK(data.runs[0].steps[i].losses[0] == plain[i]);
    }
  }
}

namespace {

/** Returns the loss scales that the lines of a report state. */
std::vector<double> recorded_scales(const std::string& path) {
  std::vector<double> scales;
  const ReportData data = amp::report::read_report({path});
  for (const amp::report::StepLine& step : data.runs.at(0).steps) {
    REQUIRE(step.scales.size() == 1);
    scales.push_back(step.scales[0]);
  }
  return scales;
}

}  // namespace

TEST_CASE("a step's line states the loss scale the step was computed with", "[amp][report]") {
  const Folder folder;
  const std::string path = folder.file("scales.jsonl");
  const nn::Sequential net = small_net();
  optim::SGD optimizer(net.parameters(), {.lr = 0.01});
  const Tensor x = randn({8, 6}), y = randint(0, 4, {8});
  constexpr int kSteps = 5, kOverflow = 2;
  // The factor makes infinite gradients from a finite loss.
  const auto loss_at = [&](int step) {
    return cross_entropy(net(x), y) * (step == kOverflow ? 1e36 : 1.0);
  };
  std::vector<double> scales;
  const std::int64_t every = GENERATE(1, 100);  // all steps are sampled, or the first
  SECTION("scale_loss") {
    auto session = amp::initialize(net, optimizer, {.opt_level = "O1", .verbosity = 0});
    const amp::Report report(net, optimizer, session, path, {.every = every});
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      amp::scale_loss(loss_at(step), optimizer, [&](const Tensor& scaled) {
        scales.push_back(session.loss_scaler().loss_scale());
        scaled.backward();
      });
      optimizer.step();
    }
  }
  SECTION("GradScaler") {
    amp::GradScaler scaler;
    const amp::Report report(amp::Training{.model = net, .optimizer = optimizer, .scaler = scaler},
                             path, {.every = every});
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      Tensor loss;
      {
        const amp::autocast casts;
        loss = loss_at(step);
      }
      scales.push_back(scaler.get_scale());
      scaler.scale(loss).backward();
      scaler.step(optimizer);
      scaler.update();
    }
  }
  const std::vector<double> recorded = recorded_scales(path);
  CHECK(recorded == scales);
  REQUIRE(recorded.size() == kSteps);
  CHECK(recorded[kOverflow] == recorded[kOverflow - 1]);
  CHECK(recorded[kOverflow + 1] == recorded[kOverflow] / 2);
  const ReportData data = amp::report::read_report({path});
  CHECK(data.runs[0].steps[kOverflow].results == std::vector<std::string>{"skipped"});
  CHECK(data.runs[0].steps[kOverflow].first_nonfinite.find("0.weight") != std::string::npos);
}

TEST_CASE("gradients of activations state the loss scale they contain", "[amp][report]") {
  const Folder folder;
  std::map<double, double> largest;  // of the output layer's gradient, by loss scale
  for (const double scale : {1.0, 1024.0}) {
    const nn::Sequential net = small_net();
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    auto session =
        amp::initialize(net, optimizer, {.opt_level = "O1", .loss_scale = scale, .verbosity = 0});
    {
      const amp::Report report(net, optimizer, session, folder.file("run.jsonl"));
      const Tensor x = randn({8, 6}), y = randint(0, 4, {8});
      amp::scale_loss(cross_entropy(net(x), y), optimizer,
                      [](const Tensor& scaled) { scaled.backward(); });
      optimizer.step();
    }
    const ReportData data = amp::report::read_report({folder.file("run.jsonl")});
    for (const amp::report::SampleRow& row : data.runs[0].samples[0].rows)
      if (row.kind == Kind::activation_grad) {
        CHECK(row.scale == scale);
        if (row.name == "2 linear") largest[scale] = row.histogram.largest / row.scale;
      }
  }
  REQUIRE(largest.size() == 2);
  CHECK(largest[1024] > 0.99 * largest[1]);
  CHECK(largest[1024] < 1.01 * largest[1]);
}

TEST_CASE("a report works without session, and with several models", "[amp][report]") {
  const Folder folder;
  const nn::Linear a{3, 3}, b{3, 1};
  optim::SGD first(a.parameters(), {.lr = 0.1}), second(b.parameters(), {.lr = 0.1});
  {
    const amp::Report report(
        {.model = {{"a", a}, {"b", b}}, .optimizer = {{"first", first}, {"second", second}}},
        folder.file("two.html"), {.every = 1});
    for (int step = 0; step < 3; ++step) {
      sum(b(a(ones({2, 3})))).backward();
      first.step();
      second.step();
      first.zero_grad();
      second.zero_grad();
    }
  }
  const ReportData data = amp::report::read_report({folder.file("two.jsonl")});
  REQUIRE(data.runs[0].samples.size() == 3);
  int named = 0;
  for (const amp::report::SampleRow& row : data.runs[0].samples[0].rows)
    named += row.name == "a.weight" || row.name == "b.bias";
  CHECK(named == 6);  // weight, gradient and update of each
  CHECK(text_of(folder.file("two.html")).find("id=\"data\"") != std::string::npos);
  // No model, no optimizer: nothing to record, but a page.
  { const amp::Report report(amp::Training{}, folder.file("none.html")); }
  CHECK(std::filesystem::file_size(folder.file("none.html")) > 10000);
}

TEST_CASE("a report that cannot be written is an error before the training", "[amp][report]") {
  const Folder folder;
  const amp::Training nothing;
  CHECK_THROWS_AS(amp::Report(nothing, folder.file("run.txt")), ValueError);
  CHECK_THROWS_AS(amp::Report(nothing, folder.file("absent/run.html")), IoError);
  CHECK_THROWS_AS(amp::Report(nothing, folder.file("absent/run.jsonl")), IoError);
  CHECK_THROWS_AS(amp::Report(nothing, folder.file("run.html"), {.every = 0}), ValueError);
  std::filesystem::create_directory(folder.path / "folder.html");
  CHECK_THROWS_AS(amp::Report(nothing, folder.file("folder.html")), IoError);
}

TEST_CASE("a full disk drops the report and not the training", "[amp][report]") {
  const Folder folder;
  std::filesystem::create_symlink("/dev/full", folder.path / "full.jsonl");
  std::vector<std::string> lines;
  auto former = set_log_sink([&](Severity, std::string_view line) { lines.emplace_back(line); });
  const auto losses = train("O1", folder.file("full.jsonl"), 4);
  set_log_sink(std::move(former));
  CHECK(losses.size() == 4);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("dropped") != std::string::npos);
}

TEST_CASE("a truncated file gives a page, and other files are refused", "[amp][report]") {
  const Folder folder;
  train("O2", folder.file("run.jsonl"), 5);
  const std::string whole = text_of(folder.file("run.jsonl"));
  std::ofstream(folder.file("cut.jsonl")) << whole.substr(0, whole.size() - 200);
  amp::write_report_page({folder.file("cut.jsonl")}, folder.file("cut.html"));
  CHECK(std::filesystem::file_size(folder.file("cut.html")) > 10000);
  const ReportData cut = amp::report::read_report({folder.file("cut.jsonl")});
  CHECK(cut.cut_off);
  CHECK_FALSE(cut.runs[0].complete);
  for (const char* content : {"", "hello\n", "[]\n", "{}\n", "{\"type\":\"step\",\"run\":0}\n",
                              "{\"type\":\"run\",\"run\":0,\"format\":2}\n",
                              "{\"type\":\"run\",\"run\":7,\"format\":1}\n"}) {
    std::ofstream(folder.file("bad.jsonl")) << content;
    INFO(content);
    std::string error;
    try {
      amp::write_report_page({folder.file("bad.jsonl")}, folder.file("bad.html"));
    } catch (const FormatError& e) {
      error = e.what();
    }
    CHECK(error.starts_with(folder.file("bad.jsonl") + ", line "));
    CHECK(error.find("bad.jsonl") == error.rfind("bad.jsonl"));  // the error names it once
  }
  CHECK_THROWS_AS(amp::write_report_page({folder.file("absent.jsonl")}, folder.file("x.html")),
                  IoError);
  CHECK_THROWS_AS(amp::write_report_page({}, folder.file("x.html")), ValueError);
  CHECK_THROWS_AS(
      amp::write_report_page({folder.file("run.jsonl")}, folder.file("x.html"), {.samples = 3}),
      ValueError);
}

TEST_CASE("numbers of the program and learning rates are recorded at their steps",
          "[amp][report]") {
  const Folder folder;
  const std::string path = folder.file("run.html"), events = folder.file("events");
  {
    const nn::Sequential net = small_net();
    optim::SGD optimizer(net.parameters(), {.lr = 0.5});
    data::Dataset set{randn({8, 6}), randint(0, 4, {8})};
    data::Batches batches = set.batches({.size = 4});
    auto session = amp::initialize(net, optimizer, {.opt_level = "O4", .verbosity = 0});
    amp::Report report(
        {.model = net, .optimizer = optimizer, .session = session, .loader = batches}, path,
        {.every = 2, .tensorboard = events});
    report.log("before", 1);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      amp::scale_loss(cross_entropy(net(set.x()), set.y()), optimizer,
                      [](const Tensor& scaled) { scaled.backward(); });
      report.log("within", step);
      optimizer.set_lr(0.5 / (step + 1));
      optimizer.step();
      report.log("validation loss", step == 1 ? std::nan("") : 10 + step);
    }
    CHECK_THROWS_WITH_AS_TEXT(report.log("", 1), ValueError, "amp::Report::log: the name is empty");
    report.close();
    report.log("after", 1);
  }
  const amp::report::RunData run = amp::report::read_report({folder.file("run.jsonl")}).runs[0];
  std::map<std::string, std::vector<std::pair<std::int64_t, double>>> logs;
  for (const auto& line : run.logs) logs[line.name].emplace_back(line.step, line.value);
  using Points = std::vector<std::pair<std::int64_t, double>>;
  CHECK(logs["before"] == Points{{0, 1}});
  CHECK(logs["within"] == Points{{0, 0}, {1, 1}, {2, 2}});
  REQUIRE(logs["validation loss"].size() == 3);
  CHECK(std::isnan(logs["validation loss"][1].second));
  CHECK(logs["validation loss"][2] == std::pair<std::int64_t, double>{2, 12});
  CHECK(logs.size() == 3);
  REQUIRE(run.steps.size() == 3);
  CHECK(run.steps[1].lrs == std::vector<double>{0.25});
  CHECK(text_of(folder.file("run.jsonl")).find("\"samples\":4,") != std::string::npos);

  const CsvTable table = read_csv(events + "/scalars.csv");
  const std::vector<std::string> tags = table.text("tag"), steps = table.text("step"),
                                 values = table.text("value");
  const auto found = [&](const std::string& tag, const std::string& step) {
    for (std::size_t i = 0; i < tags.size(); ++i)
      if (tags[i] == tag && steps[i] == step) return values[i];
    return std::string("none");
  };
  CHECK(found("training/lr", "1") == "0.25");
  CHECK(std::stod(found("training/loss", "2")) == run.steps[2].losses[0]);
  CHECK(found("training/skipped", "0") == "0");
  CHECK(found("validation loss", "1") == "nan");
  CHECK(found("within", "2") == "2");
}

TEST_CASE("the verdict does not say that nothing is lost beside zeros and skipped steps",
          "[amp][report]") {
  const Folder folder;
  const std::string path = folder.file("run.jsonl");
  for (const bool loses : {false, true}) {
    {
      nn::Sequential net = small_net();
      optim::Adam optimizer(net.parameters(), {.lr = 1e-3});
      auto session = amp::initialize(net, optimizer, {.opt_level = "O1", .verbosity = 0});
      const amp::Report report(net, optimizer, session, path, {.every = 1});
      Tensor x = randn({8, 6});
      if (loses) x[{0, 0}] = 1e-9;  // 0 in f16
      const Tensor y = randint(0, 4, {8});
      for (int step = 0; step < 40; ++step) {
        optimizer.zero_grad();
        const double factor = loses && step == 3 ? 1e30 : 1;
        amp::scale_loss(cross_entropy(net(x), y) * factor, optimizer,
                        [](const Tensor& scaled) { scaled.backward(); });
        optimizer.step();
      }
    }
    const auto findings = amp::report::verdict(amp::report::read_report({path}).runs[0]);
    REQUIRE(findings.size() == 1);
    INFO(findings[0].text);
    CHECK(findings[0].kind == "healthy");
    const auto has = [&](const char* part) {
      return findings[0].text.find(part) != std::string::npos;
    };
    CHECK(has("Nothing that counts is lost in f16") == loses);
    CHECK(has("elements zero, each below half of the smallest") == loses);
    CHECK(has("1 of 40 steps") == loses);
  }
}
