// write_report_page: fills the template with the lines of a report.
#include <algorithm>
#include <set>

#include "../../tensor/core/error.h"
#include "../../tensor/io/atomic_file.h"
#include "../../tensor/io/gzip.h"
#include "../../tensor/text/text.h"
#include "page_template.h"
#include "report_file.h"
#include "verdict.h"

namespace mezzo::amp {

using namespace report;

namespace {

constexpr std::size_t kManyRuns = 8;
constexpr std::int64_t kLeastSamples = 12;

/** Returns the sampled steps of a run that are kept: the first, the last, those with an overflow,
 *  and others at equal distances. */
std::set<std::int64_t> kept_steps(const RunData& run, std::int64_t most) {
  const std::int64_t count = std::ssize(run.samples);
  std::set<std::int64_t> kept;
  for (std::int64_t i = 0; i < most; ++i)
    kept.insert(run.samples[static_cast<std::size_t>(i * (count - 1) / (most - 1))].step);
  for (const StepLine& step : run.steps)
    if (std::find(step.results.begin(), step.results.end(), "skipped") != step.results.end())
      kept.insert(step.step);
  return kept;
}

/** Removes lines of sampled steps, so that a page of many runs stays small. */
void thin(ReportData& data, std::int64_t most) {
  for (std::size_t r = 0; r < data.runs.size(); ++r) {
    if (std::ssize(data.runs[r].samples) <= most) continue;
    const std::set<std::int64_t> kept = kept_steps(data.runs[r], most);
    std::erase_if(data.lines, [&](const ReportData::Line& line) {
      return line.run == static_cast<std::int64_t>(r) &&
             (line.type == "sample" || line.type == "casts") && !kept.contains(line.step);
    });
  }
}

/** Returns the lines with findings, safe inside of a script element. */
std::string page_data(const ReportData& data) {
  std::string out;
  for (const ReportData::Line& line : data.lines) out += line.text + "\n";
  for (std::size_t r = 0; r < data.runs.size(); ++r)
    for (const Finding& finding : verdict(data.runs[r]))
      out += json_line(static_cast<std::int64_t>(r), finding) + "\n";
  return out;
}

std::string base64(const std::vector<std::byte>& bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t given = std::min<std::size_t>(3, bytes.size() - i);
    unsigned word = 0;
    for (std::size_t k = 0; k < 3; ++k)
      word = word << 8 | (k < given ? std::to_integer<unsigned>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k)
      out += k <= given ? kDigits[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

/** Returns the script element that holds the lines. */
std::string data_element(const std::string& lines) {
  const bool compressed = io::can_gzip();
  std::string content;
  if (compressed) {
    content = base64(io::gzip(std::as_bytes(std::span(lines))));
  } else {
    // In a JSON string "\\u003c" is "<", which could end or change the element.
    for (const char c : lines) c == '<' ? content += "\\u003c" : content += c;
  }
  return str("<script id=\"data\" type=\"",
             compressed ? "application/gzip+base64" : "application/x-ndjson", "\">", content,
             "</script>");
}

}  // namespace

void write_report_page(const std::vector<std::string>& lines_paths, const std::string& page_path,
                       const ReportPageOptions& options) {
  constexpr std::string_view kOp = "write_report_page";
  if (lines_paths.empty()) fail<ValueError>(kOp, {.what = "there is no report file"});
  if (options.samples != 0 && options.samples < kLeastSamples)
    fail<ValueError>(kOp, {.what = "too few samples",
                           .got = str(options.samples),
                           .expected = str("0 or at least ", kLeastSamples)});
  ReportData data = read_report(lines_paths);
  const std::int64_t most = options.samples != 0           ? options.samples
                            : data.runs.size() > kManyRuns ? kLeastSamples
                                                           : 0;
  if (most > 0 && data.runs.size() > 1) thin(data, most);
  const std::string page = page_template(), element = data_element(page_data(data));
  constexpr std::string_view kPlace = "@DATA@";
  const std::size_t at = page.find(kPlace);
  io::AtomicFile file(kOp, page_path);
  file.write(std::string_view(page).substr(0, at));
  file.write(element);
  file.write(std::string_view(page).substr(at + kPlace.size()));
  file.commit();
}

}  // namespace mezzo::amp
