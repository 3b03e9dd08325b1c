#include "text_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace mezzo {

std::string TextTable::text() const {
  std::vector<std::size_t> widths(header.size(), 0);
  const auto widen = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  };
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      text += i > 0 ? "  " + padding + row[i] : row[i] + padding;
    }
    text += '\n';
  };
  widen(header);
  for (const auto& row : rows) widen(row);
  add(header);
  for (const auto& row : rows) add(row);
  return text;
}

std::string fixed(double value, int digits) {
  if (std::isnan(value)) return "nan";  // without the sign, which printf shows
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

}  // namespace mezzo
