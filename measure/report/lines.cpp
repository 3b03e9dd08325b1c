#include "lines.h"

#include <mezzo_features.h>

#include <cmath>

#include "../../amp/policy.h"
#include "../../tensor/core/registry.h"
#include "../../tensor/memory/allocator.h"

#if MZ_HAS_JSON
#  include <nlohmann/json.hpp>
#endif

namespace mezzo::amp::report {

#if MZ_HAS_JSON

namespace {

using Json = nlohmann::ordered_json;

/** JSON has no infinities and no NaN: they become strings. */
Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json numbers(const std::vector<double>& values) {
  Json out = Json::array();
  for (const double value : values) out.push_back(number(value));
  return out;
}

Json start(const char* type, std::int64_t run) { return {{"type", type}, {"run", run}}; }

/** Names come from the program; bytes that are not UTF-8 are replaced. */
std::string text(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add_histogram(Json& to, const Histogram& h) {
  to["lo"] = h.lowest;
  to["counts"] = h.counts;
}

Json row_json(const SampleRow& row) {
  const Histogram& h = row.histogram;
  Json out = {{"kind", kKindNames[static_cast<std::size_t>(row.kind)]},
              {"name", row.name},
              {"module", row.module}};
  if (!row.op.empty()) out["op"] = row.op;
  out.update({{"dtype", name(row.dtype)},
              {"n", h.elements},
              {"zero", h.zeros},
              {"inf", h.infinities},
              {"nan", h.nans}});
  add_histogram(out, h);
  out["max"] = number(h.largest);
  out["scale"] = number(row.scale);
  if (row.ratio) {
    Json ratio = Json::object();
    add_histogram(ratio, *row.ratio);
    ratio["zero"] = row.ratio->zeros;
    out["ratio"] = std::move(ratio);
  }
  return out;
}

Json operand_json(const GraphOp::Operand& x) {
  Json out = {{"from", x.from}};
  if (!x.name.empty()) out["name"] = x.name;
  out["dtype"] = name(x.dtype);
  out["shape"] = x.shape;
  return out;
}

Json cast_json(const CastEntry& e) {
  return {{"module", e.module},
          {"op", e.op},
          {"tag", e.tag},
          {"direction", name(e.direction)},
          {"from", name(e.from)},
          {"to", name(e.to)},
          {"count", e.count},
          {"cache_hits", e.cache_hits},
          {"elements", e.elements},
          {"bytes", e.bytes},
          {"overflowed", e.overflowed},
          {"flushed", e.flushed}};
}

}  // namespace

std::string json_line(std::int64_t run, const RunLine& r) {
  Json out = start("run", run);
  out.update({{"format", kFormat},
              {"title", r.title},
              {"group", r.group},
              {"level", r.level},
              {"started", r.started},
              {"mezzo", r.version},
              {"commit", r.commit},
              {"device", r.device},
              {"hardware", r.hardware},
              {"every", r.every},
              {"loss_scale", r.loss_scale.empty() ? Json() : Json(r.loss_scale)},
              {"cast_dtype", r.cast_dtype.empty() ? Json() : Json(r.cast_dtype)},
              {"emulated", r.emulated}});
  if (r.samples > 0) out["samples"] = r.samples;
  Json options = Json::object();
  for (const auto& [key, value] : r.options) options[key] = value;
  out["options"] = std::move(options);
  return text(out);
}

std::string json_line(std::int64_t run, const ModelLine& m) {
  Json out = start("model", run), modules = Json::array(), parameters = Json::array();
  for (const ModelLine::Module& module : m.modules)
    modules.push_back({{"path", module.path}, {"type", module.type}});
  for (const ModelLine::Parameter& p : m.parameters)
    parameters.push_back({{"name", p.name},
                          {"module", p.module},
                          {"shape", p.shape},
                          {"dtype", name(p.dtype)},
                          {"master", p.master}});
  out.update({{"model", m.number}, {"name", m.name}});
  out["modules"] = std::move(modules);
  out["parameters"] = std::move(parameters);
  return text(out);
}

std::string json_line(std::int64_t run, const StepLine& s) {
  Json out = start("step", run);
  out.update({{"step", s.step},
              {"losses", numbers(s.losses)},
              {"scales", numbers(s.scales)},
              {"lrs", numbers(s.lrs)},
              {"results", s.results},
              {"ms", number(s.ms)}});
  if (s.sampled) out["sampled"] = true;
  if (!s.first_nonfinite.empty()) out["first_nonfinite"] = s.first_nonfinite;
  out.update({{"casts", s.casts}, {"cast_bytes", s.cast_bytes}, {"memory", s.memory}});
  return text(out);
}

std::string json_line(std::int64_t run, const LogLine& line) {
  Json out = start("log", run);
  out.update({{"step", line.step}, {"name", line.name}, {"value", number(line.value)}});
  return text(out);
}

std::string json_line(std::int64_t run, std::int64_t step, const std::vector<SampleRow>& rows) {
  Json out = start("sample", run), list = Json::array();
  for (const SampleRow& row : rows) list.push_back(row_json(row));
  out["step"] = step;
  out["rows"] = std::move(list);
  return text(out);
}

std::string json_line(std::int64_t run, std::int64_t step, const std::vector<CastEntry>& entries) {
  Json out = start("casts", run), list = Json::array();
  for (const CastEntry& entry : entries) list.push_back(cast_json(entry));
  out["step"] = step;
  out["entries"] = std::move(list);
  return text(out);
}

std::string json_line(std::int64_t run, std::int64_t step, const std::vector<GraphOp>& ops) {
  Json out = start("graph", run), list = Json::array();
  for (const GraphOp& op : ops) {
    Json in = Json::array(), results = Json::array();
    for (const GraphOp::Operand& x : op.in) in.push_back(operand_json(x));
    for (const GraphOp::Operand& x : op.out)
      results.push_back({{"dtype", name(x.dtype)}, {"shape", x.shape}});
    Json node = {{"op", op.op}, {"module", op.module}, {"tag", op.tag}};
    if (!op.row.empty()) node["row"] = op.row;
    node["in"] = std::move(in);
    node["out"] = std::move(results);
    list.push_back(std::move(node));
  }
  out["step"] = step;
  out["ops"] = std::move(list);
  return text(out);
}

std::string json_line(std::int64_t run, std::int64_t step, const std::vector<MemoryPoint>& points) {
  Json out = start("memory", run), categories = Json::array(), list = Json::array();
  for (std::size_t i = 0; i < kNumMemoryCategories; ++i)
    categories.push_back(name(static_cast<MemoryCategory>(i)));
  for (const MemoryPoint& point : points)
    list.push_back({{"at", point.at}, {"phase", point.phase}, {"bytes", point.bytes}});
  out["step"] = step;
  out["categories"] = std::move(categories);
  out["points"] = std::move(list);
  return text(out);
}

std::string json_line(std::int64_t run, const Finding& f) {
  Json out = start("finding", run);
  out.update({{"kind", f.kind}, {"severity", f.severity}, {"text", f.text}, {"names", f.names}});
  if (!f.level.empty()) out["level"] = f.level;
  if (f.loss_scale) out["loss_scale"] = number(*f.loss_scale);
  return text(out);
}

std::string end_line(std::int64_t run, std::int64_t steps, double seconds) {
  Json out = start("end", run);
  out.update({{"steps", steps}, {"seconds", number(seconds)}, {"complete", true}});
  return text(out);
}

std::string policy_line() {
  Json out = {{"type", "policy"}}, levels = Json::array(), ops = Json::array();
  for (const Level& level : kLevels) levels.push_back(level.name);
  for (const OpInfo* op : all_ops()) {
    if (op->traits.internal) continue;
    Json at = Json::array();
    for (const Level& level : kLevels) at.push_back(action_text(op->traits.precision, level));
    ops.push_back({{"name", op->traits.name},
                   {"tag", name(op->traits.precision)},
                   {"levels", std::move(at)},
                   {"summary", op->traits.summary}});
  }
  out["levels"] = std::move(levels);
  out["ops"] = std::move(ops);
  return text(out);
}

#else

// Without JSON no report can be made: Report refuses before any line is written.
std::string json_line(std::int64_t, const RunLine&) { return {}; }
std::string json_line(std::int64_t, const ModelLine&) { return {}; }
std::string json_line(std::int64_t, const StepLine&) { return {}; }
std::string json_line(std::int64_t, const LogLine&) { return {}; }
std::string json_line(std::int64_t, std::int64_t, const std::vector<SampleRow>&) { return {}; }
std::string json_line(std::int64_t, std::int64_t, const std::vector<CastEntry>&) { return {}; }
std::string json_line(std::int64_t, std::int64_t, const std::vector<GraphOp>&) { return {}; }
std::string json_line(std::int64_t, std::int64_t, const std::vector<MemoryPoint>&) { return {}; }
std::string json_line(std::int64_t, const Finding&) { return {}; }
std::string end_line(std::int64_t, std::int64_t, double) { return {}; }
std::string policy_line() { return {}; }

#endif

}  // namespace mezzo::amp::report
