// Table: text cells with a header, printed in aligned columns; and number formatting.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace samples {

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

/** Prints a table with the first column left-aligned and the others right-aligned. */
void print(std::ostream& out, const Table& table);

/** Returns a number with `digits` digits after the decimal point. */
std::string fixed(double value, int digits);
/** Returns a size such as "1.5 MB", in powers of 1000. */
std::string bytes_text(double bytes);

}  // namespace samples
