// The bench's page: the facts, the table and SVG drawings, in the style of a report's page.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "../tensor/io/atomic_file.h"
#include "../tensor/text/text.h"
#include "bench.h"
#include "report/page_template.h"

namespace mezzo::bench {

namespace {

using Rows = std::vector<Row>;

constexpr double kWidth = 900, kBarStart = 40, kBarWidth = 560, kBarHeight = 14, kLineHeight = 20;

// The page follows the system's theme. It has no button to change it.
constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Mezzo bench</title><link rel="icon" href="data:,"><style>)";
constexpr const char* kBody = R"(
.level-fill { fill: var(--d, var(--other)); }
</style><script>
document.documentElement.dataset.theme =
  matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
</script></head><body>
<header><p class="kind">Mezzo bench</p><h1>Time, memory and loss by level</h1>
)";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '<'    ? "&lt;"
           : c == '>'  ? "&gt;"
           : c == '&'  ? "&amp;"
           : c == '\'' ? "&#39;"
                       : std::string(1, c);
  return out;
}

std::string rectangle(double x, double y, double width, const std::string& kind) {
  return str("<rect x='", fixed(x, 1), "' y='", fixed(y, 1), "' width='",
             fixed(std::max(0.0, width), 1), "' height='", fixed(kBarHeight, 0), "' class='", kind,
             "'/>");
}

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
  return str("<line x1='", fixed(x1, 1), "' y1='", fixed(y1, 1), "' x2='", fixed(x2, 1), "' y2='",
             fixed(y2, 1), "' class='", kind, "'/>");
}

std::string label(double x, double y, const std::string& text) {
  return str("<text x='", fixed(x, 1), "' y='", fixed(y, 1), "'>", escaped(text), "</text>");
}

/** Returns a figure: caption and drawing. */
std::string figure(const char* caption, double height, const std::string& content) {
  return str("<figure><figcaption>", caption, "</figcaption><div class='scroll'><svg class='chart'",
             " role='img' aria-label='", caption, "' width='", fixed(kWidth, 0), "' height='",
             fixed(height, 0), "'>", content, "</svg></div></figure>\n");
}

std::string fill_of(const std::string& level) { return "level-fill level-" + level; }

/** Returns the step times, one bar per level, with the 95 % interval of the median. */
std::string time_bars(const Rows& rows) {
  const auto high = [](const Row& row) {
    return std::isfinite(row.step_ms.high) ? row.step_ms.high : row.step_ms.value;
  };
  double longest = std::numeric_limits<double>::min(), y = 0;
  for (const Row& row : rows) longest = std::max(longest, high(row));
  const auto place = [&](double ms) { return kBarStart + kBarWidth * ms / longest; };
  std::string content;
  for (const Row& row : rows) {
    const double middle = y + kBarHeight / 2;
    content += label(0, y + 11, row.level) +
               rectangle(kBarStart, y, place(row.step_ms.value) - kBarStart, fill_of(row.level));
    if (std::isfinite(row.step_ms.low) && std::isfinite(row.step_ms.high))
      content += line(place(row.step_ms.low), middle, place(row.step_ms.high), middle, "axis");
    content += label(place(high(row)) + 8, y + 11,
                     str(fixed(row.step_ms.value, 2), " ms, ", fixed(row.samples_per_s, 0),
                         " samples/s, ", fixed(100 * row.share_of_floor(), 0), " % of floor",
                         row.unstable() ? ", unstable" : ""));
    y += kLineHeight;
  }
  return figure("Time of a step, with the 95 % interval of its median", y, content);
}

/** Returns peak memory, one bar per level with a segment for each category. Categories peak at
 *  different times, so that the segments are scaled to the total. */
std::string memory_bars(const Rows& rows) {
  double most = 1, y = 0;
  for (const Row& row : rows) most = std::max(most, static_cast<double>(row.memory.total.peak));
  std::string content;
  for (const Row& row : rows) {
    const auto peak = static_cast<double>(row.memory.total.peak);
    double sum = std::numeric_limits<double>::min(), x = kBarStart;
    for (const MemoryUse& use : row.memory.by_category) sum += static_cast<double>(use.peak);
    for (std::size_t c = 0; c < kNumMemoryCategories; ++c) {
      const double piece =
          kBarWidth * peak / most * static_cast<double>(row.memory.by_category[c].peak) / sum;
      content += rectangle(x, y, piece, str("category-", c));
      x += piece;
    }
    content += label(0, y + 11, row.level) + label(x + 8, y + 11, bytes_text(peak));
    y += kLineHeight;
  }
  return figure("Peak memory", y, content);
}

std::string memory_legend() {
  std::string out = "<ul class='legend'>";
  for (std::size_t c = 0; c < kNumMemoryCategories; ++c)
    out += str("<li><span class='swatch category-", c, "'></span>",
               name(static_cast<MemoryCategory>(c)), "</li>");
  return out + "</ul>\n";
}

/** Returns the losses over the steps, one curve per level. */
std::string loss_curves(const Rows& rows) {
  constexpr double kLeft = 70, kRight = 700, kTop = 10, kBottom = 200;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  std::size_t longest = 2;
  for (const Row& row : rows) {
    longest = std::max(longest, row.losses.size());
    for (const double loss : row.losses)
      if (std::isfinite(loss)) low = std::min(low, loss), high = std::max(high, loss);
  }
  if (low > high) return "<p class='missing'>No loss of a step is finite.</p>\n";
  if (low == high) high = low + 1;
  std::string content = line(kLeft, kTop, kLeft, kBottom, "axis") +
                        line(kLeft, kBottom, kRight, kBottom, "axis") +
                        label(0, kTop + 8, fixed(high, 3)) + label(0, kBottom, fixed(low, 3)) +
                        label(kLeft, kBottom + 18, "step 0") +
                        label(kRight - 50, kBottom + 18, str("step ", longest - 1));
  double y = kTop + 8;
  for (const Row& row : rows) {
    std::string points;
    for (std::size_t step = 0; step < row.losses.size(); ++step)
      if (const double loss = row.losses[step]; std::isfinite(loss))
        points += str(fixed(kLeft + (kRight - kLeft) * static_cast<double>(step) /
                                        static_cast<double>(longest - 1),
                            1),
                      ",", fixed(kTop + (kBottom - kTop) * (high - loss) / (high - low), 1), " ");
    content += str("<polyline points='", points, "' class='line level-", row.level, "'/>",
                   "<polyline points='720,", fixed(y - 4, 1), " 750,", fixed(y - 4, 1),
                   "' class='line level-", row.level, "'/>") +
               label(758, y, row.level);
    y += kLineHeight;
  }
  return figure("Loss", kBottom + 24, content);
}

std::string table_html(const Results& results) {
  const TextTable table = text_table(results);
  const auto row = [](const std::vector<std::string>& cells, const char* tag) {
    std::string out = "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i)
      out += str("<", tag, i > 1 ? " class='number'>" : ">", escaped(cells[i]), "</", tag, ">");
    return out + "</tr>\n";
  };
  std::string out = "<div class='scroll'><table><thead>" + row(table.header, "th") + "</thead>\n";
  for (const auto& cells : table.rows) out += row(cells, "td");
  return out + "</table></div>\n";
}

std::string fact(const char* what, const std::string& value) {
  return str("<div><dt>", what, "</dt><dd>", escaped(value), "</dd></div>\n");
}

std::string facts_html(const Facts& facts) {
  const Environment& e = facts.environment;
  const Roof& roof = facts.roof;
  std::string out =
      "<dl id='facts'>" + fact("Hardware", e.hardware) + fact("Compiler", e.compiler) +
      fact("Mezzo", e.version + ", commit " + e.commit) + fact("Date", e.date) +
      fact("Steps", str(facts.steps, ", of which ", facts.warm_up, " for warm-up")) +
      fact("Products", str(fixed(roof.f32_flops_per_s * 1e-9, 0), " GFLOP/s in f32, ",
                           fixed(roof.f16_flops_per_s * 1e-9, 0), " in f16, ",
                           fixed(roof.bf16_flops_per_s * 1e-9, 0), " in bf16")) +
      fact("Memory traffic", str(fixed(roof.cache_bytes_per_s * 1e-9, 1), " GB/s in caches, ",
                                 fixed(roof.memory_bytes_per_s * 1e-9, 1), " GB/s beyond"));
  for (const auto& [what, value] : facts.notes) out += fact(what.c_str(), value);
  return out + "</dl>\n";
}

}  // namespace

void write_page(const std::string& path, const Results& results) {
  std::map<std::string, Rows> nets;
  for (const Row& row : results.rows)
    if (row.error.empty()) nets[row.net].push_back(row);
  io::AtomicFile file("bench::write_page", path);
  file.write(kHead + amp::report::page_style() + kBody + facts_html(results.facts));
  file.write(
      "</header><main><section><h2>All runs</h2><p class='summary'>The floor is the sum of the "
      "least times of a step's ops: of their products or of their memory traffic, whichever is "
      "longer, at the speeds that were measured on this machine.</p>\n" +
      table_html(results));
  for (const std::string& error : errors(results))
    file.write("<p class='error'>" + escaped(error) + "</p>\n");
  if (const std::string sentences = summary(results); !sentences.empty())
    file.write("<p class='summary'>" + escaped(sentences) + "</p>\n");
  file.write("</section>\n");
  for (const auto& [net, rows] : nets)
    file.write("<section><h2>" + escaped(net) + "</h2>\n" + time_bars(rows) + memory_bars(rows) +
               memory_legend() + loss_curves(rows) + "</section>\n");
  file.write("</main></body></html>\n");
  file.commit();
}

}  // namespace mezzo::bench
