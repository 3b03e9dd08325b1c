// The facts and figures of the bench by name, from which JSON and CSV are made.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "bench.h"

namespace mezzo::bench {

struct Field;
using Fields = std::vector<Field>;

/** A named value of a report. */
struct Field {
  std::string name;
  std::variant<std::string, double, bool, std::vector<double>, Fields> value;
};

/** Returns the facts of all rows. */
Fields fields(const Facts& facts);
/** Returns the figures of a row, or its error. With `all` the names are the same for every row. */
Fields fields(const Row& row, bool all = false);

}  // namespace mezzo::bench
