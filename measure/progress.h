// Progress: a progress line, redrawn in place on a terminal, otherwise printed every 30 seconds.
#pragma once

#include <cstdint>
#include <string>

#include "../tensor/core/macros.h"
#include "../tensor/core/pointers.h"

namespace mezzo {

/** The progress of a run, on stderr: how many of its steps are done, how many it makes a second,
 * and how long the rest takes. Progress progress("mnist", total_steps);
 *    ... progress.step(++done, "loss 0.21"); */
class MZ_API Progress {
 public:
  /** Starts the clock. With `quiet`, nothing is written. */
  Progress(std::string title, std::int64_t total_steps, bool quiet = false);
  /** Erases the bar. */
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /** Sets the number of steps that are done before the first step, and starts the clock again. */
  void start_at(std::int64_t done);
  /** Shows the number of steps done, and a status beside the bar. */
  void step(std::int64_t done, const std::string& status = {});
  /** Shows the seconds so far and an estimate of those left, with the number of steps done. */
  void time(double seconds_done, double seconds_left, std::int64_t done);
  /** Prints a line that stays, such as the result of an epoch. */
  void line(const std::string& text);

  /** Erases the bar. */
  void clear();

 private:
  struct State;

  Owner<State> state_;
};

}  // namespace mezzo
