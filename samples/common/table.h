// A table of text cells with a header, columns as wide as their widest cell.
// Sees: the standard library.
// Read next: ../bench/report.h.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace samples {

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

/** First column to the left, the others to the right. */
void print(std::ostream& out, const Table& table);

/** A number with so many digits after the point. */
std::string fixed(double value, int digits);
/** "1.5 MB": bytes in powers of 1000. */
std::string bytes_text(double bytes);

}  // namespace samples
