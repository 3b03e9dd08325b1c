// The bench's reports: a table, a JSON file, a page.
// Sees: measure.h, table.h.
// Read next: report.cpp, report_json.cpp, report_page.cpp.
#pragma once

#include "../common/table.h"
#include "measure.h"

namespace samples {

/** What all runs of a report share. */
struct BenchFacts {
  std::string size, device, hardware;
  std::int64_t warm_up = 0, steps = 0;
  Roof roof;
};

Table table_of(const std::vector<Measurement>& results);

/** Errors (of both): IoError naming the path. */
void write_json(const std::string& path, const BenchFacts& facts, const std::vector<Measurement>& results);
/** One page without anything from elsewhere: bars of time and memory, curves of the losses, drawn as SVG. */
void write_page(const std::string& path, const BenchFacts& facts, const std::vector<Measurement>& results);

/** The table of what ../bench_torch.py measured on both sides. Errors: IoError, FormatError naming path and reason. */
Table peer_table(const std::string& path);

}  // namespace samples
