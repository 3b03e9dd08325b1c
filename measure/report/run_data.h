// RunData: a run as read from a report file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lines.h"

namespace mezzo::amp::report {

/** The rows of a sampled step. */
struct Sample {
  std::int64_t step = 0;
  std::vector<SampleRow> rows;
};

/** What the verdict needs of a run. */
struct RunData {
  RunLine run;
  std::vector<StepLine> steps = {};
  std::vector<Sample> samples = {};
  std::vector<LogLine> logs = {};
  std::vector<CastEntry> casts = {};  // of all sampled steps
  std::vector<GraphOp> graph = {};    // of the first sampled step
  bool complete = false;              // the program ended the record
};

/** A report file in memory. */
struct ReportData {
  /** The lines without findings; each has its run, -1 for lines of the whole file, its step (-1 for
   *  none) and type. */
  struct Line {
    std::int64_t run, step;
    std::string type, text;
  };
  std::vector<Line> lines;
  std::vector<RunData> runs;
  bool cut_off = false;  // the last line is incomplete
};

/** Reads report files; the runs of later files are numbered after those of earlier ones. Lines of
 *  unknown type are kept. Errors: IoError with the path; FormatError, with path and line, for a
 *  file that is no report; Unsupported in a build without JSON. */
MZ_API ReportData read_report(const std::vector<std::string>& paths);

}  // namespace mezzo::amp::report
