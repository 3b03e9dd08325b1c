// Chapter 8 of the tour: a report of three trainings, and where it shows the earlier chapters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "guide.h"

namespace samples::tour {

/** What a report recorded of a training at one level. */
struct RecordedRun {
  std::string level;
  std::int64_t steps = 0, skipped = 0;
  double first_loss = 0, last_loss = 0;
  double last_scale = 0;                    // loss scale of the last step
  std::int64_t updates = 0, no_effect = 0;  // of weights in sampled steps; without a change
};

/** What chapter 8 claims. */
struct ReportFinding {
  double lr = 0;           // of Adam
  std::int64_t every = 0;  // steps from one sample to the next
  std::vector<RecordedRun> runs;
};

/** Trains the small net at O0, O2 and O3 with one report, whose page is written to `page`, a path
 *  that ends in ".html". Returns what the report recorded. Errors: those of amp::ReportFile. */
ReportFinding find_report(const std::string& page);
/** Prints chapter 8. */
void tell_report(Guide& guide);

}  // namespace samples::tour
