// Progress: a progress line, redrawn in place on a terminal, otherwise printed every 30 seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace samples {

/** The progress of a run, on stderr. */
class Progress {
 public:
  /** Starts the clock. With `quiet`, nothing is written. */
  Progress(std::string title, std::int64_t total_steps, bool quiet);
  ~Progress();

  /** Sets the number of steps that are done before the first step. */
  void start_at(std::int64_t done);
  /** Shows the number of steps done, and a status beside the bar. */
  void step(std::int64_t done, const std::string& status);
  /** Shows the seconds so far and an estimate of those left, with the number of steps done. */
  void time(double seconds_done, double seconds_left, std::int64_t done);
  /** Prints a line that stays, such as the result of an epoch. */
  void line(const std::string& text);

  /** Erases the bar. */
  void clear();

 private:
  /** Returns text such as "12/500  3.4/s  2:23 left". Its rate leaves out the first step, which
   *  allocates memory and loads libraries. */
  std::string place_text(std::int64_t done, std::chrono::steady_clock::time_point now) const;
  void show(double share, const std::string& text, bool is_last,
            std::chrono::steady_clock::time_point now);

  std::string title_;
  std::int64_t total_, first_ = 0;
  bool quiet_, terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point start_, after_first_, last_draw_;
};

}  // namespace samples
