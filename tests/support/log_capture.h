// LogCapture: the lines that the library logs in a scope.
#pragma once

#include <mezzo.h>

#include <string>
#include <vector>

/** Collects the log until the end of the scope. */
class LogCapture {
 public:
  LogCapture()
      : former_(mezzo::set_log_sink(
            [this](mezzo::Severity, std::string_view line) { lines.emplace_back(line); })) {}
  ~LogCapture() { mezzo::set_log_sink(former_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  std::vector<std::string> lines;

 private:
  mezzo::LogSink former_;
};
