// report: makes the page of report files, such as that of a program that was killed.
//   report run.jsonl run.html
//   report O1.jsonl O4.jsonl page.html     puts several runs on one page
#include <mezzo.h>

#include <iostream>

#include "common/program.h"

namespace {

using namespace samples;

constexpr const char* kUsage = "usage: report LINES.jsonl... PAGE.html\n";

int make_page(std::vector<std::string> paths) {
  const std::string page = paths.back();
  paths.pop_back();
  if (!page.ends_with(".html")) throw UsageError("the last path must end in .html; got " + page);
  mezzo::amp::write_report_page(paths, page);
  std::cout << page << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 1 && arguments[0] == "--help") {
    std::cout << kUsage << "Makes one offline page of the files that amp::Report wrote.\n";
    return 0;
  }
  if (arguments.size() < 2) {
    std::cerr << kUsage;
    return 2;
  }
  return run_program("report", [&] { return make_page(arguments); });
}
