#include "report_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "../../tensor/core/error.h"
#include "../../tensor/io/atomic_file.h"
#include "../../tensor/io/json_text.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"
#include "lines.h"

namespace mezzo::amp {

namespace {

constexpr std::string_view kPageEnding = ".html", kLinesEnding = ".jsonl";

/** Throws if a page cannot be written at this path. */
void check_page(const std::string& path) {
  if (std::filesystem::is_directory(path))
    fail<IoError>("amp::Report", {.what = "the page cannot be written",
                                  .got = str("the directory ", path),
                                  .expected = "the path of a file"});
  const io::AtomicFile probe("amp::Report", path);  // removed again, because it is not committed
}

}  // namespace

/** The open file of the lines. */
struct ReportFile::Stream {
  std::ofstream file;
};

ReportFile::ReportFile(const std::string& path) : stream_(new Stream) {
  io::require_json("amp::Report", "reports");
  if (path.ends_with(kPageEnding)) {
    page_path_ = path;
    lines_path_ = path.substr(0, path.size() - kPageEnding.size()) + std::string(kLinesEnding);
    check_page(path);
  } else if (path.ends_with(kLinesEnding)) {
    lines_path_ = path;
  } else {
    fail<ValueError>("amp::Report", {.what = "unknown kind of report file",
                                     .got = path,
                                     .expected = "a path that ends in .html or .jsonl"});
  }
  stream_->file.open(lines_path_, std::ios::binary | std::ios::trunc);
  if (!stream_->file)
    fail<IoError>("amp::Report", {.what = str("cannot open ", lines_path_, " for writing"),
                                  .got = std::strerror(errno)});
  write(report::policy_line());
}

ReportFile::~ReportFile() {
  try {
    close();
  } catch (const std::exception& e) {
    log_text(Severity::error, e.what());
  }
}

void ReportFile::write(const std::string& line) noexcept {
  if (dropped_ || closed_) return;
  try {
    stream_->file << line << '\n' << std::flush;
  } catch (const std::exception&) {
    stream_->file.setstate(std::ios::badbit);
  }
  if (stream_->file) return;
  dropped_ = true;
  log_text(Severity::warning, str("amp::Report: a write to ", lines_path_,
                                  " failed; the rest of the report is dropped"));
}

void ReportFile::close() {
  if (closed_) return;
  closed_ = true;
  stream_->file.close();
  if (page_path_.empty() || runs_ == 0) return;
  try {
    write_report_page({lines_path_}, page_path_);
  } catch (const Error&) {
    if (!dropped_) throw;  // else a full disk has been reported
  }
}

}  // namespace mezzo::amp
