#include "log.h"

#include <cstdio>
#include <mutex>
#include <utility>

namespace mezzo {

namespace {

void write_to_stderr(Severity, std::string_view line) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
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

}  // namespace mezzo
