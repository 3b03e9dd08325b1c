// TextTable: text cells with a heading, in aligned columns; and the format of numbers in them.
#pragma once

#include <string>
#include <vector>

#include "../tensor/core/macros.h"

namespace mezzo {

/** A table of text cells. */
struct MZ_API TextTable {
  std::vector<std::string> header;             // names of the columns
  std::vector<std::vector<std::string>> rows;  // each as long as the header

  /** Returns lines with the first column aligned to the left and the others to the right. */
  std::string text() const;
};

/** Returns a number with `digits` digits after the decimal point; "nan", "inf" or "-inf". */
MZ_API std::string fixed(double value, int digits);
/** Returns a size such as "1.5 MB", in powers of 1000. */
MZ_API std::string bytes_text(double bytes);

}  // namespace mezzo
