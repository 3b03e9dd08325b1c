// Writes report files, and the JSON reports of the sample programs.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "figure.h"
#include "program.h"
#include "report_file.h"
#include "run.h"

namespace samples {

namespace {

std::string refusal(const std::string& path) {
  return mezzo::error_text("report(" + path + ")", {.what = "the file could not be written"});
}

}  // namespace

void require_written(const std::ofstream& file, const std::string& path) {
  if (!file) throw mezzo::IoError(refusal(path));
}

void check_writable(const std::string& path) {
  const bool existed = std::filesystem::exists(path);
  if (!std::ofstream(path, std::ios::binary | std::ios::app)) throw UsageError(refusal(path));
  if (!existed) std::filesystem::remove(path);
}

std::ofstream open_report(const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  if (!file) throw UsageError(refusal(path));
  return file;
}

void write_report(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  require_written(file, path);
}

void write_figures(const std::string& path, const std::string& unit,
                   const std::vector<Figure>& figures) {
  nlohmann::ordered_json report{{"threads", mezzo::num_threads()},
                                {"unit", unit},
                                {"figures", nlohmann::ordered_json::object()}};
  for (const Figure& f : figures) report["figures"][f.name] = f.value;
  write_report(path, report.dump(2) + "\n");
}

void write_run(const std::string& path, const std::string& title, const RunOptions& options,
               const RunFigures& r, const std::vector<std::pair<std::string, double>>& notes,
               const std::vector<double>& losses) {
  nlohmann::ordered_json report{{"run", title},
                                {"level", options.level},
                                {"device", options.device},
                                {"threads", mezzo::num_threads()},
                                {"seed", options.seed},
                                {"steps", r.steps},
                                {"step_ms", r.step_ms},
                                {"samples_per_s", r.samples_per_s},
                                {"peak_bytes", r.peak_bytes},
                                {"recent_loss", r.recent_loss},
                                {"skipped_steps", r.skipped_steps},
                                {"loss_scale", r.loss_scale},
                                {"casts_per_step", r.casts_per_step},
                                {"cast_bytes_per_step", r.cast_bytes_per_step}};
  for (const auto& [name, value] : notes) report[name] = value;
  report["losses"] = losses;
  write_report(path, report.dump(2) + "\n");
}

}  // namespace samples
