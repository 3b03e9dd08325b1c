#include "log.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <utility>

namespace mezzo {

namespace {

std::atomic<int> rank_of_process{0};

/** Writes a line with one call, so that lines of several processes do not mix. */
void write_to_stderr(Severity severity, std::string_view line) {
  const int rank = log_rank(), length = static_cast<int>(line.size());
  if (rank == 0)
    std::fprintf(stderr, "%.*s\n", length, line.data());
  else if (severity != Severity::info)
    std::fprintf(stderr, "[rank %d] %.*s\n", rank, length, line.data());
}

struct Outlet {
  std::mutex mutex;
  LogSink sink = &write_to_stderr;
};

/** Returns the process's log. It is never destroyed, because objects with static lifetime may log
 *  during exit. */
Outlet& outlet() {
  static Outlet& instance = *new Outlet;
  return instance;
}

}  // namespace

LogSink set_log_sink(LogSink sink) {
  Outlet& out = outlet();
  const std::lock_guard lock(out.mutex);
  return std::exchange(out.sink, std::move(sink));
}

void log_text(Severity severity, std::string_view text) noexcept {
  try {
    Outlet& out = outlet();
    const std::lock_guard lock(out.mutex);
    if (!out.sink) return;
    for (;;) {
      const std::size_t end = text.find('\n');
      out.sink(severity, text.substr(0, end));
      if (end == std::string_view::npos) return;
      text.remove_prefix(end + 1);
    }
  } catch (...) {}
}

int log_rank() noexcept { return rank_of_process.load(std::memory_order_relaxed); }

void detail::set_log_rank(int rank) noexcept {
  rank_of_process.store(rank, std::memory_order_relaxed);
}

}  // namespace mezzo
