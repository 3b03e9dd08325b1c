// The bench's table, and the sentences below it: what the levels cost, and which one to take.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "../amp/policy.h"
#include "../tensor/core/error.h"
#include "../tensor/text/text.h"
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

namespace {

/** A level is faster than another if the times of its steps are below this part of the other's. */
constexpr double kFaster = 1 / 1.03;

/** Step times of a level over those of O0, by net. */
struct Cost {
  std::string level;
  std::map<std::string, double> over_o0;

  double mean() const {  // the geometric one
    double sum = 0;
    for (const auto& [net, ratio] : over_o0) sum += std::log(ratio);
    return std::exp(sum / static_cast<double>(over_o0.size()));
  }
};

bool counts(const Row& row) {
  return row.error.empty() && !row.unstable() && row.over_o0.value > 0;
}

/** Returns the costs of the levels other than O0, the fastest first. A row counts if it and its
 *  net's row of O0 do. */
std::vector<Cost> costs_of(const std::vector<Row>& rows) {
  std::set<std::string> references;
  for (const Row& row : rows)
    if (row.level == "O0" && counts(row)) references.insert(row.net);
  std::vector<Cost> costs;
  for (const Row& row : rows) {
    if (row.level == "O0" || !counts(row) || references.count(row.net) == 0) continue;
    auto cost = std::find_if(costs.begin(), costs.end(),
                             [&](const Cost& c) { return c.level == row.level; });
    if (cost == costs.end()) cost = costs.insert(cost, {row.level, {}});
    cost->over_o0[row.net] = row.over_o0.value;
  }
  std::stable_sort(costs.begin(), costs.end(),
                   [](const Cost& a, const Cost& b) { return a.mean() < b.mean(); });
  return costs;
}

/** Returns whether the level's updates are computed in f32. */
bool updates_in_f32(const std::string& level) {
  const amp::Level* found = amp::find_level(level);
  return found == nullptr || found->cast_model_type.value_or(f32) == f32 ||
         found->master_weights.value_or(false);
}

/** Returns how much a level asks of a training: the less, the smaller. Levels that leave the
 *  weights in f32 come before those that do not, then those without a dynamic loss scale. */
int demands(const std::string& level) {
  const amp::Level* found = amp::find_level(level);
  if (found == nullptr) return 0;
  return 2 * int{found->cast_model_type.has_value()} + int{found->loss_scale == amp::kDynamic};
}

/** Returns the geometric mean of the times of a over those of b, of the nets that both have; 1 if
 *  there are none. */
double relative(const Cost& a, const Cost& b) {
  double sum = 0, nets = 0;
  for (const auto& [net, ratio] : a.over_o0)
    if (const auto other = b.over_o0.find(net); other != b.over_o0.end())
      sum += std::log(ratio / other->second), ++nets;
  return nets > 0 ? std::exp(sum / nets) : 1;
}

/** Returns the level to take: of those that update weights in f32 the fastest, or the one with the
 *  fewest demands that is as fast; null if there is none. */
const Cost* best_of(const std::vector<Cost>& costs) {
  std::vector<const Cost*> candidates;
  for (const Cost& cost : costs)
    if (updates_in_f32(cost.level)) candidates.push_back(&cost);
  std::stable_sort(candidates.begin(), candidates.end(), [](const Cost* a, const Cost* b) {
    return demands(a->level) < demands(b->level);
  });
  const Cost* best = nullptr;
  for (const Cost* cost : candidates)
    if (best == nullptr || relative(*cost, *best) < kFaster) best = cost;
  return best;
}

/** Returns "a, b and c". */
std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

/** Returns "O4 takes 0.31 to 0.49 of the time of O0, O1 0.60 to 0.98". */
std::string cost_text(const std::vector<Cost>& costs) {
  std::string text;
  for (const Cost& cost : costs) {
    const auto [low, high] =
        std::minmax_element(cost.over_o0.begin(), cost.over_o0.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; });
    const std::string least = fixed(low->second, 2), most = fixed(high->second, 2);
    text += str(text.empty() ? "" : ", ", cost.level, text.empty() ? " takes " : " ",
                least == most ? least : least + " to " + most,
                text.empty() ? " of the time of O0" : "");
  }
  return text;
}

/** Returns the sentence that says which level to take. */
std::string advice(const std::vector<Cost>& costs) {
  if (std::none_of(costs.begin(), costs.end(), [](const Cost& cost) {
        return std::any_of(cost.over_o0.begin(), cost.over_o0.end(),
                           [](const auto& of_net) { return of_net.second < kFaster; });
      }))
    return "No level is faster: take O0, and another one only for its memory.";
  std::vector<std::string> faster, others;
  const Cost* best = best_of(costs);
  if (best != nullptr)
    for (const auto& [net, ratio] : best->over_o0)
      (ratio < kFaster ? faster : others).push_back(net);
  if (faster.empty()) return "No level that updates weights in f32 is faster for all: take O0.";
  return str("Take ", best->level, others.empty() ? "" : " for " + listed(faster),
             ": no level that updates weights in f32 is more than 3 % faster",
             others.empty() ? "." : str("; for ", listed(others), " it is no faster than O0."));
}

}  // namespace

std::string summary(const Results& results) {
  const auto is_other = [](const Row& row) { return row.level != "O0"; };
  const auto is_reference = [](const Row& row) { return row.level == "O0"; };
  const std::vector<Row>& rows = results.rows;
  if (std::none_of(rows.begin(), rows.end(), is_other) ||
      std::none_of(rows.begin(), rows.end(), is_reference))
    return "";
  const std::vector<Cost> costs = costs_of(rows);
  if (costs.empty())
    return "Too few rows are stable to compare the levels: give it more seconds, or measure while "
           "nothing else runs.\n";
  const bool all_count = std::all_of(rows.begin(), rows.end(), counts);
  return str("On this machine", all_count ? " " : ", by the stable rows, ", cost_text(costs), ".\n",
             advice(costs), "\n");
}

}  // namespace mezzo::bench
