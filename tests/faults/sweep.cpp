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

/** Makes the n-th allocation of a kind fail while it lives. */
class Failure {
 public:
  Failure(Source source, std::int64_t n) : source_(source), n_(n) {
    if (source == Source::tensors)
      allocator_for(test_device()).fail_nth(n);
    else
      fail_new(n);
  }
  /** Whether it has happened; calls it off. */
  bool end() {
    if (source_ == Source::new_calls) {
      const bool happened = has_failed();
      fail_new(0);
      return happened;
    }
    return !still_armed();
  }

 private:
  /** An allocator does not say so: it is asked for memory until it fails. */
  bool still_armed() const {
    Allocator& allocator = allocator_for(test_device());
    bool armed = false;
    for (std::int64_t i = 0; i < n_ && !armed; ++i) try {
        allocator.deallocate(allocator.allocate(1, MemoryCategory::other), 1, MemoryCategory::other);
      } catch (const OutOfMemory&) {
        armed = true;
      }
    allocator.fail_nth(0);
    return armed;
  }

  Source source_;
  std::int64_t n_;
};

/** What the child tells of one case. */
struct Told {
  std::int64_t n = 0;
  bool injected = false, changed = false;
  std::array<char, 200> text{};
};

void tell(int pipe, const Told& told) {
  if (::write(pipe, &told, sizeof told) != sizeof told) ::_exit(3);
}

/** A new subject in place of the old one, which ends first: sessions count while they live. */
void renew(const Row& row, Subject& subject) {
  subject = {};
  manual_seed(1);
  subject = row.make();
}

/** One case. `subject` is as it was afterwards, or a new one. */
Told attempt(const Row& row, Source source, std::int64_t n, const State& after, Subject& subject) {
  Told told{.n = n};
  std::string text;
  bool threw = false;
  const State before = subject.state();
  Failure failure(source, n);
  try {
    subject.call();
  } catch (const std::exception&) {
    threw = true;
  }
  told.injected = failure.end();
  std::string differs;
  try {
    differs = states::difference(threw ? before : after, subject.state());
  } catch (const std::exception& error) {
    differs = str("looking at it fails: ", error.what());
  }
  if (!threw || !differs.empty()) renew(row, subject);
  told.changed = !differs.empty();
  text = str(threw ? "threw, " : "did not throw, ", differs);
  std::strncpy(told.text.data(), text.c_str(), told.text.size() - 1);
  return told;
}

/** The child: cases from n on, until nothing fails any more. */
void run_cases(const Row& row, Source source, std::int64_t n, int pipe) {
  try {
    set_log_sink([](Severity, std::string_view) {});
    Subject subject;
    renew(row, subject);
    (void)subject.state();
    subject.call();
    const State after = subject.state();
    renew(row, subject);
    for (bool injected = true; injected; ++n) {
      const Told told = attempt(row, source, n, after, subject);
      tell(pipe, told);
      injected = told.injected;
    }
  } catch (const std::exception& error) {
    Told told{.n = -1};
    std::strncpy(told.text.data(), error.what(), told.text.size() - 1);
    tell(pipe, told);
  }
}

/** Takes note of what a child tells; the last case that it told of. */
std::int64_t listen(int pipe, std::int64_t n, Result& result) {
  Told told;
  for (std::size_t have = 0;;) {
    const ssize_t got = ::read(pipe, reinterpret_cast<char*>(&told) + have, sizeof told - have);
    if (got <= 0) return n;
    have += static_cast<std::size_t>(got);
    if (have < sizeof told) continue;
    have = 0;
    if (told.n < 0) throw std::runtime_error(told.text.data());
    n = told.n;
    result.cases += told.injected;
    result.changed += told.changed;
    if (told.changed && result.first.empty()) result.first = str("n = ", n, ": ", told.text.data());
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
    done = listen(ends[0], done, result);
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return result;
    ++done;
    ++result.cases;
    ++result.aborts;
    if (result.aborts == 1) result.first = str("n = ", done, ": the process ended, status ", status);
    if (result.aborts > 100) return result;
  }
}

}  // namespace faults
