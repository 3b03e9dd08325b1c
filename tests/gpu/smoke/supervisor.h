// supervise: runs jobs in a process of their own, so that one that hangs or crashes is one failure.
// Sees: the standard library.
// Read next: supervisor.cpp, main.cpp.
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
  std::function<Verdict()> run;  // what it throws is a failure too
};

struct Limits {
  double job = 10, all = 60;  // seconds
};

/** What the process of the jobs does besides them. */
struct Worker {
  std::function<std::string()> start;  // before the first job; throws where nothing can run
  std::function<bool()> is_usable;     // after a failure; false: the next job needs a new process
};

struct Tally {
  int passed = 0, failed = 0;
  std::string skipped = {};  // why nothing could run
};

using Print = std::function<void(const std::string& line)>;

/** Runs the jobs in order, in child processes: a new one after a crash, a hang or where the device is broken. Jobs
 *  that the time does not suffice for count as failed. The caller must not have used the device. */
Tally supervise(const std::vector<Job>& jobs, const Worker& worker, const Limits& limits, const Print& print);

/** Runs the jobs in this process, without limits: for profilers and sanitizers. */
Tally run_in_process(const std::vector<Job>& jobs, const Worker& worker, const Print& print);

}  // namespace smoke
