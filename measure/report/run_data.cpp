#include "run_data.h"

#include <mezzo_features.h>

#include <limits>

#include "../../tensor/io/byte_reader.h"
#include "../../tensor/io/json_text.h"
#include "../../tensor/text/text.h"

#if MZ_HAS_JSON
#  include <nlohmann/json.hpp>
#endif

namespace mezzo::amp::report {

#if MZ_HAS_JSON

namespace {

using Json = nlohmann::ordered_json;

/** Longer lines are refused before they are parsed. */
constexpr std::size_t kMostLine = std::size_t{1} << 28;

double number(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string text = value.get<std::string>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return text == "inf"    ? kInfinity
         : text == "-inf" ? -kInfinity
                          : std::numeric_limits<double>::quiet_NaN();
}

std::string text_of(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t integer(const Json& line, const char* key) { return line.value(key, std::int64_t{0}); }

DType dtype_named(const std::string& text) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (name(static_cast<DType>(i)) == text) return static_cast<DType>(i);
  fail<FormatError>("report", {.what = "unknown dtype", .got = text});
}

Histogram histogram_of(const Json& row) {
  Histogram h{.elements = integer(row, "n"),
              .zeros = integer(row, "zero"),
              .infinities = integer(row, "inf"),
              .nans = integer(row, "nan"),
              .lowest = static_cast<int>(integer(row, "lo")),
              .counts = row.at("counts").get<std::vector<std::int64_t>>()};
  if (const auto largest = row.find("max"); largest != row.end()) h.largest = number(*largest);
  return h;
}

SampleRow row_of(const Json& row) {
  SampleRow out{.name = row.at("name").get<std::string>(),
                .module = text_of(row, "module"),
                .op = text_of(row, "op"),
                .dtype = dtype_named(row.at("dtype").get<std::string>()),
                .histogram = histogram_of(row),
                .scale = number(row.at("scale"))};
  const std::string kind = row.at("kind").get<std::string>();
  for (std::size_t i = 0; i < std::size(kKindNames); ++i)
    if (kind == kKindNames[i]) out.kind = static_cast<Kind>(i);
  if (const auto ratio = row.find("ratio"); ratio != row.end()) out.ratio = histogram_of(*ratio);
  return out;
}

RunLine run_of(const Json& line) {
  if (line.at("format").get<int>() != kFormat)
    fail<FormatError>("report", {.what = "unknown version of the format",
                                 .got = line.at("format").dump(),
                                 .expected = str(kFormat)});
  return {.title = text_of(line, "title"),
          .group = text_of(line, "group"),
          .level = text_of(line, "level"),
          .started = text_of(line, "started"),
          .version = text_of(line, "mezzo"),
          .commit = text_of(line, "commit"),
          .device = text_of(line, "device"),
          .hardware = text_of(line, "hardware"),
          .every = integer(line, "every"),
          .loss_scale = text_of(line, "loss_scale"),
          .cast_dtype = text_of(line, "cast_dtype"),
          .emulated = line.value("emulated", false)};
}

StepLine step_of(const Json& line) {
  StepLine step{.step = integer(line, "step"),
                .results = line.at("results").get<std::vector<std::string>>(),
                .ms = number(line.at("ms")),
                .sampled = line.value("sampled", false),
                .first_nonfinite = text_of(line, "first_nonfinite")};
  for (const Json& value : line.at("losses")) step.losses.push_back(number(value));
  for (const Json& value : line.at("scales")) step.scales.push_back(number(value));
  if (const auto lrs = line.find("lrs"); lrs != line.end())
    for (const Json& value : *lrs) step.lrs.push_back(number(value));
  return step;
}

CastEntry cast_of(const Json& e) {
  return {.module = text_of(e, "module"),
          .op = text_of(e, "op"),
          .tag = text_of(e, "tag"),
          .direction = text_of(e, "direction") == "backward" ? CastDirection::backward
                                                             : CastDirection::forward,
          .from = dtype_named(e.at("from").get<std::string>()),
          .to = dtype_named(e.at("to").get<std::string>()),
          .count = integer(e, "count"),
          .elements = integer(e, "elements"),
          .overflowed = integer(e, "overflowed"),
          .flushed = integer(e, "flushed")};
}

GraphOp graph_op_of(const Json& op) {
  GraphOp out{.op = text_of(op, "op"),
              .module = text_of(op, "module"),
              .tag = text_of(op, "tag"),
              .row = text_of(op, "row")};
  for (const Json& x : op.at("in"))
    out.in.push_back({.from = integer(x, "from"),
                      .name = text_of(x, "name"),
                      .dtype = dtype_named(x.at("dtype").get<std::string>()),
                      .shape = x.at("shape").get<std::vector<std::int64_t>>()});
  for (const Json& x : op.at("out"))
    out.out.push_back({.dtype = dtype_named(x.at("dtype").get<std::string>())});
  return out;
}

void add(RunData& run, const std::string& type, const Json& line) {
  if (type == "step") {
    run.steps.push_back(step_of(line));
  } else if (type == "log") {
    run.logs.push_back({.step = integer(line, "step"),
                        .name = line.at("name").get<std::string>(),
                        .value = number(line.at("value"))});
  } else if (type == "sample") {
    Sample sample{.step = integer(line, "step"), .rows = {}};
    for (const Json& row : line.at("rows")) sample.rows.push_back(row_of(row));
    run.samples.push_back(std::move(sample));
  } else if (type == "casts") {
    for (const Json& entry : line.at("entries")) run.casts.push_back(cast_of(entry));
  } else if (type == "graph") {
    for (const Json& op : line.at("ops")) run.graph.push_back(graph_op_of(op));
  } else if (type == "end") {
    run.complete = true;
  }
}

/** Adds the lines of one file. */
class FileReader {
 public:
  FileReader(ReportData& data, std::string path)
      : data_(data), path_(std::move(path)), first_run_(std::ssize(data.runs)) {}

  void read() {
    const io::ByteReader file("report", path_);
    const std::vector<std::byte> bytes = file.bytes(0, file.size());
    std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    while (!rest.empty()) {
      ++number_;
      const std::size_t end = rest.find('\n');
      const bool is_last = end == std::string_view::npos;
      const std::string_view line = rest.substr(0, end);
      rest = is_last ? std::string_view() : rest.substr(end + 1);
      if (!add_line(line)) {
        if (!is_last && !rest.empty()) refuse("the line is not a JSON object");
        data_.cut_off = true;
      }
    }
    if (std::ssize(data_.runs) == first_run_) refuse("it has no run");
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail<FormatError>(str(path_, ", line ", number_),
                      {.what = what, .expected = "a file that amp::Report wrote"});
  }

  /** Returns false if the line is not complete. */
  bool add_line(std::string_view text) {
    if (text.size() > kMostLine) refuse("the line is too long");
    Json line = Json::parse(text, nullptr, false);
    if (!line.is_object()) return false;
    std::string wrong;
    try {
      wrong = add_object(line);
    } catch (const nlohmann::json::exception& e) {
      wrong = e.what();
    } catch (const FormatError& e) {
      wrong = e.what();
    }
    if (!wrong.empty()) refuse(wrong);
    return true;
  }

  /** Returns what is wrong with the object; empty if it is right. */
  std::string add_object(Json& line) {
    const std::string type = text_of(line, "type");
    if (type.empty()) return "the object has no type";
    if (type == "finding") return {};
    std::int64_t run = -1;
    if (line.contains("run")) {
      run = first_run_ + line["run"].get<std::int64_t>();
      if (type == "run") {
        if (run != std::ssize(data_.runs)) return "the runs are not numbered in order";
        data_.runs.push_back({.run = run_of(line)});
      }
      if (run < first_run_ || run >= std::ssize(data_.runs)) return "the run has no first line";
      line["run"] = run;
      add(data_.runs[static_cast<std::size_t>(run)], type, line);
    } else if (type == "policy" && first_run_ > 0) {
      return {};  // the same in every file
    }
    data_.lines.push_back({run, line.value("step", std::int64_t{-1}), type, line.dump()});
    return {};
  }

  ReportData& data_;
  const std::string path_;
  const std::int64_t first_run_;
  std::int64_t number_ = 0;
};

}  // namespace

ReportData read_report(const std::vector<std::string>& paths) {
  ReportData data;
  for (const std::string& path : paths) FileReader(data, path).read();
  return data;
}

#else

ReportData read_report(const std::vector<std::string>&) {
  io::require_json("write_report_page", "reports");
  return {};
}

#endif

}  // namespace mezzo::amp::report
