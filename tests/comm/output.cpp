// A program that logs, and prints its number of threads, for ../checks/comm_output.py.
//   output [THREADS]      THREADS: passed to set_num_threads() before comm::init()
#include <mezzo.h>

#include <cstdio>
#include <cstdlib>

using namespace mezzo;

namespace {

void log_all() {
  log_text(Severity::info, "an info");
  log_text(Severity::warning, "a warning\nof two lines");
  log_text(Severity::error, "an error");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) set_num_threads(std::atoi(argv[1]));
  const comm::World world = comm::init();
  log_all();
  set_log_sink([](Severity severity, std::string_view line) {
    std::printf("sink %d %d %.*s\n", log_rank(), static_cast<int>(severity),
                static_cast<int>(line.size()), line.data());
  });
  log_all();
  std::printf("rank %d: %d threads\n", world.rank(), num_threads());
}
