// Reports of the bench: a table, a JSON file, JSON lines and an HTML page.
#pragma once

#include <fstream>

#include "../common/table.h"
#include "measure.h"
#include "micro.h"

namespace samples {

/** Facts that apply to all runs of a report. */
struct BenchFacts {
  std::string size, device, hardware;
  std::int64_t warm_up = 0, steps = 0;
  Roof roof = {};
};

/** Returns the table of the runs. */
Table table_of(const std::vector<Measurement>& results);
/** Returns one line for each failed run: net, level and error. */
std::vector<std::string> errors_of(const std::vector<Measurement>& results);

/** Writes the runs as JSON. Errors: IoError with the path. */
void write_json(const std::string& path, const BenchFacts& facts,
                const std::vector<Measurement>& results);
/** A file of JSON objects, one per line, each flushed immediately. The first line has the facts of
 *  all runs (size, device, hardware), the others are the rows. Writes nothing if the path is empty.
 */
class JsonLines {
 public:
  /** Truncates the file. Errors: UsageError if it cannot be written. */
  explicit JsonLines(std::string path);

  // A write error does not throw, so that measuring continues on a full disk.
  void write(const BenchFacts& facts);
  void write(const Measurement& row);
  void write(const MicroResult& row);
  /** Throws IoError, with the path, if a line could not be written. */
  void finish();

 private:
  void write_line(const std::string& line);

  std::string path_;
  std::ofstream file_;
};

/** Writes a self-contained HTML page with SVG bars of time and memory and curves of the losses.
 *  Errors: IoError with the path. */
void write_page(const std::string& path, const BenchFacts& facts,
                const std::vector<Measurement>& results);

/** A comparison that samples/bench_torch.py wrote. */
struct PeerReport {
  std::string facts;  // one line: version of PyTorch, device, numbers of blocks and steps
  Table table;
  std::vector<std::string> errors;  // one line for each side of a row that failed
};

/** Reads a comparison. Errors: IoError and FormatError with path and reason. */
PeerReport read_peer(const std::string& path);

}  // namespace samples
