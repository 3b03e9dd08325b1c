// supervise(): runs jobs in a child process, so that a job that hangs or crashes is one failure.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace smoke {

struct Verdict {
  bool passed = false;
  std::string text;
};

struct Job {
  std::string name;
  std::function<Verdict()> run;  // an exception is a failure too
};

struct Limits {
  double job = 10, all = 60;  // seconds
};

/** What the child process does besides running jobs. */
struct Worker {
  std::function<std::string()> start;  // called before the first job; throws where nothing can run
  std::function<bool()> is_usable;     // called after a failure; false: use a new process
};

struct Tally {
  int passed = 0, failed = 0;
  std::string skipped = {};  // the reason why nothing could run
};

using Print = std::function<void(const std::string& line)>;

/** Runs the jobs in order in child processes, a new one after a crash, a hang or a broken device.
 *  Jobs that exceed the time limit count as failed. The caller must not have used the device. */
Tally supervise(const std::vector<Job>& jobs, const Worker& worker, const Limits& limits,
                const Print& print);

/** Runs the jobs in this process, without limits: for profilers and sanitizers. */
Tally run_in_process(const std::vector<Job>& jobs, const Worker& worker, const Print& print);

}  // namespace smoke
