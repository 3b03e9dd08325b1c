#include "supervisor.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>

namespace smoke {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string line_of(const Job& job, const Verdict& verdict) {
  char name[64];
  std::snprintf(name, sizeof name, "%-38s ", job.name.c_str());
  return name + (verdict.passed ? verdict.text : "FAILED " + verdict.text);
}

/** Returns the text without line breaks, since a message is one line. */
std::string flat(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

Verdict verdict_of(const Job& job) {
  try {
    return job.run();
  } catch (const std::exception& e) {
    return {false, e.what()};
  } catch (...) {
    return {false, "an exception of unknown type"};
  }
}

// ---- the child: messages are lines that begin with their kind -----------------------------------

/** Exit status of a child whose device is broken. */
constexpr int kBroken = 3;

enum Kind : char { kStarted = 's', kSkipped = 'k', kPassed = 'p', kFailed = 'f' };

void send(int pipe, Kind kind, const std::string& text) {
  const std::string line = static_cast<char>(kind) + flat(text) + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = write(pipe, line.data() + sent, line.size() - sent);
    if (n <= 0) _exit(1);
    sent += static_cast<std::size_t>(n);
  }
}

[[noreturn]] void work(int pipe, const std::vector<Job>& jobs, std::size_t first,
                       const Worker& worker) {
  try {
    send(pipe, kStarted, worker.start());
  } catch (const std::exception& e) {
    send(pipe, kSkipped, e.what());
    _exit(0);
  }
  for (std::size_t i = first; i < jobs.size(); ++i) {
    const Verdict verdict = verdict_of(jobs[i]);
    send(pipe, verdict.passed ? kPassed : kFailed, verdict.text);
    if (!verdict.passed && !worker.is_usable()) _exit(kBroken);
  }
  _exit(0);
}

// ---- the parent ---------------------------------------------------------------------------------

/** A child process that runs jobs, and the lines that it sends. */
class Child {
 public:
  Child(const std::vector<Job>& jobs, std::size_t first, const Worker& worker) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe() failed");
    std::fflush(nullptr);
    process_ = fork();
    if (process_ < 0) throw std::runtime_error("fork() failed");
    if (process_ == 0) {
      close(ends[0]);
      work(ends[1], jobs, first, worker);
    }
    close(ends[1]);
    pipe_ = ends[0];
  }
  ~Child() {
    close(pipe_);
    end();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  enum class Read { line, ended, late };
  /** Reads the next line within `seconds`. */
  Read read_line(std::string& line, double seconds) {
    const Clock::time_point start = Clock::now();
    for (;;) {
      if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return Read::line;
      }
      const double left = seconds - seconds_since(start);
      if (left <= 0) return Read::late;
      pollfd state{pipe_, POLLIN, 0};
      if (poll(&state, 1, static_cast<int>(left * 1e3) + 1) <= 0) continue;
      char bytes[4096];
      const ssize_t n = ::read(pipe_, bytes, sizeof bytes);
      if (n <= 0) return Read::ended;
      buffer_.append(bytes, static_cast<std::size_t>(n));
    }
  }

  /** How the child ended: its exit status, or -1 with a description. */
  struct End {
    int status = -1;
    std::string text;
  };
  End end() {
    if (process_ <= 0) return {};
    int status = 0;
    pid_t ended = 0;
    // A child that closed its pipe is about to exit; one that hangs is killed.
    for (int i = 0; i < 50 && ended == 0; ++i) {
      ended = waitpid(process_, &status, WNOHANG);
      if (ended == 0 && i == 10) kill(process_, SIGKILL);
      if (ended == 0) usleep(20000);
    }
    process_ = 0;
    if (ended <= 0) return {-1, "its process does not end"};
    if (WIFSIGNALED(status)) return {-1, "crashed with signal " + std::to_string(WTERMSIG(status))};
    const int number = WEXITSTATUS(status);
    return {number, "its process ended with status " + std::to_string(number)};
  }
  void stop() { kill(process_, SIGKILL); }

 private:
  pid_t process_ = 0;
  int pipe_ = -1;
  std::string buffer_;
};

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", seconds);
  return text;
}

}  // namespace

Tally supervise(const std::vector<Job>& jobs, const Worker& worker, const Limits& limits,
                const Print& print) {
  const Clock::time_point start = Clock::now();
  Tally tally;
  std::size_t next = 0;
  bool described = false;
  const auto done = [&](const Verdict& verdict) {
    ++(verdict.passed ? tally.passed : tally.failed);
    print(line_of(jobs[next++], verdict));
  };
  while (next < jobs.size() && seconds_since(start) < limits.all) {
    Child child(jobs, next, worker);
    bool last_failed = false;  // whether this child's last job failed
    while (next < jobs.size()) {
      const double left = limits.all - seconds_since(start);
      std::string line;
      const Child::Read read = child.read_line(line, std::min(limits.job, left));
      if (read == Child::Read::late) {
        child.stop();
        if (left < limits.job) break;  // the total limit: the rest is reported after the loop
        done({false, "did not end within " + seconds_text(limits.job)});
        break;
      }
      if (read == Child::Read::ended) {
        const auto [status, how] = child.end();
        if (!last_failed || status != kBroken) done({false, how});
        break;
      }
      const std::string text = line.substr(1);
      if (line[0] == kSkipped) {
        if (described) {
          done({false, text});
          break;
        }
        tally.skipped = text;
        return tally;
      }
      if (line[0] == kStarted) {
        if (!described) print(text);
        described = true;
        continue;
      }
      last_failed = line[0] == kFailed;
      done({!last_failed, text});
    }
  }
  while (next < jobs.size()) done({false, "not done: " + seconds_text(limits.all) + " were over"});
  return tally;
}

Tally run_in_process(const std::vector<Job>& jobs, const Worker& worker, const Print& print) {
  Tally tally;
  try {
    print(worker.start());
  } catch (const std::exception& e) {
    tally.skipped = e.what();
    return tally;
  }
  for (const Job& job : jobs) {
    const Verdict verdict = verdict_of(job);
    ++(verdict.passed ? tally.passed : tally.failed);
    print(line_of(job, {verdict.passed, flat(verdict.text)}));
  }
  return tally;
}

}  // namespace smoke
