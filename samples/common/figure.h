// Figure: something measured, by name; and a report of many.
// Sees: the standard library.
// Read next: json.cpp.
#pragma once

#include <string>
#include <vector>

namespace samples {

struct Figure {
  std::string name;
  double value = 0;
};

/** Writes {"threads": ..., "unit": ..., "figures": {name: value, ...}}. Errors: IoError. */
void write_figures(const std::string& path, const std::string& unit, const std::vector<Figure>& figures);

}  // namespace samples
