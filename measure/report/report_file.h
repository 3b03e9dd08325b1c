// ReportFile: the file that one or several reports are streamed to, and the page made from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../../tensor/core/macros.h"
#include "../../tensor/core/pointers.h"

namespace mezzo::amp {

/** The file of one or several reports. Each line is flushed when it is complete, so that a program
 *  that is killed leaves a readable file. If the disk is full, a warning is logged once, later
 *  lines are dropped, and the training goes on. */
class MZ_API ReportFile {
 public:
  /** `path` ends in ".html" or ".jsonl". The lines go to the file with the ending ".jsonl"; close()
   *  makes the page if the ending is ".html". Both files are replaced. Errors: ValueError for
   *  another ending; IoError, naming the path, if a file cannot be written; Unsupported in a build
   *  without JSON. */
  explicit ReportFile(const std::string& path);
  /** Closes the file; errors are logged. */
  ~ReportFile();
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;

  /** Makes the page. Closing again does nothing. Errors: IoError with the path. */
  void close();
  /** Returns the path of the .jsonl file. */
  const std::string& lines_path() const { return lines_path_; }

  // ---- for Report -------------------------------------------------------------------------------
  /** Returns the number of a new run. */
  std::int64_t add_run() { return runs_++; }
  /** Appends a line. Does nothing after a write failed. */
  void write(const std::string& line) noexcept;
  /** Returns false if lines are dropped. */
  bool accepts() const { return !dropped_; }

 private:
  struct Stream;

  std::string lines_path_, page_path_;
  Owner<Stream> stream_;
  std::int64_t runs_ = 0;
  bool dropped_ = false, closed_ = false;
};

/** Options of write_report_page. */
struct ReportPageOptions {
  /** Sampled steps that are kept of each run if there are several runs, at least 12; the first, the
   *  last and those with an overflow are always kept. 0: all, or 12 with more than 8 runs. Fewer
   *  are kept, but at least 12, where the page would exceed 2 MB a run or 15 MB. */
  std::int64_t samples = 0;
};

/** Makes the page of report files: one HTML file that needs no network. A file that ends within a
 *  line, as that of a killed program, gives a page of what is there, and the page says so. Errors:
 *  IoError with the path; FormatError for a file that is no report; ValueError for no file or fewer
 *  than 12 samples; Unsupported in a build without JSON. */
MZ_API void write_report_page(const std::vector<std::string>& lines_paths,
                              const std::string& page_path, const ReportPageOptions& options = {});

}  // namespace mezzo::amp
