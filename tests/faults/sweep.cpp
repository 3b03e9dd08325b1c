#include "sweep.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "../support/device.h"
#include "failing_new.h"

namespace faults {

namespace {

using testing::test_device;

/** Makes the n-th allocation of a kind fail while in scope. */
class Failure {
 public:
  Failure(Source source, std::int64_t n) : source_(source), n_(n) {
    if (source == Source::tensors)
      allocator_for(test_device()).fail_nth(n);
    else
      fail_new(n);
  }
  /** Returns whether the allocation has failed, and cancels the failure. */
  bool end() {
    if (source_ == Source::new_calls) {
      const bool happened = has_failed();
      fail_new(0);
      return happened;
    }
    return !still_armed();
  }

 private:
  /** An allocator does not report this, so allocates until the failure occurs. */
  bool still_armed() const {
    Allocator& allocator = allocator_for(test_device());
    bool armed = false;
    for (std::int64_t i = 0; i < n_ && !armed; ++i) try {
        allocator.deallocate(allocator.allocate(1, MemoryCategory::other), 1,
                             MemoryCategory::other);
      } catch (const OutOfMemory&) {
        armed = true;
      }
    allocator.fail_nth(0);
    return armed;
  }

  Source source_;
  std::int64_t n_;
};

/** The child's report on one case. */
struct CaseReport {
  std::int64_t n = 0;
  bool injected = false, changed = false;
  std::array<char, 200> text{};
};

void send(int pipe, const CaseReport& report) {
  if (::write(pipe, &report, sizeof report) != sizeof report) ::_exit(3);
}

/** Replaces the subject by a new one. The old one is destroyed first, because a live session
 *  affects the next. */
void renew(const Row& row, Subject& subject) {
  subject = {};
  manual_seed(1);
  subject = row.make();
}

/** Runs one case. `subject` is left unchanged, or replaced by a new one. */
CaseReport attempt(const Row& row, Source source, std::int64_t n, const State& after,
                   Subject& subject) {
  CaseReport report{.n = n};
  std::string text;
  bool threw = false;
  const State before = subject.state();
  Failure failure(source, n);
  try {
    subject.call();
  } catch (const std::exception&) {
    threw = true;
  }
  report.injected = failure.end();
  std::string differs;
  try {
    differs = states::difference(threw ? before : after, subject.state());
  } catch (const std::exception& error) {
    differs = str("looking at it fails: ", error.what());
  }
  if (!threw || !differs.empty()) renew(row, subject);
  report.changed = !differs.empty();
  text = str(threw ? "threw, " : "did not throw, ", differs);
  std::strncpy(report.text.data(), text.c_str(), report.text.size() - 1);
  return report;
}

/** Returns the case after n. Of a call's allocations from the 100th on, one in three fails, unless
 *  the tests are thorough. */
std::int64_t next_case(std::int64_t n) { return n < 100 || testing::is_thorough() ? n + 1 : n + 3; }

/** Runs in the child: the cases from n on, until no allocation fails. */
void run_cases(const Row& row, Source source, std::int64_t n, int pipe) {
  try {
    set_log_sink([](Severity, std::string_view) {});
    Subject subject;
    renew(row, subject);
    (void)subject.state();
    subject.call();
    const State after = subject.state();
    renew(row, subject);
    for (bool injected = true; injected; n = next_case(n)) {
      const CaseReport report = attempt(row, source, n, after, subject);
      send(pipe, report);
      injected = report.injected;
    }
  } catch (const std::exception& error) {
    CaseReport report{.n = -1};
    std::strncpy(report.text.data(), error.what(), report.text.size() - 1);
    send(pipe, report);
  }
}

/** Adds the child's reports to `result`. Returns the number of the last reported case. */
std::int64_t read_reports(int pipe, std::int64_t n, Result& result) {
  CaseReport report;
  for (std::size_t have = 0;;) {
    const ssize_t got = ::read(pipe, reinterpret_cast<char*>(&report) + have, sizeof report - have);
    if (got <= 0) return n;
    have += static_cast<std::size_t>(got);
    if (have < sizeof report) continue;
    have = 0;
    if (report.n < 0) throw std::runtime_error(report.text.data());
    n = report.n;
    result.cases += report.injected;
    result.changed += report.changed;
    if (report.changed && result.first.empty())
      result.first = str("n = ", n, ": ", report.text.data());
  }
}

}  // namespace

Result sweep(const Row& row, Source source) {
  Result result;
  for (std::int64_t done = 0;;) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("no process");
    if (child == 0) {
      ::close(ends[0]);
      run_cases(row, source, done + 1, ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    done = read_reports(ends[0], done, result);
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return result;
    ++done;
    ++result.cases;
    ++result.aborts;
    if (result.aborts == 1)
      result.first = str("n = ", done, ": the process ended, status ", status);
    if (result.aborts > 100) return result;
  }
}

}  // namespace faults
