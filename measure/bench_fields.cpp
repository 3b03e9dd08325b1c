// The facts and figures of the bench by name, from which JSON and CSV are made.
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "../tensor/io/utf8.h"
#include "../tensor/text/text.h"
#include "bench.h"

namespace mezzo::bench {

namespace {

struct Field;
using Fields = std::vector<Field>;

/** A named value of a report. */
struct Field {
  std::string name;
  std::variant<std::string, double, bool, std::vector<double>, Fields> value;
};

double number(std::int64_t v) { return static_cast<double>(v); }

Fields peaks(const MemoryStats& memory) {
  Fields result{{"total", number(memory.total.peak)}};
  for (std::size_t i = 0; i < kNumMemoryCategories; ++i)
    result.push_back(
        {std::string(name(static_cast<MemoryCategory>(i))), number(memory.by_category[i].peak)});
  return result;
}

/** Returns the facts of all rows. */
Fields fields(const Facts& facts) {
  const Environment& e = facts.environment;
  const Roof& roof = facts.roof;
  Fields result;
  for (const auto& [name, value] : facts.notes) result.push_back({name, value});
  const Fields own{{"device", e.device},
                   {"hardware", e.hardware},
                   {"cpu_model", e.cpu_model},
                   {"cores", number(e.cores)},
                   {"threads", number(e.threads)},
                   {"cpu_isa", e.cpu_isa},
                   {"multiplies_bf16", e.multiplies_bf16},
                   {"exact_products", e.exact_products},
                   {"allow_tf32", e.allow_tf32},
                   {"allow_nondeterministic", e.allow_nondeterministic},
                   {"search_products", e.search_products},
                   {"compiler", e.compiler},
                   {"flags", e.flags},
                   {"mezzo", e.version},
                   {"commit", e.commit},
                   {"date", e.date}};
  result.insert(result.end(), own.begin(), own.end());
  if (facts.steps == 0) return result;  // not of nets
  const Fields of_nets{{"warm_up", number(facts.warm_up)},
                       {"steps", number(facts.steps)},
                       {"seconds", facts.seconds},
                       {"f32_flops_per_s", roof.f32_flops_per_s},
                       {"f16_flops_per_s", roof.f16_flops_per_s},
                       {"bf16_flops_per_s", roof.bf16_flops_per_s},
                       {"memory_bytes_per_s", roof.memory_bytes_per_s},
                       {"cache_bytes_per_s", roof.cache_bytes_per_s},
                       {"cache_bytes", roof.cache_bytes}};
  result.insert(result.end(), of_nets.begin(), of_nets.end());
  return result;
}

/** Returns the figures of a row, or its error. With `all` the names are the same for every row. */
Fields fields(const Row& row, bool all = false) {
  Fields result{{"net", row.net}, {"level", row.level}};
  if (all || !row.error.empty()) result.push_back({"error", row.error});
  if (!all && !row.error.empty()) return result;
  const Fields figures{{"emulated", row.emulated},
                       {"samples", number(row.samples)},
                       {"steps", static_cast<double>(row.losses.size())},
                       {"step_ms", row.step_ms.value},
                       {"low_ms", row.step_ms.low},
                       {"high_ms", row.step_ms.high},
                       {"unstable", row.unstable()},
                       {"over_o0", row.over_o0.value},
                       {"over_o0_low", row.over_o0.low},
                       {"over_o0_high", row.over_o0.high},
                       {"fast_ms", row.fast_ms},
                       {"slow_ms", row.slow_ms},
                       {"samples_per_s", row.samples_per_s},
                       {"flops_per_step", row.work.flops},
                       {"bytes_per_step", row.work.bytes},
                       {"floor_ms", row.floor_ms},
                       {"share_of_floor", row.share_of_floor()},
                       {"peak_bytes", peaks(row.memory)},
                       {"loss", row.loss},
                       {"skipped_steps", number(row.skipped_steps)},
                       {"loss_scale", row.loss_scale},
                       {"casts_per_step", row.casts_per_step},
                       {"cast_bytes_per_step", row.cast_bytes_per_step},
                       {"losses", row.losses},
                       {"times_ms", row.times_ms}};
  result.insert(result.end(), figures.begin(), figures.end());
  return result;
}

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

namespace {

std::string json_of(const Fields& fields);

struct JsonOf {
  std::string operator()(const std::string& text) const { return io::json_string(text); }
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
    result += (result.size() > 1 ? "," : "") + io::json_string(field.name) + ":" +
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
