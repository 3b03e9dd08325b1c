// The page of bench --ranks: the table, and bars in SVG.
#include <algorithm>
#include <iterator>

#include "../common/table.h"
#include "ranks_report.h"

namespace samples {

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

}  // namespace samples
