// Run: checkpoints, resuming, interruption and reports of a sample's training loop.
#include "../../samples/common/run.h"

#include <csignal>
#include <filesystem>

#include "../../samples/common/program.h"
#include "../io/files.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace samples;

namespace {

/** Fits a line to points; returns the loss of every step. */
std::vector<double> fit(const RunOptions& options, std::int64_t total, int interrupt_at = -1) {
  using namespace mezzo;
  manual_seed(1);
  const nn::Linear net{4, 1};
  optim::Adam optimizer(net.parameters(), {.lr = 0.05});
  auto session = amp::initialize(net, optimizer, {.opt_level = options.level, .verbosity = 0});
  Run run("fit", options, {.model = net, .optimizer = optimizer, .session = session},
          {.total_steps = total, .samples = 8});
  std::vector<double> losses;
  while (!run.finished()) {
    const Tensor x = randn({8, 4});
    const Tensor loss = mse_loss(net(x), sum(x, {1}, {.keepdim = true}));
    optimizer.zero_grad();
    amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
    losses.push_back(loss.item<double>());
    if (run.step() == interrupt_at) std::raise(SIGINT);
    run.step_done(losses.back(), optimizer.step());
  }
  run.note("last", losses.empty() ? 0 : losses.back());
  run.finish();
  return losses;
}

std::vector<double> joined(std::vector<double> first, const std::vector<double>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

TEST_CASE("a resumed run continues bit for bit, and an interrupted run can be resumed",
          "[samples]") {
  for (const char* level : {"O0", "O1", "O2", "O5"}) {
    INFO(level);
    const files::Directory folder;
    RunOptions options{.level = level, .quiet = true};
    const std::vector<double> whole = fit(options, 12);
    REQUIRE(whole.size() == 12);
    options.steps = 5;
    options.save = folder / "a";
    const std::vector<double> first = fit(options, 12);
    CHECK(first.size() == 5);
    options = {.level = level, .resume = folder / "a", .quiet = true};
    CHECK(joined(first, fit(options, 12)) == whole);
    options = {.level = level, .save = folder / "b", .quiet = true};
    const std::vector<double> cut = fit(options, 12, 7);
    CHECK(cut.size() == 8);
    CHECK(std::filesystem::exists(folder / "b/step-000008"));
    options.resume = options.save;
    CHECK(joined(cut, fit(options, 12)) == whole);
    CHECK(fit(options, 12).empty());  // it has already finished
  }
}

TEST_CASE("resuming at another level is rejected and changes nothing", "[samples]") {
  const files::Directory folder;
  fit({.level = "O0", .save = folder.path(), .quiet = true}, 3);
  CHECK_THROWS_WITH_AS_TEXT(fit({.level = "O2", .resume = folder.path(), .quiet = true}, 6),
                            mezzo::ValueError, "O2");
  CHECK(fit({.level = "O0", .resume = folder.path(), .quiet = true}, 6).size() == 3);
}

TEST_CASE("checkpoints are written at the given interval, and the last three are kept",
          "[samples]") {
  const files::Directory folder;
  fit({.save_every = 2, .save = folder.path(), .quiet = true}, 9);
  for (const char* kept : {"step-000006", "step-000008", "step-000009"})
    CHECK(std::filesystem::exists(folder / kept));
  CHECK_FALSE(std::filesystem::exists(folder / "step-000004"));
}

TEST_CASE("a run reports its figures", "[samples]") {
  const files::Directory folder;
  fit({.level = "O1", .json = folder / "report.json", .quiet = true}, 4);
  const std::string report = files::read(folder / "report.json");
  INFO(report);
  for (const char* part : {"\"level\": \"O1\"", "\"steps\": 4", "\"last\": ", "\"losses\": [",
                           "\"skipped_steps\": 2", "\"loss_scale\": 16384.0"}) {
    INFO(part);
    CHECK(report.find(part) != std::string::npos);
  }
  CHECK_THROWS_WITH_AS_TEXT(fit({.json = folder / "no/report.json", .quiet = true}, 1),
                            mezzo::IoError, "no/report.json");
}

TEST_CASE("a report that cannot be written is a usage error", "[samples]") {
  const files::Directory folder;
  CHECK_THROWS_WITH_AS_TEXT(prepare({.report = folder / "no/page.html"}), UsageError,
                            "no/page.html");
  CHECK_THROWS_WITH_AS_TEXT(prepare({.report = folder / "page.txt"}), UsageError, "page.txt");
}

TEST_CASE("wrong levels and devices are usage errors", "[samples]") {
  CHECK_THROWS_WITH_AS_TEXT(prepare({.level = "01"}), UsageError, "the letter O");
  CHECK_THROWS_WITH_AS_TEXT(prepare({.device = "tpu"}), UsageError, "unknown device");
}
