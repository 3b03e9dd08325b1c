// What the log writes to stderr on each rank, and what a sink of the program gets.
#include "../../tensor/text/log.h"

#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "../support/catch.h"

using namespace mezzo;

namespace {

/** Sends stderr to a file until the end of the scope. */
class Stderr {
 public:
  Stderr() : file_(std::tmpfile()), outer_(dup(STDERR_FILENO)) {
    dup2(fileno(file_), STDERR_FILENO);
  }
  ~Stderr() {
    dup2(outer_, STDERR_FILENO);
    close(outer_);
    std::fclose(file_);
  }
  Stderr(const Stderr&) = delete;
  Stderr& operator=(const Stderr&) = delete;

  std::string text() const {
    std::string out(1000, ' ');
    std::rewind(file_);
    out.resize(std::fread(out.data(), 1, out.size(), file_));
    return out;
  }

 private:
  std::FILE* file_;
  int outer_;
};

/** Plays a rank until the end of the scope. */
class Rank {
 public:
  explicit Rank(int rank) { detail::set_log_rank(rank); }
  ~Rank() { detail::set_log_rank(0); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
};

void log_all() {
  log_text(Severity::info, "an info");
  log_text(Severity::warning, "a warning");
  log_text(Severity::error, "an error\nof two lines");
}

std::string written_by(int rank) {
  const Rank played(rank);
  const Stderr file;
  log_all();
  return file.text();
}

}  // namespace

TEST_CASE("rank 0 logs everything, other ranks warnings and errors with their number", "[log]") {
  CHECK(log_rank() == 0);
  CHECK(written_by(0) == "an info\na warning\nan error\nof two lines\n");
  CHECK(written_by(3) == "[rank 3] a warning\n[rank 3] an error\n[rank 3] of two lines\n");
  CHECK(written_by(12) == "[rank 12] a warning\n[rank 12] an error\n[rank 12] of two lines\n");
}

TEST_CASE("a sink gets all lines of every rank as they are, and can ask for the rank", "[log]") {
  for (const int rank : {0, 3}) {
    const Rank played(rank);
    std::vector<std::string> lines;
    const LogSink outer = set_log_sink([&](Severity severity, std::string_view line) {
      lines.push_back(std::to_string(log_rank()) + " " +
                      std::to_string(static_cast<int>(severity)) + " " + std::string(line));
    });
    log_all();
    const std::string r = std::to_string(rank);
    CHECK(lines == std::vector<std::string>{r + " 0 an info", r + " 1 a warning", r + " 2 an error",
                                            r + " 2 of two lines"});

    const Stderr file;
    outer(Severity::warning, "passed on");
    CHECK(file.text() == (rank == 0 ? "passed on\n" : "[rank 3] passed on\n"));
    set_log_sink(outer);
  }
}
