#include "progress.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

namespace samples {

namespace {

std::string clock_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%d:%02d", static_cast<int>(seconds) / 60, static_cast<int>(seconds) % 60);
  return text;
}

std::string bar(double share) {
  constexpr int kWidth = 20;
  const int full = static_cast<int>(share * kWidth);
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(kWidth - full), '.') + "]";
}

}  // namespace

Progress::Progress(std::string title, std::int64_t total_steps, bool quiet)
    : title_(std::move(title)),
      total_(total_steps),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      last_draw_(start_) {}

Progress::~Progress() { clear(); }

void Progress::step(std::int64_t done, const std::string& status) {
  if (quiet_ || !terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_draw_ < std::chrono::milliseconds(100) && done < total_) return;
  last_draw_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double share = total_ > 0 ? static_cast<double>(done) / static_cast<double>(total_) : 1;
  const double left = share > 0 ? elapsed * (1 - share) / share : 0;
  std::cerr << "\r\033[K" << title_ << " " << bar(share) << " " << done << "/" << total_ << "  "
            << clock_text(left) << " left  " << status << std::flush;
  drawn_ = true;
}

void Progress::line(const std::string& text) {
  if (quiet_) return;
  clear();
  std::cerr << title_ << " " << text << "\n";
}

void Progress::clear() {
  if (drawn_) std::cerr << "\r\033[K" << std::flush;
  drawn_ = false;
}

}  // namespace samples
