// bench::measure: the order of turns, groups, statistics of the turns, and what is reported.
#include "../../measure/bench.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>
#include <tuple>

#include "../../measure/report/run_data.h"
#include "../../nn/linear.h"
#include "../../nn/loss.h"
#include "../../optim/sgd.h"
#include "../../tensor/ops/create.h"
#include "../../tensor/ops/random/random.h"
#include "../../tensor/ops/reduce/reduce.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;
using bench::Row;

namespace {

constexpr Roof kBenchRoof{.f32_flops_per_s = 1e12, .memory_bytes_per_s = 1e12};

bench::Options options(std::vector<std::string> levels, std::int64_t steps) {
  return {
      .levels = std::move(levels), .warm_up = 1, .steps = steps, .seconds = 0, .roof = kBenchRoof};
}

/** A workload that records its steps and does what the test wants in each. */
class Recorded final : public bench::Workload {
 public:
  Recorded(std::string name, std::vector<std::string>& log, std::function<void(std::int64_t)> work)
      : name_(std::move(name)), log_(log), work_(std::move(work)) {
    samples = 10;
  }
  bench::StepOutcome step(std::int64_t number) override {
    if (log_.empty() || log_.back() != name_) log_.push_back(name_);
    if (work_) work_(number);
    // The loss depends on this thread's generator, as with dropout.
    return {.loss = rand({1}).item<double>() + static_cast<double>(number), .skipped = number == 2};
  }

 private:
  std::string name_;
  std::vector<std::string>& log_;
  std::function<void(std::int64_t)> work_;
};

bench::Net recorded(const std::string& name, std::vector<std::string>& log,
                    std::function<void(std::int64_t)> work = {}) {
  return {name, [=, &log](const bench::Setting& s) -> std::unique_ptr<bench::Workload> {
            return std::make_unique<Recorded>(name + s.level, log, work);
          }};
}

/** A net that holds so much memory. */
bench::Net holding(const std::string& name, std::int64_t bytes, std::vector<std::string>& log) {
  return {name, [=, &log](const bench::Setting& s) -> std::unique_ptr<bench::Workload> {
            const Tensor held = empty({bytes}, {.dtype = u8});
            return std::make_unique<Recorded>(name + s.level, log, [held](std::int64_t) {});
          }};
}

std::unique_ptr<bench::Workload> trained(const bench::Setting& setting) {
  const nn::Linear model(256, 4);
  const auto optimizer =
      std::make_shared<optim::SGD>(model.parameters(), optim::SgdOptions{.lr = 0.01});
  return bench::supervised(setting,
                           {.model = model,
                            .optimizer = optimizer,
                            .loss = [model](const Batch& b) { return mse_loss(model(b.x), b.y); },
                            .batches = {{rand({1000, 256}), rand({1000, 4})}}});
}

void pause(double ms) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

}  // namespace

TEST_CASE("every level of every net has a turn in each round", "[bench]") {
  std::vector<std::string> log;
  const auto nets = {recorded("a", log), recorded("b", log)};
  // One step of warm-up for each, then turns of 5 steps, the last of 3, then one step to count.
  const std::vector<std::string> round{"aO0", "aO2", "bO0", "bO2"};
  std::vector<std::string> together, alone;
  for (int i = 0; i < 4; ++i) together.insert(together.end(), round.begin(), round.end());
  for (const char* net : {"a", "b"})
    for (int i = 0; i < 4; ++i)
      for (const char* level : {"O0", "O2"}) alone.push_back(std::string(net) + level);

  const bench::Results results = measure(nets, options({"O0", "O2"}, 9));
  CHECK(log == together);
  log.clear();
  bench::Options one_by_one = options({"O0", "O2"}, 9);
  one_by_one.together = 1;
  const bench::Results separate = measure(nets, one_by_one);
  CHECK(log == alone);

  REQUIRE(results.rows.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const Row &row = results.rows[i], &other = separate.rows[i];
    INFO(row.net << " " << row.level);
    CHECK(row.losses.size() == 9);
    CHECK(row.losses == other.losses);  // also where steps draw random numbers
    CHECK(row.loss == row.losses.back());
    CHECK(row.skipped_steps == 1);
    CHECK(row.times_ms.size() == 9);
    CHECK(row.samples == 10);
  }
  CHECK(results.rows[0].losses == results.rows[1].losses);  // the same seed at each level
}

TEST_CASE("losses do not depend on random numbers drawn elsewhere", "[bench]") {
  std::vector<std::string> log;
  const bench::Net net = recorded("a", log);
  const auto losses = [&] { return measure({net}, options({"O0"}, 4)).rows[0].losses; };
  manual_seed(5);
  const Generator before = default_generator();
  const std::vector<double> first = losses();
  CHECK(default_generator() == before);
  manual_seed(6);
  (void)rand({3});
  CHECK(losses() == first);
  bench::Options other_seed = options({"O0"}, 4);
  other_seed.seed = 2;
  CHECK(measure({net}, other_seed).rows[0].losses != first);
}

TEST_CASE("nets that do not fit into memory together are measured in groups", "[bench]") {
  constexpr std::int64_t kMega = 1 << 20;
  std::vector<std::string> log;
  const auto nets = {holding("a", 4 * kMega, log), holding("b", 4 * kMega, log),
                     holding("c", 4 * kMega, log), holding("d", 40 * kMega, log)};
  bench::Options limited = options({"O0"}, 6);
  limited.memory = 9 * kMega;
  const bench::Results results = measure(nets, limited);
  // Warm-up of a and b; c does not fit. Their turns and last steps. Then c, d does not fit, d.
  CHECK(log == std::vector<std::string>{"aO0", "bO0", "cO0", "aO0", "bO0", "aO0", "bO0", "cO0",
                                        "dO0", "cO0", "dO0"});
  for (const Row& row : results.rows) {
    CHECK(row.error.empty());
    CHECK(row.losses.size() == 6);
    CHECK(row.losses == results.rows[0].losses);
  }
  CHECK(results.rows[0].memory[MemoryCategory::other].peak >= 4 * kMega);
}

TEST_CASE("a net without memory beside another is measured alone", "[bench]") {
  std::vector<std::string> log;
  const std::int64_t before = memory_stats()[MemoryCategory::other].current;
  const bench::Net needs_all{"b", [&](const bench::Setting& s) -> std::unique_ptr<bench::Workload> {
                               if (memory_stats()[MemoryCategory::other].current > before)
                                 fail<OutOfMemory>("test", {.what = "another net is there"});
                               return std::make_unique<Recorded>("b" + s.level, log,
                                                                 [](std::int64_t) {});
                             }};
  const bench::Results results =
      measure({holding("a", 1 << 20, log), needs_all}, options({"O0"}, 6));
  for (const Row& row : results.rows) CHECK(row.error.empty());
  CHECK(log == std::vector<std::string>{"aO0", "bO0"});
}

TEST_CASE("a row with a wide interval is unstable", "[bench]") {
  Row row;
  row.step_ms = {.value = 10, .low = 9.6, .high = 10.5};
  CHECK_FALSE(row.unstable());
  row.step_ms.high = 10.7;
  CHECK(row.unstable());
  row.step_ms = median_interval({10, 10, 10});  // no interval
  CHECK(row.unstable());
  row.step_ms = median_interval({10, 10, 10, 10, 10, 10});
  CHECK_FALSE(row.unstable());
}

TEST_CASE("steady times are stable, jumping ones are not", "[bench]") {
  std::vector<std::string> log;
  std::int64_t calls = 0;
  const bench::Net steady = recorded("steady", log, [](std::int64_t) { pause(2); });
  // Every other turn is three times as long.
  const bench::Net jumping = recorded("jumping", log, [&](std::int64_t number) {
    ++calls;
    pause(number > 0 && (number - 1) / 5 % 2 == 0 ? 1 : 3);
  });
  const bench::Results results = measure({steady, jumping}, options({"O0", "O3"}, 1 + 12 * 5));
  const Row& calm = results.rows[0];
  CHECK_FALSE(calm.unstable());
  CHECK(calm.step_ms.value >= 2);
  CHECK(calm.step_ms.low <= calm.step_ms.value);
  CHECK(calm.step_ms.value <= calm.step_ms.high);
  CHECK(calm.over_o0.value == 1);
  CHECK(results.rows[1].over_o0.low <= results.rows[1].over_o0.value);
  CHECK(std::abs(results.rows[1].over_o0.value - 1) < 0.2);
  CHECK(results.rows[2].unstable());
  CHECK(std::abs(results.rows[3].over_o0.value - 1) < 0.2);  // the ratio of turns of one round
  CHECK(table(results).find("Unstable (") != std::string::npos);
}

namespace {

/** Returns a stable row whose step takes so many times that of O0. */
Row measured(const std::string& net, const std::string& level, double over_o0) {
  Row row;
  row.net = net;
  row.level = level;
  row.step_ms = {.value = 10 * over_o0, .low = 9.9 * over_o0, .high = 10.1 * over_o0};
  row.over_o0 = {.value = over_o0, .low = over_o0, .high = over_o0};
  return row;
}

/** Returns the rows of "mlp" and "lenet" with O0 and these levels: name, both ratios. */
bench::Results of_levels(const std::vector<std::tuple<std::string, double, double>>& levels) {
  bench::Results results;
  for (const bool first : {true, false}) {
    const std::string net = first ? "mlp" : "lenet";
    results.rows.push_back(measured(net, "O0", 1));
    for (const auto& [level, mlp, lenet] : levels)
      results.rows.push_back(measured(net, level, first ? mlp : lenet));
  }
  return results;
}

const std::string kTake = ": no level that updates weights in f32 is more than 3 % faster";

}  // namespace

TEST_CASE("the summary says what the levels cost and which one to take", "[bench]") {
  CHECK(summary(of_levels({{"O1", 0.98, 0.6}, {"O4", 0.31, 0.49}})) ==
        "On this machine O4 takes 0.31 to 0.49 of the time of O0, O1 0.60 to 0.98.\n"
        "Take O4" +
            kTake + ".\n");
  // O4 leaves the weights in f32, so O5 has to be faster by more than 3 %, on any device.
  CHECK(summary(of_levels({{"O4", 0.5, 0.5}, {"O5", 0.49, 0.49}})) ==
        "On this machine O5 takes 0.49 of the time of O0, O4 0.50.\nTake O4" + kTake + ".\n");
  CHECK(summary(of_levels({{"O4", 0.5, 0.5}, {"O5", 0.4, 0.5}}))
            .ends_with("Take O5" + kTake + ".\n"));
  CHECK(summary(of_levels({{"O2", 0.5, 0.5}, {"O1", 0.5, 0.5}}))
            .ends_with("Take O1" + kTake + ".\n"));
  // O3 updates 16-bit weights.
  CHECK(summary(of_levels({{"O3", 0.3, 0.3}, {"O4", 0.5, 0.5}}))
            .ends_with("Take O4" + kTake + ".\n"));
  CHECK(summary(of_levels({{"O3", 0.3, 0.3}, {"O4", 1.5, 1.5}}))
            .ends_with("\nNo level that updates weights in f32 is faster for all: take O0.\n"));
  CHECK(summary(of_levels({{"O4", 0.5, 1.2}}))
            .ends_with("\nTake O4 for mlp" + kTake + "; for lenet it is no faster than O0.\n"));
}

TEST_CASE("the summary says where no level is faster", "[bench]") {
  CHECK(summary(of_levels({{"O1", 1.1, 1}, {"O4", 0.98, 2.17}})) ==
        "On this machine O1 takes 1.00 to 1.10 of the time of O0, O4 0.98 to 2.17.\n"
        "No level is faster: take O0, and another one only for its memory.\n");
}

TEST_CASE("unstable and failed rows do not count in the summary", "[bench]") {
  bench::Results results = of_levels({{"O4", 0.5, 0.1}, {"O5", 0.4, 0.6}});
  results.rows[4].step_ms.high *= 2;        // lenet O4
  results.rows[2].error = "out of memory";  // mlp O5
  CHECK(summary(results) ==
        "On this machine, by the stable rows, O4 takes 0.50 of the time of O0, O5 0.60.\n"
        "Take O4" +
            kTake + ".\n");
  results.rows[3].step_ms.high *= 2;  // lenet O0, to which its rows compare
  CHECK(
      summary(results).starts_with("On this machine, by the stable rows, O4 takes 0.50 of the "
                                   "time of O0.\nTake O4: "));
  results.rows[0].step_ms.high *= 2;
  CHECK(summary(results).starts_with("Too few rows are stable"));
  results.rows.resize(1);
  CHECK(summary(results).empty());
  CHECK(bench::summary({}).empty());
}

TEST_CASE("the tables are narrow, and notes are lines below them", "[bench]") {
  bench::Results results = of_levels({{"O1", 12.5, 1.5}});
  Row& row = results.rows[1];
  row.net = "resnet18";
  row.emulated = true;
  row.step_ms.high *= 2;
  row.samples_per_s = 123456;
  row.loss_scale = 65536;
  row.cast_bytes_per_step = 23.9e6;
  row.memory.total.peak = 123'400'000;
  std::istringstream text(table(results));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  REQUIRE(lines.size() == 5 + 1 + 5 + 2 + 1 + 2);
  for (std::size_t i = 0; i < 13; ++i) CHECK(lines[i].size() <= 88);
  CHECK(lines[0].ends_with(" loss"));
  CHECK(lines[8].starts_with("resnet18     O1     123456"));
  CHECK(lines[11] == "Unstable (95 % intervals wider than 10 %): O1 of resnet18");
  CHECK(lines[12] == "Emulated (products computed in f32): O1 of resnet18");
  CHECK(lines[14].starts_with("On this machine, by the stable rows, O1 takes"));
}

TEST_CASE("the lines of notes join levels of the same nets", "[bench]") {
  bench::Results results;
  for (const char* net : {"mlp", "lenet", "resnet18"})
    for (const char* level : {"O0", "O1", "O2", "O4"}) {
      Row& row = results.rows.emplace_back();
      row.net = net;
      row.level = level;
      row.step_ms = {.value = 1, .low = 0.99, .high = 1.01};
      row.emulated = row.level == "O1" || row.level == "O2";
      if (row.level == "O4" && row.net != "lenet") row.step_ms.high = 2;
      if (row.level == "O0" && row.net == "lenet") row.step_ms.high = 2;
    }
  const std::string text = table(results);
  CHECK(text.find(
            "\nUnstable (95 % intervals wider than 10 %): O0 of lenet; O4 of mlp, resnet18\n") !=
        std::string::npos);
  CHECK(text.find("\nEmulated (products computed in f32): O1, O2 of all nets\n") !=
        std::string::npos);
}

TEST_CASE("the estimate of the time that is left agrees with what follows", "[bench]") {
  std::vector<std::string> log;
  const bench::Net slow = recorded("slow", log, [](std::int64_t) { pause(8); });
  const bench::Net fast = recorded("fast", log, [](std::int64_t) { pause(2); });
  bench::Options some = options({"O0", "O4"}, 40);
  some.seconds = 0;
  std::vector<std::pair<double, double>> times;
  (void)measure({slow, fast}, some,
                {.time = [&](double done, double left) { times.emplace_back(done, left); }});
  REQUIRE(times.size() > 20);
  const double all = times.back().first;
  CHECK(times.back().second < 0.1 * all);
  // Within 20 % on a quiet machine. Other programs may slow a part of the run.
  std::size_t wrong = 0, looked = 0;
  for (const auto& [done, left] : times)
    if (done > 0.1 * all && done < 0.8 * all) {
      ++looked;
      wrong += std::abs(left - (all - done)) > 0.5 * (all - done) ? 1 : 0;
    }
  INFO(wrong << " of " << looked);
  CHECK(looked > 0);
  CHECK(2 * wrong <= looked);
}

TEST_CASE("the estimate counts the round that ends after the time is over", "[bench]") {
  std::vector<std::string> log;
  const bench::Net jumping = recorded("jumping", log, [](std::int64_t number) {
    pause(number > 0 && (number - 1) / 5 % 2 == 0 ? 0.5 : 2);
  });
  bench::Options some = options({"O0", "O4"}, 41);
  some.seconds = 1e-4;  // less than a turn: one round is added, since the rows are unstable
  std::vector<double> left;
  (void)measure({jumping}, some, {.time = [&](double, double at) { left.push_back(at); }});
  REQUIRE(left.size() >= 2);
  CHECK(left[left.size() - 2] > 0);  // the turn at O4 is to come
  CHECK(left.back() == 0);
}

TEST_CASE("rounds are added until rows are stable or time is over", "[bench]") {
  std::vector<std::string> log;
  const bench::Net steady = recorded("steady", log, [](std::int64_t) { pause(1); });
  bench::Options more = options({"O0"}, 6);
  more.seconds = 60;
  const Row row = measure({steady}, more).rows[0];
  CHECK_FALSE(row.unstable());
  CHECK(row.times_ms.size() >= 1 + 6 * 5);  // an interval needs six turns
  CHECK(row.losses.size() == 6);            // those of the steps only
  CHECK(row.skipped_steps == 1);

  const bench::Net jumping = recorded("jumping", log, [](std::int64_t number) {
    pause(number > 0 && (number - 1) / 5 % 2 == 0 ? 0.5 : 2);
  });
  more.seconds = 0.2;
  const auto start = std::chrono::steady_clock::now();
  const Row late = measure({jumping}, more).rows[0];
  CHECK(late.unstable());
  CHECK(late.times_ms.size() > 6);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}

TEST_CASE("supervised nets are trained at every level, and batches are no activations", "[bench]") {
  std::vector<bench::Facts> facts;
  bench::Options all = options({}, 8);
  all.notes = {{"size", "test"}};
  const bench::Results results =
      measure({{"linear", trained}}, all,
              {.facts = [&](const bench::Facts& f) { facts.push_back(f); }, .row = {}});
  REQUIRE(results.rows.size() == 6);
  REQUIRE(facts.size() == 1);
  CHECK(facts[0].environment.device == "cpu");
  for (const Row& row : results.rows) {
    INFO(row.level);
    CHECK(row.error.empty());
    CHECK(row.samples == 1000);
    CHECK(row.losses.back() < row.losses.front());
    CHECK(row.emulated == emulates_level(row.level));
    CHECK(row.work.flops == 2 * 2.0 * 1000 * 256 * 4);  // forward and the weight's gradient
    const std::int64_t batch = 1000 * 260 * 4;
    CHECK(row.memory[MemoryCategory::other].peak >= batch);
    if (row.level == "O0") CHECK(row.memory[MemoryCategory::activations].peak < batch / 4);
    CHECK(row.memory[MemoryCategory::weights].peak > 0);
  }
}

TEST_CASE("record makes one page of all levels, from the same weights", "[bench][report]") {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("mezzo_record_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const bench::Net broken{"broken", [](const bench::Setting&) -> std::unique_ptr<bench::Workload> {
                            throw std::runtime_error("no data");
                          }};
  const bench::Options all = options({"O0", "O4"}, 30);
  const Generator before = default_generator();
  std::vector<std::string> failed;
  {
    amp::ReportFile file(folder + "/levels.html");
    failed = record({{"linear", trained}, broken}, file, all);
  }
  CHECK(default_generator() == before);
  CHECK(failed ==
        std::vector<std::string>{"broken O0 failed: no data", "broken O4 failed: no data"});
  const auto data = amp::report::read_report({folder + "/levels.jsonl"});
  REQUIRE(data.runs.size() == 2);
  const std::vector<Row> rows = measure({{"linear", trained}}, all).rows;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& run = data.runs[i];
    INFO(run.run.title);
    CHECK(run.run.title == "linear " + all.levels[i]);
    CHECK(run.run.group == "linear");
    CHECK(run.run.level == all.levels[i]);
    CHECK(run.complete);
    CHECK(run.samples.size() == 15);  // every second step, so that the others can be timed
    REQUIRE(run.steps.size() == 30);
    for (std::size_t step = 0; step < 30; ++step)
      CHECK(run.steps[step].losses == std::vector<double>{rows[i].losses[step]});
  }
  std::ostringstream page;
  page << std::ifstream(folder + "/levels.html").rdbuf();
  CHECK(page.str().ends_with("</html>\n"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("the bench's page has all runs and their errors", "[bench]") {
  const std::string path =
      std::filesystem::temp_directory_path() / ("mezzo_bench_" + std::to_string(::getpid()));
  bench::Results results = measure({{"a<b", trained}}, options({"O0", "O5"}, 4));
  Row& failed = results.rows.emplace_back();
  failed.net = "c&d";
  failed.level = "O2";
  failed.error = "out of <memory>";
  write_page(path, results);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string page = text.str();
  for (const char* part : {"<h2>a&lt;b</h2>", "c&amp;d O2 failed: out of &lt;memory&gt;",
                           "level-fill level-O0", "level-fill level-O5", "category-0"})
    CHECK(page.find(part) != std::string::npos);
  std::filesystem::remove(path);
  CHECK_THROWS_AS(write_page("/no/such/folder/page.html", results), IoError);
}

TEST_CASE("wrong options and parts of a bench are errors", "[bench]") {
  CHECK_THROWS_WITH_AS_TEXT(measure({}, options({}, 1)), ValueError, "no step is left to time");
  bench::Options negative = options({}, 5);
  negative.warm_up = -1;
  CHECK_THROWS_WITH_AS_TEXT(measure({}, negative), ValueError, "not negative");
  const nn::Linear model(2, 2);
  CHECK_THROWS_WITH_AS_TEXT(bench::supervised({}, {.model = model}), ValueError,
                            "no optimizer, no loss, 0 batches");
  CHECK(measure({}, options({}, 5)).rows.empty());
}

TEST_CASE("numbers that are not finite are shown as such", "[bench]") {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  CHECK(fixed(nan, 3) == "nan");
  CHECK(fixed(std::copysign(nan, -1), 3) == "nan");
  CHECK(fixed(-infinity, 3) == "-inf");
}

TEST_CASE("JSON and CSV quote what needs it, and leave out what is not finite", "[bench]") {
  bench::Results results;
  results.facts.environment.cpu_model = "A \"CPU\", fast\n\xff";
  results.facts.steps = 3;
  Row& row = results.rows.emplace_back();
  row.net = "net, of mine";
  row.level = "O1";
  row.loss = std::nan("");
  row.losses = {1.5, 2};
  row.step_ms = median_interval({0.5});
  Row& failed = results.rows.emplace_back();
  failed.net = "b";
  failed.level = "O2";
  failed.error = "out of \"memory\"";
  const std::string text = json(results);
  CHECK(text.find(R"("cpu_model":"A \"CPU\", fast\n?")") != std::string::npos);
  CHECK(text.find(R"("low_ms":null)") != std::string::npos);
  CHECK(text.find(R"("loss":null)") != std::string::npos);
  CHECK(text.find(R"("losses":[1.5,2])") != std::string::npos);
  CHECK(text.find(R"({"net":"b","level":"O2","error":"out of \"memory\""})") != std::string::npos);
  CHECK(json(results.rows[0]).find('\n') == std::string::npos);
  const std::string lines = csv(results);
  CHECK(lines.starts_with("net,level,error,"));
  CHECK(lines.find("\r\n\"net, of mine\",O1,,") != std::string::npos);
  CHECK(lines.find("\r\nb,O2,\"out of \"\"memory\"\"\",") != std::string::npos);
  CHECK(lines.find("\"A \"\"CPU\"\", fast\n\xff\"") != std::string::npos);
  CHECK(lines.find(",1.5 2,") != std::string::npos);
}
