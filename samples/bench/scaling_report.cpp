// Reports of bench --scaling-model: tables and JSON.
#include <nlohmann/json.hpp>

#include "../common/table.h"
#include "ranks_report.h"

namespace samples {

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
