// JSON of the bench's facts and rows.
#include <cmath>

#include "../tensor/io/utf8.h"
#include "../tensor/text/text.h"
#include "bench_fields.h"

namespace mezzo::bench {

namespace {

/** Returns text in quotes. Bytes that are not UTF-8 become question marks. */
std::string quoted(std::string text) {
  for (std::size_t at; (at = io::find_non_utf8(text)) != std::string::npos;) text[at] = '?';
  std::string result;
  io::append_json_string(result, text);
  return result;
}

std::string json_of(const Fields& fields);

struct JsonOf {
  std::string operator()(const std::string& text) const { return quoted(text); }
  std::string operator()(double value) const { return std::isfinite(value) ? str(value) : "null"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const std::vector<double>& values) const {
    std::string result = "[";
    for (const double value : values) result += (result.size() > 1 ? "," : "") + (*this)(value);
    return result + "]";
  }
  std::string operator()(const Fields& fields) const { return json_of(fields); }
};

/** Returns an object without the closing bracket. */
std::string open_object(const Fields& fields) {
  std::string result = "{";
  for (const Field& field : fields)
    result += (result.size() > 1 ? "," : "") + quoted(field.name) + ":" +
              std::visit(JsonOf(), field.value);
  return result;
}

std::string json_of(const Fields& fields) { return open_object(fields) + "}"; }

}  // namespace

std::string json(const Facts& facts) { return json_of(fields(facts)); }
std::string json(const Row& row) { return json_of(fields(row)); }

std::string json(const Results& results) {
  std::string text = open_object(fields(results.facts)) + ",\n\"runs\":[";
  for (std::size_t i = 0; i < results.rows.size(); ++i)
    text += (i > 0 ? ",\n" : "\n") + json(results.rows[i]);
  return text + "]}\n";
}

}  // namespace mezzo::bench
