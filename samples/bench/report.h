// Reports of the bench: JSON lines and the comparison with PyTorch.
#pragma once

#include <fstream>

#include "../common/table.h"
#include "micro.h"

namespace samples {

/** A file of JSON objects, one per line, each flushed immediately. The first line has the facts of
 *  all rows, the others are the rows. Writes nothing if the path is empty. */
class JsonLines {
 public:
  /** Truncates the file. Errors: UsageError if it cannot be written. */
  explicit JsonLines(std::string path);

  // A write error does not throw, so that measuring continues on a full disk.
  void write(const mezzo::bench::Facts& facts);
  void write(const mezzo::bench::Row& row);
  void write(const MicroResult& row);
  /** Throws IoError, with the path, if a line could not be written. */
  void finish();

 private:
  void write_line(const std::string& line);

  std::string path_;
  std::ofstream file_;
};

/** A comparison that samples/bench_torch.py wrote. */
struct PeerReport {
  std::string facts;  // one line: version of PyTorch, device, numbers of blocks and steps
  Table table;
  std::vector<std::string> errors;  // one line for each side of a row that failed
};

/** Reads a comparison. Errors: IoError and FormatError with path and reason. */
PeerReport read_peer(const std::string& path);

}  // namespace samples
