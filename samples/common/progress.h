// A progress line: redrawn in place on a terminal, a plain line now and then otherwise.
// Sees: the standard library.
// Read next: run.h, which feeds it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace samples {

class Progress {
 public:
  /** Writes to stderr, so that results on stdout stay clean; `quiet` writes nothing. */
  Progress(std::string title, std::int64_t total_steps, bool quiet);
  ~Progress();

  /** Before the first step: how many lie behind already. */
  void start_at(std::int64_t done);
  /** After a step: how far, and what to show beside the bar. */
  void step(std::int64_t done, const std::string& status);
  /** A line that stays, such as an epoch's result. */
  void line(const std::string& text);

  /** Takes the bar away. */
  void clear();

 private:
  /** "12/500  3.4/s  2:23 left". */
  std::string place_text(std::int64_t done, std::chrono::steady_clock::time_point now) const;

  std::string title_;
  std::int64_t total_, first_ = 0;
  bool quiet_, terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_draw_;
};

}  // namespace samples
