// The bench's reports: a table, a JSON file, JSON lines, a page.
// Sees: measure.h, micro.h, table.h.
// Read next: report.cpp, report_json.cpp, report_page.cpp.
#pragma once

#include <fstream>

#include "../common/table.h"
#include "measure.h"
#include "micro.h"

namespace samples {

/** What all runs of a report share. */
struct BenchFacts {
  std::string size, device, hardware;
  std::int64_t warm_up = 0, steps = 0;
  Roof roof = {};
};

Table table_of(const std::vector<Measurement>& results);
/** One line for each failed run: net, level and error. */
std::vector<std::string> errors_of(const std::vector<Measurement>& results);

/** Errors (of both): IoError naming the path. */
void write_json(const std::string& path, const BenchFacts& facts, const std::vector<Measurement>& results);
/** A file of JSON objects, one a line, each written out as soon as it is there: the first is what all runs share
 *  (size, device, hardware), the others are the rows. Without a path nothing is written. */
class JsonLines {
 public:
  /** Empties the file. Errors: UsageError where it cannot be written. */
  explicit JsonLines(std::string path);

  // A full disk stops the writing, not the measuring.
  void write(const BenchFacts& facts);
  void write(const Measurement& row);
  void write(const MicroResult& row);
  /** Errors: IoError naming the path, where a line could not be written. */
  void finish();

 private:
  void write_line(const std::string& line);

  std::string path_;
  std::ofstream file_;
};

/** One page without anything from elsewhere: bars of time and memory, curves of the losses, drawn as SVG. */
void write_page(const std::string& path, const BenchFacts& facts, const std::vector<Measurement>& results);

/** The table of what ../bench_torch.py measured on both sides. Errors: IoError, FormatError naming path and reason. */
Table peer_table(const std::string& path);

}  // namespace samples
