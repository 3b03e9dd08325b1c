// The smoke test's child processes: each fault of a job is one failure, and later jobs still run.
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "../support/catch.h"
#include "smoke/supervisor.h"

using namespace smoke;

namespace {

bool broken = false;  // in a child: whether a job broke the device

const Worker kWorker{[] { return std::string("a device"); }, [] { return !broken; }};

Job job(const std::string& name, std::function<Verdict()> run) { return {name, std::move(run)}; }
Verdict pass() { return {true, "right"}; }

struct Output {
  Tally tally;
  std::vector<std::string> lines;
};

Output run_jobs(const std::vector<Job>& jobs, const Limits& limits,
                const Worker& worker = kWorker) {
  Output output;
  output.tally = supervise(jobs, worker, limits,
                           [&](const std::string& line) { output.lines.push_back(line); });
  return output;
}

}  // namespace

TEST_CASE("jobs that fail, throw, crash, hang or break the device are one failure each",
          "[smoke]") {
  const std::vector<Job> jobs{
      job("passes", pass),
      job("is wrong", [] { return Verdict{false, "by a mile"}; }),
      job("throws", []() -> Verdict { throw std::runtime_error("two\nlines"); }),
      job("throws a number", []() -> Verdict { throw 7; }),
      job("crashes",
          []() -> Verdict {
            (void)raise(SIGKILL);
            return pass();
          }),
      job("leaves", []() -> Verdict { _exit(0); }),
      job("hangs",
          []() -> Verdict {
            for (;;) pause();
          }),
      job("breaks the device",
          [] {
            broken = true;
            return Verdict{false, "an illegal address"};
          }),
      job("needs a device", [] { return Verdict{!broken, ""}; }),
      job("passes at the end", pass),
  };
  const Output output = run_jobs(jobs, {.job = 0.5, .all = 30});
  const std::string expected[] = {"right",
                                  "FAILED by a mile",
                                  "FAILED two lines",
                                  "FAILED an exception of unknown type",
                                  "FAILED crashed with signal 9",
                                  "FAILED its process ended with status 0",
                                  "FAILED did not end within 0.5 s",
                                  "FAILED an illegal address",
                                  "",
                                  "right"};
  REQUIRE(output.lines.size() == jobs.size() + 1);
  CHECK(output.lines[0] == "a device");
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    CHECK(output.lines[i + 1].substr(0, jobs[i].name.size()) == jobs[i].name);
    CHECK(output.lines[i + 1].substr(39) == expected[i]);
  }
  CHECK(output.tally.passed == 3);
  CHECK(output.tally.failed == 7);
}

TEST_CASE("jobs that exceed the total time limit have failed", "[smoke]") {
  const auto slow = [] {
    usleep(900000);
    return pass();
  };
  const Output output = run_jobs({job("1", slow), job("2", slow), job("3", slow), job("4", slow)},
                                 {.job = 10, .all = 1.5});
  CHECK(output.tally.passed == 1);
  CHECK(output.tally.failed == 3);
  CHECK(output.lines.back().substr(39) == "FAILED not done: 1.5 s were over");
}

TEST_CASE("without a device no job runs", "[smoke]") {
  const Worker none{[]() -> std::string { throw std::runtime_error("no CUDA device"); },
                    [] { return false; }};
  const Output output = run_jobs({job("passes", pass)}, {}, none);
  CHECK(output.tally.skipped == "no CUDA device");
  CHECK(output.lines.empty());
}
