// A progress line: redrawn in place on a terminal, one plain line an epoch otherwise.
// Sees: the standard library.
// Read next: training.h, which feeds it.
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

  /** After a step: how far, and what to show beside the bar. */
  void step(std::int64_t done, const std::string& status);
  /** A line that stays, such as an epoch's result. */
  void line(const std::string& text);

 private:
  void clear();

  std::string title_;
  std::int64_t total_;
  bool quiet_, terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_draw_;
};

}  // namespace samples
