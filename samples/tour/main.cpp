// tour: a guided tour of mixed precision. Each chapter asks for a prediction and then shows what
// happens, calculated while you watch.
//   tour                all chapters
//   tour --chapter 4    one chapter
//   tour --pause        waits for Enter between question and answer
// Chapter 8 writes a report of a training, tour.html.
#include <iostream>

#include <unistd.h>

#include "../common/arguments.h"
#include "../common/program.h"
#include "../common/report_file.h"
#include "chapters.h"

namespace {

using namespace samples;

constexpr std::int64_t kReportChapter = 8;

struct Options {
  std::int64_t chapter = 0;  // 0: all
  tour::GuideOptions guide;
};

/** Throws UsageError unless a report can be written to that path. */
void require_page(const std::string& path) {
  if (!path.ends_with(".html"))
    throw UsageError("--report: expected a path that ends in .html; got " + path);
  check_writable(path);
}

int run(const Options& o) {
  const std::vector<tour::Chapter> chapters = tour::chapters();
  const bool writes_report = o.chapter == 0 || o.chapter == kReportChapter;
  if (writes_report) require_page(o.guide.report);
  tour::GuideOptions options = o.guide;
  options.pauses = o.guide.pauses && ::isatty(STDIN_FILENO) != 0;
  tour::Guide guide(std::cout, options);
  for (std::size_t i = 0; i < chapters.size(); ++i)
    if (o.chapter == 0 || o.chapter == static_cast<std::int64_t>(i) + 1) chapters[i](guide);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const auto count = static_cast<std::int64_t>(tour::chapters().size());
  Arguments arguments("tour",
                      "Shows what 16-bit numbers do to a training, in eight short chapters.");
  arguments.option("chapter", options.chapter, 0, count, "the chapter to run; 0 runs all");
  arguments.option("report", options.guide.report, "the page that chapter 8 writes");
  arguments.flag("pause", options.guide.pauses,
                 "wait for Enter between question and answer, on a terminal");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return run_program("tour", [&] { return run(options); });
}
