// The bench's rows as comma-separated values.
#include <cmath>

#include "../tensor/text/text.h"
#include "bench_fields.h"

namespace mezzo::bench {

namespace {

/** Returns text, in quotes if it has a character that ends a cell (RFC 4180, section 2). */
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + '"';
}

std::string cell(double value) { return std::isfinite(value) ? str(value) : ""; }

/** Names and values of one line. A nested field becomes "outer.inner". */
struct Line {
  std::string names, values;

  void add(const Fields& fields, const std::string& prefix = "") {
    for (const Field& field : fields)
      std::visit([&](const auto& value) { add(prefix + field.name, value); }, field.value);
  }

 private:
  void append(const std::string& name, const std::string& text) {
    const char* comma = names.empty() ? "" : ",";
    names += comma + cell(name);
    values += comma + text;
  }
  void add(const std::string& name, const std::string& text) { append(name, cell(text)); }
  void add(const std::string& name, double value) { append(name, cell(value)); }
  void add(const std::string& name, bool value) { append(name, value ? "true" : "false"); }
  void add(const std::string& name, const std::vector<double>& list) {
    std::string text;
    for (const double value : list) text += (text.empty() ? "" : " ") + str(value);
    append(name, text);
  }
  void add(const std::string& name, const Fields& fields) { add(fields, name + "."); }
};

}  // namespace

std::string csv(const Results& results) {
  std::string text;
  for (const Row& row : results.rows) {
    Line line;
    line.add(fields(row, true));
    line.add(fields(results.facts));
    if (text.empty()) text = line.names + "\r\n";
    text += line.values + "\r\n";
  }
  return text;
}

}  // namespace mezzo::bench
