// Figure: a named measurement; and a JSON report of figures.
#pragma once

#include <string>
#include <vector>

namespace samples {

/** A named measurement. */
struct Figure {
  std::string name;
  double value = 0;
};

/** Writes the JSON object {"threads": ..., "unit": ..., "figures": {name: value, ...}}.
 *  Errors: IoError. */
void write_figures(const std::string& path, const std::string& unit,
                   const std::vector<Figure>& figures);

}  // namespace samples
