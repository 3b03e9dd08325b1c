// Writes the bench's JSON lines and reads those of bench_torch.py.
#include <nlohmann/json.hpp>

#include "../common/file.h"
#include "../common/report_file.h"
#include "report.h"

namespace samples {

namespace {

using nlohmann::ordered_json;

ordered_json as_json(const MicroResult& r) {
  if (!r.error.empty()) return {{"operation", r.what}, {"error", r.error}};
  return {{"operation", r.what}, {"figure", r.value}, {"unit", r.unit}, {"target", r.target}};
}

/** Returns a row as one line. Invalid UTF-8 in error texts is replaced. */
std::string one_line(const ordered_json& row) {
  return row.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/** Returns a figure of a peer's row, "failed" if its side failed, or "-". */
std::string peer_figure(const ordered_json& run, const std::string& key, const std::string& side) {
  if (run.contains(key)) return fixed(run.at(key), 2);
  return run.contains(side + "_error") ? "failed" : "-";
}

/** Returns the target of a ratio and whether it is met, or "-" without one. */
std::string peer_target(const ordered_json& run, const std::string& ratio,
                        const std::string& wanted, bool at_least) {
  if (!run.contains(ratio) || !run.contains(wanted)) return "-";
  const double reached = run.at(ratio), target = run.at(wanted);
  const bool met = at_least ? reached >= target : reached <= target;
  return mezzo::str(at_least ? ">= " : "<= ", fixed(target, 2), met ? " met" : " missed");
}

std::vector<std::string> peer_row(const ordered_json& run) {
  return {
      run.at("net").get<std::string>(),
      run.at("level").get<std::string>(),
      std::to_string(run.at("threads").get<int>()),
      std::to_string(run.at("batch").get<int>()),
      peer_figure(run, "mezzo_ms", "mezzo"),
      peer_figure(run, "o0_ratio", "mezzo"),
      peer_target(run, "o0_ratio", "o0_wanted", false),
      peer_figure(run, "torch_ms", "torch"),
      peer_figure(run, "ratio", "torch"),
      run.contains("lowest") ? fixed(run.at("lowest"), 2) + "-" + fixed(run.at("highest"), 2) : "-",
      peer_target(run, "ratio", "wanted", true),
      peer_figure(run, "compiled_ms", "compiled"),
      peer_figure(run, "compiled_ratio", "compiled"),
      run.value("optimizer", std::string("-"))};
}

/** Appends a line for each side of a peer's row that failed. */
void add_peer_errors(const ordered_json& run, std::vector<std::string>& errors) {
  for (const char* side : {"mezzo", "torch", "compiled"}) {
    const std::string key = mezzo::str(side, "_error");
    if (run.contains(key))
      errors.push_back(mezzo::error_text(
          mezzo::str(run.at("net").get<std::string>(), " ", run.at("level").get<std::string>(),
                     ", ", run.at("threads").get<int>(), " threads, ", side, " failed"),
          {.what = run.at(key).get<std::string>()}));
  }
}

}  // namespace

JsonLines::JsonLines(std::string path) : path_(std::move(path)) {
  if (!path_.empty()) file_ = open_report(path_);
}

void JsonLines::write(const mezzo::bench::Facts& facts) { write_line(json(facts)); }
void JsonLines::write(const mezzo::bench::Row& row) { write_line(json(row)); }
void JsonLines::write(const MicroResult& row) { write_line(one_line(as_json(row))); }

void JsonLines::write_line(const std::string& line) {
  if (!path_.empty() && file_) file_ << line << "\n" << std::flush;
}

void JsonLines::finish() {
  if (!path_.empty()) require_written(file_, path_);
}

PeerReport read_peer(const std::string& path) {
  PeerReport peer;
  peer.table.header = {"net",     "level",       "threads",        "batch",       "mezzo ms",
                       "time/O0", "wanted",      "torch ms",       "torch/mezzo", "of blocks",
                       "wanted",  "compiled ms", "compiled/mezzo", "optimizer"};
  const std::string text = read_file("report", path);
  try {
    const ordered_json report = ordered_json::parse(text);
    peer.facts =
        mezzo::str("PyTorch ", report.value("torch", std::string("?")), " on ",
                   report.value("device", std::string("?")), ", medians of ",
                   report.value("blocks", 0), " blocks of ", report.value("steps", 0), " steps");
    for (const ordered_json& run : report.at("runs")) {
      peer.table.rows.push_back(peer_row(run));
      add_peer_errors(run, peer.errors);
    }
  } catch (const nlohmann::json::exception& e) {
    mezzo::fail<mezzo::FormatError>("peer(" + path + ")",
                                    {.what = "not a report of bench_torch.py", .got = e.what()});
  }
  return peer;
}

}  // namespace samples
