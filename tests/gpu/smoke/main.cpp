// gpu_smoke: prints one line with error, time and rate per library call and kernel family.
//   gpu_smoke                    all rows; the last line is "N passed, N failed"
//   gpu_smoke --list             the names of the rows
//   gpu_smoke --only TEXT        the rows whose name contains the text
//   gpu_smoke --small            sizes for an emulated device; each call is timed once
//   gpu_smoke --in-process       rows run in this process, without limits: for profilers and
//                                sanitizers
//   gpu_smoke --limit S          seconds for all rows (60); --row-limit S for each (10)
// A line has the largest error of a result against the CPU in f64 and, where a library may compute
// it, against our own kernels, both relative to the result's largest element. Log lines are printed
// before their row. Status: 0 all passed, 1 some failed, 2 wrong usage, 77 no device.
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "../../../measure/environment.h"
#include "../device.h"
#include "run_row.h"

namespace {

using namespace smoke;
using mezzo::testing::kDevice;

struct Options {
  bool list = false, small = false, in_process = false;
  std::string only;
  Limits limits;
};

[[noreturn]] void refuse(const std::string& what) {
  std::cerr << "gpu_smoke: " << what << "\n";
  std::exit(2);
}

double seconds_of(const std::string& option, const char* value) {
  char* end = nullptr;
  const double seconds = value ? std::strtod(value, &end) : 0;
  if (!value || *end != '\0' || !(seconds > 0))
    refuse(option + ": a number of seconds; got " + (value ? value : "nothing") +
           ", expected more than 0");
  return seconds;
}

Options parsed(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--list") {
      o.list = true;
    } else if (word == "--small") {
      o.small = true;
    } else if (word == "--in-process") {
      o.in_process = true;
    } else if (word == "--only") {
      if (++i == argc) refuse("--only: the text is missing");
      o.only = argv[i];
    } else if (word == "--limit") {
      o.limits.all = seconds_of(word, ++i < argc ? argv[i] : nullptr);
    } else if (word == "--row-limit") {
      o.limits.job = seconds_of(word, ++i < argc ? argv[i] : nullptr);
    } else {
      refuse("unknown option; got " + word +
             ", expected --list, --only TEXT, --small, --in-process, --limit S or --row-limit S");
    }
  }
  return o;
}

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  add_memory_rows(rows);
  rows.insert(rows.end(), op_rows().begin(), op_rows().end());
  add_training_rows(rows);
  return rows;
}

/** Describes the device, with the versions of driver and libraries, and the time. Throws where
 *  there is no device. */
std::string described() {
  const Environment e = environment(Device::parse("cuda"));
  return str("device: ", e.hardware, "; Mezzo ", e.version, ", commit ", e.commit, "; ", e.date);
}

/** Returns whether the device still computes, after a failure. */
bool is_usable() {
  try {
    const bool right = (ones({3}, {.device = kDevice}) + 1).to(cpu).to_vector<double>() ==
                       std::vector<double>(3, 2);
    gpu::synchronize(kDevice);
    return right;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parsed(argc, argv);
  std::vector<Job> jobs;
  for (const Row& row : all_rows())
    if (row.name.find(options.only) != std::string::npos)
      jobs.push_back({row.name, [=] { return run_row(row, kDevice, options.small); }});
  if (jobs.empty())
    refuse("--only: no row has that in its name; got " + options.only + "; see --list");
  const auto print = [](const std::string& line) { std::cout << line << std::endl; };
  if (options.list) {
    for (const Job& job : jobs) print(job.name);
    return 0;
  }
  set_log_sink(
      [&](Severity, std::string_view line) { std::cout << "  log: " << line << std::endl; });
  set_verify_libraries(false);  // rows compare the libraries themselves
  const Worker worker{described, is_usable};
  const Tally tally = options.in_process ? run_in_process(jobs, worker, print)
                                         : supervise(jobs, worker, options.limits, print);
  if (!tally.skipped.empty()) {
    print("gpu_smoke: skipped, " + tally.skipped);
    return 77;
  }
  print(std::to_string(tally.passed) + " passed, " + std::to_string(tally.failed) + " failed");
  return tally.failed == 0 ? 0 : 1;
}
