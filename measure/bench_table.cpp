// The bench's table.
#include <algorithm>
#include <cmath>

#include "../tensor/core/error.h"
#include "bench.h"

namespace mezzo::bench {

namespace {

const std::vector<std::string> kHeader = {
    "net",  "level", "step ms", "95 %",       "samples/s",  "time/O0",    "95 %", "% of floor",
    "peak", "loss",  "skipped", "loss scale", "casts/step", "cast bytes", "note"};
/** Headings of the second text table. A line of all columns would be wrapped or cut off, and notes
 *  are long. */
const std::vector<std::string> kSecondTable = {"samples/s",  "% of floor", "skipped",
                                               "loss scale", "casts/step", "cast bytes"};

/** Returns "low-high", or "-" for an interval without bounds. */
std::string interval(const MedianInterval& of, int digits) {
  if (!std::isfinite(of.low) || !std::isfinite(of.high)) return "-";
  return fixed(of.low, digits) + "-" + fixed(of.high, digits);
}

/** Returns the row's note, or "-". */
std::string note(const Row& row) {
  if (row.unstable()) return row.emulated ? "unstable, emulated" : "unstable";
  return row.emulated ? "emulated" : "-";
}

std::vector<std::string> cells(const Row& row) {
  if (!row.error.empty()) {
    std::vector<std::string> cells(kHeader.size(), "-");
    cells[0] = row.net;
    cells[1] = row.level;
    cells[2] = "failed";
    return cells;
  }
  const int digits = row.step_ms.value < 1 ? 3 : 2;
  return {row.net,
          row.level,
          fixed(row.step_ms.value, digits),
          interval(row.step_ms, digits),
          fixed(row.samples_per_s, 0),
          row.over_o0.value > 0 ? fixed(row.over_o0.value, 2) : "-",
          interval(row.over_o0, 2),
          fixed(100 * row.share_of_floor(), 0),
          bytes_text(static_cast<double>(row.memory.total.peak)),
          fixed(row.loss, 4),
          std::to_string(row.skipped_steps),
          fixed(row.loss_scale, 0),
          fixed(row.casts_per_step, 0),
          bytes_text(row.cast_bytes_per_step),
          note(row)};
}

}  // namespace

TextTable text_table(const Results& results) {
  TextTable table{kHeader, {}};
  for (const Row& row : results.rows) table.rows.push_back(cells(row));
  return table;
}

namespace {

/** Returns the columns whose headings `wanted` accepts, and the first two, which name the row. */
template <class F> TextTable columns(const TextTable& table, const F& wanted) {
  const auto part = [&](const std::vector<std::string>& row) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < row.size(); ++i)
      if (i < 2 || wanted(table.header[i])) cells.push_back(row[i]);
    return cells;
  };
  TextTable result{part(table.header), {}};
  for (const auto& row : table.rows) result.rows.push_back(part(row));
  return result;
}

}  // namespace

/** Returns the names of rows in the order of their first appearance. */
std::vector<std::string> names_of(const std::vector<Row>& rows, std::string Row::* name) {
  std::vector<std::string> names;
  for (const Row& row : rows)
    if (std::find(names.begin(), names.end(), row.*name) == names.end()) names.push_back(row.*name);
  return names;
}

/** Returns the rows that `is` accepts as text, such as "O1, O2 of all nets; O4 of mlp, lenet";
 * empty if there are none. */
template <class F> std::string rows_text(const Results& results, const F& is) {
  const std::size_t all = names_of(results.rows, &Row::net).size();
  std::string text, previous;
  for (const std::string& level : names_of(results.rows, &Row::level)) {
    std::vector<Row> rows = results.rows;
    std::erase_if(
        rows, [&](const Row& row) { return row.level != level || !row.error.empty() || !is(row); });
    std::string nets = all > 1 && rows.size() == all ? "all nets" : "";
    if (nets.empty())
      for (const Row& row : rows) nets += (nets.empty() ? "" : ", ") + row.net;
    if (nets.empty()) continue;
    if (nets == previous)  // joins the level to those before it
      text.insert(text.size() - nets.size() - 4, ", " + level);
    else
      text += (text.empty() ? "" : "; ") + level + " of " + nets;
    previous = nets;
  }
  return text;
}

/** Returns lines that say which rows are unstable or emulated. */
std::string notes(const Results& results) {
  const std::string unstable = rows_text(results, [](const Row& row) { return row.unstable(); }),
                    emulated = rows_text(results, [](const Row& row) { return row.emulated; });
  return (unstable.empty() ? "" : "Unstable (95 % intervals wider than 10 %): " + unstable + "\n") +
         (emulated.empty() ? "" : "Emulated (products computed in f32): " + emulated + "\n");
}

std::string table(const Results& results) {
  const TextTable all = text_table(results);
  const auto is_second = [](const std::string& heading) {
    return std::find(kSecondTable.begin(), kSecondTable.end(), heading) != kSecondTable.end();
  };
  const auto is_first = [&](const std::string& heading) {
    return heading != "note" && !is_second(heading);
  };
  std::string text =
      columns(all, is_first).text() + "\n" + columns(all, is_second).text() + notes(results);
  for (const std::string& error : errors(results)) text += error + "\n";
  const std::string sentences = summary(results);
  return sentences.empty() ? text : text + "\n" + sentences;
}

std::vector<std::string> errors(const Results& results) {
  std::vector<std::string> lines;
  for (const Row& row : results.rows)
    if (!row.error.empty())
      lines.push_back(error_text(row.net + " " + row.level + " failed", {.what = row.error}));
  return lines;
}

}  // namespace mezzo::bench
