#include "table.h"

#include <algorithm>
#include <cstdio>
#include <ostream>

namespace samples {

void print(std::ostream& out, const Table& table) {
  std::vector<std::size_t> widths(table.header.size(), 0);
  const auto widen = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  };
  const auto write = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      out << (i ? "  " : "") << (i ? padding + row[i] : row[i] + padding);
    }
    out << "\n";
  };
  widen(table.header);
  for (const auto& row : table.rows) widen(row);
  write(table.header);
  for (const auto& row : table.rows) write(row);
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  return fixed(bytes, unit == 0 ? 0 : 1) + " " + units[unit];
}

}  // namespace samples
