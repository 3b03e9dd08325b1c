// write_report_page: fills the template with the lines of a report.
#include <algorithm>
#include <set>

#include "../../tensor/core/error.h"
#include "../../tensor/io/atomic_file.h"
#include "../../tensor/io/gzip.h"
#include "../../tensor/text/text.h"
#include "findings.h"
#include "page_template.h"
#include "report_file.h"

namespace mezzo::amp {

using namespace report;

namespace {

constexpr std::size_t kManyRuns = 8;
constexpr std::int64_t kLeastSamples = 12;
/** Bytes of data on a page, and for each run of it. */
constexpr std::size_t kMostPageBytes = 14'500'000, kMostBytesOfRun = 1'850'000;

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

/** Removes sampled steps of runs that have more than `most`, so that a page stays small. */
void thin(ReportData& data, std::int64_t most) {
  for (std::size_t r = 0; r < data.runs.size(); ++r) {
    RunData& run = data.runs[r];
    if (std::ssize(run.samples) <= most) continue;
    const std::set<std::int64_t> kept = kept_steps(run, most);
    std::erase_if(run.samples, [&](const Sample& sample) { return !kept.contains(sample.step); });
    std::erase_if(data.lines, [&](const ReportData::Line& line) {
      return line.run == static_cast<std::int64_t>(r) &&
             (line.type == "sample" || line.type == "casts") && !kept.contains(line.step);
    });
  }
}

/** Returns the lines of the findings on all runs. */
std::string findings_text(const ReportData& data) {
  std::string out;
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

std::int64_t most_samples(const ReportData& data) {
  std::int64_t most = 0;
  for (const RunData& run : data.runs) most = std::max<std::int64_t>(most, std::ssize(run.samples));
  return most;
}

/** Returns the script element of lines and findings. Thins the samples until it is small enough, or
 *  few are left. */
std::string fitted_element(ReportData& data, const std::string& findings) {
  const std::size_t budget = std::min(kMostPageBytes, kMostBytesOfRun * data.runs.size());
  for (;;) {
    std::string text;
    for (const ReportData::Line& line : data.lines) text += line.text + "\n";
    std::string element = data_element(text + findings);
    const std::int64_t count = most_samples(data);
    if (element.size() <= budget || count <= kLeastSamples) return element;
    const double share = static_cast<double>(budget) / static_cast<double>(element.size());
    thin(data, std::max(kLeastSamples,
                        static_cast<std::int64_t>(0.9 * share * static_cast<double>(count))));
    if (most_samples(data) == count) return element;  // all others overflowed
  }
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
  const std::string findings = findings_text(data);
  if (most > 0 && data.runs.size() > 1) thin(data, most);
  const std::string page = page_template(), element = fitted_element(data, findings);
  constexpr std::string_view kPlace = "@DATA@";
  const std::size_t at = page.find(kPlace);
  io::AtomicFile file(kOp, page_path);
  file.write(std::string_view(page).substr(0, at));
  file.write(element);
  file.write(std::string_view(page).substr(at + kPlace.size()));
  file.commit();
}

}  // namespace mezzo::amp
