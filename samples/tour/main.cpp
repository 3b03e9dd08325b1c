// tour: a guided tour of mixed precision. Each chapter asks for a prediction and then shows what
// happens, calculated while you watch.
//   tour                all chapters
//   tour --chapter 4    one chapter
//   tour --pause        waits for Enter between question and answer
#include <iostream>

#include <unistd.h>

#include "../common/arguments.h"
#include "../common/program.h"
#include "chapters.h"

namespace {

using namespace samples;

struct Options {
  std::int64_t chapter = 0;  // 0: all
  bool pause = false;
};

int run(const Options& o) {
  const std::vector<tour::Chapter> chapters = tour::chapters();
  tour::Guide guide(std::cout, o.pause && ::isatty(STDIN_FILENO) != 0);
  for (std::size_t i = 0; i < chapters.size(); ++i)
    if (o.chapter == 0 || o.chapter == static_cast<std::int64_t>(i) + 1) chapters[i](guide);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const auto count = static_cast<std::int64_t>(tour::chapters().size());
  Arguments arguments("tour", "Shows what 16-bit numbers do to a training, in short chapters.");
  arguments.option("chapter", options.chapter, 0, count, "the chapter to run; 0 runs all");
  arguments.flag("pause", options.pause,
                 "wait for Enter between question and answer, on a terminal");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return run_program("tour", [&] { return run(options); });
}
