#include "ranks_report.h"

#include <algorithm>
#include <cmath>
#include <iterator>
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

using mezzo::str;

namespace {

constexpr double kBarStart = 170, kBarWidth = 420, kBarHeight = 14, kLineHeight = 20;

constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Mezzo bench: ranks</title><link rel="icon" href="data:,"><style>
:root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }
body { margin: 2em auto; max-width: 1100px; padding: 0 1em; }
table { border-collapse: collapse; }
th, td { padding: .2em .6em; text-align: right; font-variant-numeric: tabular-nums; }
td:first-child, th:first-child { text-align: left; }
.scroll { overflow-x: auto; }
svg text { fill: currentColor; font-size: 13px; }
.cpu { fill: #2a78d6; } .wall { fill: #1baf7a; }
.exposed { fill: #e34948; } .comm { fill: #eda100; }
.one { stroke: currentColor; stroke-dasharray: 3 3; }
</style></head><body>
<h1>Training on several ranks</h1>
)";

/** A bar of a drawing. */
struct Bar {
  std::string label, kind;  // text before it, class of the style sheet
  double value = 0;
  std::string text;  // behind it
};

/** Returns a figure of bars. `full` is the value of the whole width, where a line is drawn if
 *  `marked`. */
std::string figure(const std::string& caption, const std::vector<Bar>& bars, double full,
                   bool marked) {
  std::string content;
  double y = 0;
  for (const Bar& bar : bars) {
    const double width = kBarWidth * std::max(0.0, bar.value) / full;
    content +=
        str("<text x='0' y='", fixed(y + 11, 0), "'>", bar.label, "</text><rect x='", kBarStart,
            "' y='", fixed(y, 0), "' width='", fixed(width, 1), "' height='", kBarHeight,
            "' class='", bar.kind, "'/><text x='", fixed(kBarStart + width + 8, 1), "' y='",
            fixed(y + 11, 0), "'>", bar.text, "</text>");
    y += kLineHeight;
  }
  if (marked)
    content += str("<line class='one' x1='", kBarStart + kBarWidth, "' x2='", kBarStart + kBarWidth,
                   "' y1='0' y2='", fixed(y, 0), "'/>");
  return str("<figure><figcaption>", caption, "</figcaption><svg role='img' aria-label='", caption,
             "' width='900' height='", fixed(y, 0), "'>", content, "</svg></figure>\n");
}

std::string efficiency_bars(const std::vector<RankRow>& rows) {
  std::vector<Bar> bars;
  for (const RankRow& r : rows) {
    const auto add_bar = [&](const char* what, const char* kind, double value) {
      bars.push_back({r.level + ", " + what, kind, value, fixed(value, 2)});
    };
    add_bar("weak, CPU", "cpu", r.weak_cpu.value);
    add_bar("weak, time", "wall", r.weak.value);
    if (!r.has_strong()) continue;
    add_bar("strong, CPU", "cpu", r.strong_cpu.value);
    add_bar("strong, time", "wall", r.strong.value);
  }
  return figure("Efficiency (the line is at 1)", bars, 1, true);
}

std::string time_bars(const std::vector<RankRow>& rows) {
  double longest = 1e-3;
  for (const RankRow& r : rows)
    longest = std::max({longest, r.ms.value, r.cpu_ms.value, r.comm_ms});
  std::vector<Bar> bars;
  for (const RankRow& r : rows) {
    const auto add_bar = [&](const char* what, const char* kind, double ms) {
      bars.push_back({r.level + ", " + what, kind, ms, fixed(ms, 2) + " ms"});
    };
    add_bar("step", "wall", r.ms.value);
    add_bar("CPU of a rank", "cpu", r.cpu_ms.value);
    add_bar("communication", "comm", r.comm_ms);
    add_bar("not hidden", "exposed", r.exposed_ms);
  }
  return figure("Time of a step", bars, longest, false);
}

std::string table_html(const Table& table) {
  const auto line = [](const std::vector<std::string>& row, const char* tag) {
    std::string out = "<tr>";
    for (const std::string& cell : row) out += str("<", tag, ">", cell, "</", tag, ">");
    return out + "</tr>\n";
  };
  std::string out = "<div class='scroll'><table>" + line(table.header, "th");
  for (const auto& row : table.rows) out += line(row, "td");
  return out + "</table></div>\n";
}

}  // namespace

std::string page(const RankFacts& facts, const std::vector<RankRow>& rows) {
  const mezzo::Environment e = mezzo::environment();
  std::string out = kHead;
  out +=
      str("<p>", e.hardware, "<br>Mezzo ", e.version, ", commit ", e.commit, ", ", e.date,
          "<br>size ", facts.size, ", ", facts.steps, " steps, of which ", facts.warm_up,
          " for warm-up</p>\n<p>Efficiency is the time of one rank for the work of all, over the "
          "sum of the ranks' times. Weak: each rank has the whole batch. Strong: the ranks share "
          "one batch.</p>\n");
  out += table_html(text_table(rows));
  std::vector<std::string> nets;
  for (const RankRow& row : rows)
    if (std::find(nets.begin(), nets.end(), row.net) == nets.end()) nets.push_back(row.net);
  for (const std::string& net : nets) {
    std::vector<RankRow> own;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(own),
                 [&](const RankRow& row) { return row.net == net; });
    out += "<h2>" + net + "</h2>\n" + efficiency_bars(own) + time_bars(own);
  }
  return out + "</body></html>\n";
}

using mezzo::str;
using nlohmann::ordered_json;

namespace {

constexpr int kMostRanks = 512;

Table communicator_cells(const CommunicatorCost& cost) {
  Table result{{"bytes", "all-reduce ms", "fitted ms"}, {}};
  for (const ReduceTime& time : cost.times)
    result.rows.push_back(
        {fixed(time.bytes, 0), fixed(1e3 * time.seconds, 3),
         fixed(1e3 * (cost.fitted.latency + time.bytes / cost.fitted.bytes_per_s), 3)});
  return result;
}

/** Returns the time of a step of one rank over that of each of several. */
double efficiency(const ScalingRow& row, double step) { return row.profile.seconds / step; }

Table comparison_cells(const ScalingResults& results) {
  Table table{{"net", "level", "1 rank ms", "beside ms", str(results.ranks, " ranks ms"),
               "predicted ms", "ratio", "efficiency", "predicted"},
              {}};
  for (const ScalingRow& row : results.rows)
    table.rows.push_back({row.net, row.level, fixed(1e3 * row.profile.seconds, 2),
                          fixed(1e3 * row.beside.seconds, 2), fixed(1e3 * row.measured, 2),
                          fixed(1e3 * row.predicted, 2), fixed(row.predicted / row.measured, 2),
                          fixed(efficiency(row, row.measured), 2),
                          fixed(efficiency(row, row.predicted), 2)});
  return table;
}

std::string milliseconds(double seconds) { return fixed(1e3 * seconds, seconds < 0.1 ? 2 : 1); }

Table prediction_cells(const ScalingResults& results) {
  Table table{{"net", "level", "fabric", "figure"}, {}};
  for (int ranks = 2; ranks <= kMostRanks; ranks *= 2) table.header.push_back(str(ranks));
  for (const ScalingRow& row : results.rows)
    for (const Fabric& fabric : known_fabrics()) {
      std::vector<std::string> times{row.net, row.level, fabric.name, "step ms"};
      std::vector<std::string> shares{row.net, row.level, fabric.name, "efficiency"};
      for (int ranks = 2; ranks <= kMostRanks; ranks *= 2) {
        const double step = predict_step(row.profile, fabric, ranks);
        times.push_back(milliseconds(step));
        shares.push_back(fixed(efficiency(row, step), 2));
      }
      table.rows.push_back(times);
      table.rows.push_back(shares);
    }
  return table;
}

ordered_json as_json(const CommunicatorCost& cost) {
  ordered_json sizes = ordered_json::array();
  for (const ReduceTime& time : cost.times)
    sizes.push_back({{"bytes", time.bytes}, {"ms", 1e3 * time.seconds}});
  return {{"latency_us", 1e6 * cost.fitted.latency},
          {"bytes_per_s", cost.fitted.bytes_per_s},
          {"cpu_share", cost.cpu_share},
          {"all_reduce", sizes}};
}

ordered_json as_json(const ScalingRow& row, bool is_measured) {
  ordered_json gradients = ordered_json::array(), predictions = ordered_json::array();
  for (const ReadyGradient& gradient : row.profile.gradients)
    gradients.push_back({{"ms", 1e3 * gradient.seconds}, {"bytes", gradient.bytes}});
  for (const Fabric& fabric : known_fabrics())
    for (int ranks = 2; ranks <= kMostRanks; ranks *= 2) {
      const double step = predict_step(row.profile, fabric, ranks);
      predictions.push_back({{"fabric", fabric.name},
                             {"ranks", ranks},
                             {"step_ms", 1e3 * step},
                             {"efficiency", efficiency(row, step)}});
    }
  ordered_json result{{"net", row.net},
                      {"level", row.level},
                      {"step_ms", 1e3 * row.profile.seconds},
                      {"gradients", gradients},
                      {"predictions", predictions}};
  if (is_measured) {
    result["beside_ms"] = 1e3 * row.beside.seconds;
    result["predicted_ms"] = 1e3 * row.predicted;
    result["measured_ms"] = 1e3 * row.measured;
  }
  return result;
}

}  // namespace

std::string tables(const ScalingResults& results) {
  std::string text;
  if (const auto& cost = results.communicator)
    text += str(results.ranks, " ranks, ", results.threads,
                " thread(s) each: ", fixed(1e6 * cost->fitted.latency, 1), " us + bytes / ",
                fixed(1e-9 * cost->fitted.bytes_per_s, 2), " GB/s, ",
                fixed(100 * cost->cpu_share, 0), " % of a core\n", communicator_cells(*cost).text(),
                "\n", comparison_cells(results).text(), "\n");
  text += "Predicted for ranks that compute as one does here:\n" + prediction_cells(results).text();
  for (const std::string& net : results.left_out)
    text += net + ": left out, as it has more than one model\n";
  return text;
}

std::string json(const RankFacts& facts, const ScalingResults& results) {
  ordered_json report = ordered_json::parse(json(facts));
  report["ranks"] = results.ranks;
  if (results.communicator) {
    report["communicator"] = as_json(*results.communicator);
    report["slow_down"] = results.slow_down;
  }
  report["runs"] = ordered_json::array();
  for (const ScalingRow& row : results.rows)
    report["runs"].push_back(as_json(row, results.communicator.has_value()));
  report["left_out"] = results.left_out;
  return report.dump(1) + "\n";
}

}  // namespace samples
