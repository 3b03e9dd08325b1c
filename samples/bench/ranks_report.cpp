#include "ranks_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "../common/table.h"

namespace samples {

namespace {

using mezzo::MedianInterval;
using mezzo::str;
using nlohmann::ordered_json;

constexpr double kMega = 1e6;

std::string range(const MedianInterval& interval) {
  if (!std::isfinite(interval.low) || !std::isfinite(interval.high)) return "-";
  return fixed(interval.low, 2) + "-" + fixed(interval.high, 2);
}

/** Returns a figure of rows that have it, else "-". */
std::string if_any(bool has, double value) { return has ? fixed(value, 2) : "-"; }

/** Adds the members NAME, NAME_low and NAME_high. */
void add(ordered_json& object, const std::string& name, const MedianInterval& interval) {
  object[name] = interval.value;  // infinities become null
  object[name + "_low"] = interval.low;
  object[name + "_high"] = interval.high;
}

ordered_json as_json(const RankRow& r) {
  ordered_json row{{"net", r.net},         {"level", r.level},     {"ranks", r.ranks},
                   {"threads", r.threads}, {"samples", r.samples}, {"turns", r.turns}};
  add(row, "step_ms", r.ms);
  add(row, "cpu_ms", r.cpu_ms);
  add(row, "weak_cpu", r.weak_cpu);
  add(row, "weak", r.weak);
  if (r.has_strong()) {
    add(row, "strong_cpu", r.strong_cpu);
    add(row, "strong", r.strong);
  }
  row["bytes_per_step"] = r.bytes;
  row["comm_ms"] = r.comm_ms;
  row["exposed_ms"] = r.exposed_ms;
  row["joint_ms"] = r.joint_ms;
  row["joint_cpu_ms"] = r.joint_cpu_ms;
  row["single_ms"] = r.single_ms;
  row["single_cpu_ms"] = r.single_cpu_ms;
  if (r.has_strong()) {
    row["split_ms"] = r.split_ms;
    row["split_cpu_ms"] = r.split_cpu_ms;
  }
  return row;
}

}  // namespace

Table text_table(const std::vector<RankRow>& rows) {
  Table result{{"net", "level", "ranks", "batch", "step ms", "cpu ms", "weak cpu", "95 %", "weak",
                "strong cpu", "strong", "MB", "comm ms", "exposed"},
               {}};
  for (const RankRow& r : rows)
    result.rows.push_back(
        {r.net, r.level, str(r.ranks, "x", r.threads), str(r.samples), fixed(r.ms.value, 2),
         fixed(r.cpu_ms.value, 2), fixed(r.weak_cpu.value, 2), range(r.weak_cpu),
         fixed(r.weak.value, 2), if_any(r.has_strong(), r.strong_cpu.value),
         if_any(r.has_strong(), r.strong.value), fixed(static_cast<double>(r.bytes) / kMega, 2),
         fixed(r.comm_ms, 2), fixed(r.exposed_ms, 2)});
  return result;
}

std::string json(const RankFacts& facts) {
  ordered_json result = ordered_json::parse(mezzo::bench::json(mezzo::bench::Facts{
      .environment = mezzo::environment(), .roof = {}, .notes = {{"size", facts.size}}}));
  result["warm_up"] = facts.warm_up;
  result["steps"] = facts.steps;
  return result.dump();
}

std::string json(const RankFacts& facts, const std::vector<RankRow>& rows) {
  ordered_json report = ordered_json::parse(json(facts));
  report["runs"] = ordered_json::array();
  for (const RankRow& row : rows) report["runs"].push_back(as_json(row));
  return report.dump(1) + "\n";
}

}  // namespace samples
