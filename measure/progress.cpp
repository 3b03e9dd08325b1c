#include "progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>

namespace mezzo {

namespace {

std::string clock_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%d:%02d", static_cast<int>(seconds) / 60,
                static_cast<int>(seconds) % 60);
  return text;
}

std::string bar(double share) {
  constexpr int kWidth = 20;
  const int full = static_cast<int>(share * kWidth);
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(kWidth - full), '.') + "]";
}

}  // namespace

/** What a bar shows, and when it was drawn. */
struct Progress::State {
  State(std::string title, std::int64_t total_steps, bool quiet)
      : title_(std::move(title)),
        total_(total_steps),
        quiet_(quiet),
        terminal_(isatty(STDERR_FILENO) != 0),
        start_(std::chrono::steady_clock::now()),
        last_draw_(start_) {}

  void start_at(std::int64_t done) {
    first_ = done;
    start_ = last_draw_ = std::chrono::steady_clock::now();
  }
  void step(std::int64_t done, const std::string& status);
  void time(double seconds_done, double seconds_left, std::int64_t done);
  void line(const std::string& text);
  void clear();
  /** Returns text such as "12/500  3.4/s  2:23 left". Its rate leaves out the first step, which
   *  allocates memory and loads libraries. */
  std::string place_text(std::int64_t done, std::chrono::steady_clock::time_point now) const;
  void show(double share, const std::string& text, bool is_last,
            std::chrono::steady_clock::time_point now);

  std::string title_;
  std::int64_t total_, first_ = 0;
  bool quiet_, terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point start_, after_first_, last_draw_;
};

Progress::Progress(std::string title, std::int64_t total_steps, bool quiet)
    : state_(new State(std::move(title), total_steps, quiet)) {}

Progress::~Progress() { clear(); }

void Progress::start_at(std::int64_t done) { state_->start_at(done); }
void Progress::step(std::int64_t done, const std::string& status) { state_->step(done, status); }
void Progress::time(double seconds_done, double seconds_left, std::int64_t done) {
  state_->time(seconds_done, seconds_left, done);
}
void Progress::line(const std::string& text) { state_->line(text); }
void Progress::clear() { state_->clear(); }

void Progress::State::step(std::int64_t done, const std::string& status) {
  const auto now = std::chrono::steady_clock::now();
  if (done == first_ + 1) after_first_ = now;
  const double share = total_ > 0 ? static_cast<double>(done) / static_cast<double>(total_) : 1;
  show(share, place_text(done, now) + "  " + status, done >= total_, now);
}

void Progress::State::time(double seconds_done, double seconds_left, std::int64_t done) {
  const double all = seconds_done + seconds_left;
  show(all > 0 ? seconds_done / all : 0,
       std::to_string(done) + "/" + std::to_string(total_) + "  " + clock_text(seconds_left) +
           " left",
       false, std::chrono::steady_clock::now());
}

void Progress::State::show(double share, const std::string& text, bool is_last,
                           std::chrono::steady_clock::time_point now) {
  if (quiet_) return;
  if (!terminal_) {
    if (now - last_draw_ < std::chrono::seconds(30)) return;
    last_draw_ = now;
    std::cerr << title_ << " " << text << std::endl;
    return;
  }
  if (drawn_ && now - last_draw_ < std::chrono::milliseconds(100) && !is_last) return;
  last_draw_ = now;
  std::cerr << "\r\033[K" << title_ << " " << bar(share) << " " << text << std::flush;
  drawn_ = true;
}

std::string Progress::State::place_text(std::int64_t done,
                                        std::chrono::steady_clock::time_point now) const {
  const bool has_more = done > first_ + 1;  // than the first step, which is slow
  const double elapsed =
      std::chrono::duration<double>(now - (has_more ? after_first_ : start_)).count();
  const std::int64_t steps = done - first_ - (has_more ? 1 : 0);
  const double rate = elapsed > 0 ? static_cast<double>(steps) / elapsed : 0;
  const double left = rate > 0 ? static_cast<double>(total_ - done) / rate : 0;
  char text[96];
  std::snprintf(text, sizeof text, "%lld/%lld  %.1f/s  %s left", static_cast<long long>(done),
                static_cast<long long>(total_), rate, clock_text(left).c_str());
  return text;
}

void Progress::State::line(const std::string& text) {
  if (quiet_) return;
  clear();
  std::cerr << title_ << " " << text << "\n";
}

void Progress::State::clear() {
  if (drawn_) std::cerr << "\r\033[K" << std::flush;
  drawn_ = false;
}

}  // namespace mezzo
