// Writes the bench's HTML page, with SVG drawings inside.
#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "../common/report_file.h"
#include "report.h"

namespace samples {

namespace {

using mezzo::str;
using mezzo::bench::Row;

constexpr const char* kColours[] = {"#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951",
                                    "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e"};
constexpr const char* kHead =
    R"(<!doctype html><meta charset="utf-8"><title>Mezzo: the bench</title><style>
body{font:14px system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse;font-size:12px}td,th{padding:2px 8px;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}svg{display:block;margin:.5em 0 1.5em}svg text{font-size:11px;fill:#444}
.key span{display:inline-block;width:10px;height:10px;margin:0 4px 0 12px}</style>)";

const char* colour(std::size_t i) { return kColours[i % std::size(kColours)]; }

std::string rectangle(double x, double y, double width, const char* fill) {
  return str("<rect x='", fixed(x, 1), "' y='", fixed(y, 1), "' width='",
             fixed(std::max(0.0, width), 1), "' height='14' fill='", fill, "'/>");
}

std::string label(double x, double y, const std::string& text) {
  return str("<text x='", fixed(x, 1), "' y='", fixed(y, 1), "'>", text, "</text>");
}

std::string drawing(double height, const std::string& content) {
  return str("<svg width='900' height='", fixed(height, 0), "' viewBox='0 0 900 ", fixed(height, 0),
             "'>", content, "</svg>\n");
}

/** Returns a drawing of step times, one bar per level. */
std::string time_bars(const std::vector<Row>& runs) {
  double longest = 1e-9, y = 0;
  for (const Row& m : runs) longest = std::max(longest, m.step_ms.value);
  std::string content;
  for (std::size_t i = 0; i < runs.size(); ++i, y += 18) {
    const double width = 600 * runs[i].step_ms.value / longest;
    content +=
        label(0, y + 11, runs[i].level) + rectangle(40, y, width, colour(i)) +
        label(46 + width, y + 11,
              fixed(runs[i].step_ms.value, 2) + " ms, " + fixed(100 * runs[i].share_of_floor(), 0) +
                  " % of the floor, " + fixed(runs[i].samples_per_s, 0) + " samples/s");
  }
  return drawing(y, content);
}

/** Returns a drawing of peak memory, one bar per level with a segment for each category. Categories
 *  peak at different times, so the segments are scaled to the total. */
std::string memory_bars(const std::vector<Row>& runs) {
  double most = 1, y = 0;
  for (const Row& m : runs) most = std::max(most, static_cast<double>(m.memory.total.peak));
  std::string content;
  for (const Row& m : runs) {
    double sum = 1e-9, x = 40;
    for (const mezzo::MemoryUse& use : m.memory.by_category) sum += static_cast<double>(use.peak);
    const double width = 600 * static_cast<double>(m.memory.total.peak) / most;
    for (std::size_t c = 0; c < m.memory.by_category.size(); ++c) {
      const double piece = width * static_cast<double>(m.memory.by_category[c].peak) / sum;
      content += rectangle(x, y, piece, colour(c));
      x += piece;
    }
    content += label(0, y + 11, m.level) +
               label(x + 6, y + 11, bytes_text(static_cast<double>(m.memory.total.peak)));
    y += 18;
  }
  return drawing(y, content);
}

std::string memory_key() {
  std::string key = "<p class=key>";
  for (std::size_t c = 0; c < mezzo::kNumMemoryCategories; ++c)
    key += str("<span style='background:", colour(c), "'></span>",
               name(static_cast<mezzo::MemoryCategory>(c)));
  return key + "</p>\n";
}

/** Returns a drawing of losses over the steps, one curve per level. */
std::string loss_curves(const std::vector<Row>& runs) {
  double low = 1e300, high = -1e300;
  std::size_t longest = 2;
  for (const Row& m : runs) {
    longest = std::max(longest, m.losses.size());
    for (const double loss : m.losses)
      if (std::isfinite(loss)) low = std::min(low, loss), high = std::max(high, loss);
  }
  if (low > high) return "";
  if (low == high) high = low + 1;
  std::string content = label(0, 12, fixed(high, 3)) + label(0, 196, fixed(low, 3));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::string points;
    for (std::size_t s = 0; s < runs[i].losses.size(); ++s)
      if (const double loss = runs[i].losses[s]; std::isfinite(loss))
        points +=
            str(fixed(50 + 600 * static_cast<double>(s) / static_cast<double>(longest - 1), 1), ",",
                fixed(5 + 190 * (high - loss) / (high - low), 1), " ");
    content += str("<polyline points='", points, "' fill='none' stroke='", colour(i),
                   "' stroke-width='1.5'/>") +
               label(670, 15 + 16 * static_cast<double>(i), runs[i].level) +
               rectangle(700, 5 + 16 * static_cast<double>(i), 24, colour(i));
  }
  return drawing(200, content);
}

/** Returns text with HTML's special characters escaped. */
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

std::string html(const Table& table) {
  const auto row = [](const std::vector<std::string>& cells, const char* tag) {
    std::string text = "<tr>";
    for (const std::string& cell : cells) text += str("<", tag, ">", cell, "</", tag, ">");
    return text + "</tr>\n";
  };
  std::string text = "<table>" + row(table.header, "th");
  for (const auto& cells : table.rows) text += row(cells, "td");
  return text + "</table>\n";
}

}  // namespace

void write_page(const std::string& path, const mezzo::bench::Results& results) {
  const mezzo::bench::Facts& facts = results.facts;
  std::map<std::string, std::vector<Row>> nets;
  for (const Row& row : results.rows)
    if (row.error.empty()) nets[row.net].push_back(row);
  std::ostringstream page;
  page
      << kHead << "<h1>The bench</h1><p>" << facts.environment.hardware << ", " << facts.steps
      << " steps, of which " << facts.warm_up
      << " for warm-up. The floor is the sum of the least times of a step's ops: of their products "
         "at "
      << fixed(facts.roof.f32_flops_per_s * 1e-9, 0) << " GFLOP/s in f32 and "
      << fixed(facts.roof.bf16_flops_per_s * 1e-9, 0)
      << " GFLOP/s in bf16, or of their memory traffic at "
      << fixed(facts.roof.cache_bytes_per_s * 1e-9, 1) << " GB/s within the caches and "
      << fixed(facts.roof.memory_bytes_per_s * 1e-9, 1)
      << " GB/s beyond; all were measured on this machine.</p>\n"
      << html(text_table(results));
  for (const std::string& error : errors(results)) page << "<p>" << escaped(error) << "</p>\n";
  for (const auto& [net, runs] : nets)
    page << "<h2>" << net << "</h2><h3>Time per step</h3>" << time_bars(runs)
         << "<h3>Peak memory</h3>" << memory_key() << memory_bars(runs) << "<h3>Loss</h3>"
         << loss_curves(runs);
  write_report(path, page.str());
}

}  // namespace samples
