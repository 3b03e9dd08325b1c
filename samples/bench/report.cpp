#include "report.h"

namespace samples {

namespace {

/** Returns the net's time at O0, or 0 if it was not measured. */
double o0_ms(const std::vector<Measurement>& results, const std::string& net) {
  for (const Measurement& m : results)
    if (m.net == net && m.level == "O0") return m.step_ms;
  return 0;
}

/** Number of columns of a row. */
constexpr std::size_t kColumns = 13;

std::vector<std::string> row_of(const Measurement& m, double o0) {
  if (!m.error.empty()) {
    std::vector<std::string> cells(kColumns, "-");
    cells[0] = m.net;
    cells[1] = m.level;
    cells[2] = "failed";
    return cells;
  }
  return {m.net,
          m.level,
          fixed(m.step_ms, 2),
          fixed(m.fast_ms, 2) + "-" + fixed(m.slow_ms, 2),
          fixed(m.samples_per_s, 0),
          o0 > 0 ? fixed(m.step_ms / o0, 2) : "-",
          fixed(100 * m.share_of_floor(), 0),
          bytes_text(static_cast<double>(m.memory.total.peak)),
          fixed(m.loss, 4),
          std::to_string(m.skipped_steps),
          fixed(m.loss_scale, 0),
          fixed(m.casts_per_step, 0),
          bytes_text(m.cast_bytes_per_step)};
}

}  // namespace

Table table_of(const std::vector<Measurement>& results) {
  Table table{{"net", "level", "step ms", "spread", "samples/s", "time/O0", "% of floor",
               "peak memory", "loss", "skipped", "loss scale", "casts/step", "cast bytes/step"},
              {}};
  for (const Measurement& m : results) table.rows.push_back(row_of(m, o0_ms(results, m.net)));
  return table;
}

std::vector<std::string> errors_of(const std::vector<Measurement>& results) {
  std::vector<std::string> lines;
  for (const Measurement& m : results)
    if (!m.error.empty())
      lines.push_back(mezzo::error_text(m.net + " " + m.level + " failed", {.what = m.error}));
  return lines;
}

}  // namespace samples
