// The JSON reports; the only place of the samples that sees the JSON library.
#include <fstream>
#include <nlohmann/json.hpp>

#include "figure.h"
#include "training.h"

namespace samples {

namespace {

nlohmann::ordered_json as_json(const TrainResult& r) {
  return {{"net", r.net},
          {"level", r.level},
          {"steps", r.steps},
          {"step_ms", r.step_ms},
          {"samples_per_s", r.samples_per_s},
          {"peak_bytes", r.peak_bytes},
          {"final_loss", r.final_loss},
          {"accuracy", r.accuracy},
          {"skipped_steps", r.skipped_steps},
          {"loss_scale", r.loss_scale},
          {"casts_per_step", r.casts_per_step},
          {"cast_bytes_per_step", r.cast_bytes_per_step},
          {"losses", r.losses}};
}

void write(const std::string& path, const nlohmann::ordered_json& report) {
  std::ofstream file(path);
  file << report.dump(2) << "\n";
  file.flush();
  if (!file) mezzo::fail<mezzo::IoError>("json(" + path + ")", {.what = "the report could not be written"});
}

}  // namespace

void write_figures(const std::string& path, const std::string& unit, const std::vector<Figure>& figures) {
  nlohmann::ordered_json report{
      {"threads", mezzo::num_threads()}, {"unit", unit}, {"figures", nlohmann::ordered_json::object()}};
  for (const Figure& f : figures) report["figures"][f.name] = f.value;
  write(path, report);
}

void write_json(const std::string& path, const TrainSettings& s, const std::string& data,
                const std::vector<TrainResult>& results) {
  nlohmann::ordered_json report{{"data", data},
                                {"device", mezzo::str(s.device)},
                                {"threads", mezzo::num_threads()},
                                {"epochs", s.epochs},
                                {"batch", s.batch},
                                {"lr", s.lr},
                                {"seed", s.seed},
                                {"runs", nlohmann::ordered_json::array()}};
  for (const TrainResult& r : results) report["runs"].push_back(as_json(r));
  write(path, report);
}

}  // namespace samples
