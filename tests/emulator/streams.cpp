#include "streams.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace mezzo::emulator {

namespace {

using Clock = std::chrono::steady_clock;

/** One recording of an event. */
struct Point {
  Stream* stream = nullptr;
  bool is_reached = false;
  Clock::time_point time;
};

std::recursive_mutex mutex;
int late = 0;

std::vector<Stream*>& streams() {
  static auto& all = *new std::vector<Stream*>;
  return all;
}

}  // namespace

struct Stream {
  int device = 0;
  std::deque<std::function<void()>> work;
};

struct Event {
  bool timed = false, captured = false;
  std::shared_ptr<Point> point;
};

namespace {

void run_next(Stream* stream) {
  const std::function<void()> next = std::move(stream->work.front());
  stream->work.pop_front();
  next();
}

void run_until(const Point& point) {
  while (!point.is_reached && !point.stream->work.empty()) run_next(point.stream);
}

}  // namespace

LateWork::LateWork() { ++late; }
LateWork::~LateWork() noexcept(false) {
  if (--late > 0) return;
  try {
    drain_all();
  } catch (...) {
    if (std::uncaught_exceptions() == 0) throw;
  }
}
bool LateWork::is_wanted() { return late > 0; }

Stream* make_stream(int device) {
  const std::lock_guard lock(mutex);
  streams().push_back(new Stream{device, {}});
  return streams().back();
}

int device_of(const Stream* stream) { return stream->device; }

void put(Stream* stream, std::function<void()> work) {
  if (!stream || !LateWork::is_wanted()) return work();
  const std::lock_guard lock(mutex);
  stream->work.push_back(std::move(work));
}

void drain(Stream* stream) {
  const std::lock_guard lock(mutex);
  while (stream && !stream->work.empty()) run_next(stream);
}

void drain_device(int device) {
  const std::lock_guard lock(mutex);
  for (Stream* stream : streams())
    if (stream->device == device) drain(stream);
}

void drain_all() {
  const std::lock_guard lock(mutex);
  for (Stream* stream : streams()) drain(stream);
}

bool is_drained(const Stream* stream) { return !stream || stream->work.empty(); }

Event* make_event(bool timed) { return new Event{.timed = timed, .point = {}}; }
void drop_event(Event* event) { delete event; }

void place_captured(Event* event) {
  event->point.reset();
  event->captured = true;
}
bool is_captured(const Event* event) { return event->captured; }

void place(Event* event, Stream* stream) {
  event->captured = false;
  const auto point = std::make_shared<Point>();
  point->stream = stream;
  event->point = point;
  put(stream, [point] {
    point->is_reached = true;
    point->time = Clock::now();
  });
}

void hold(Stream* stream, Event* event) {
  if (!event->point) return;
  put(stream, [point = event->point] { run_until(*point); });
}

bool is_timed(const Event* event) { return event->timed; }

bool is_reached(const Event* event) { return !event->point || event->point->is_reached; }

void run_until(Event* event) {
  const std::lock_guard lock(mutex);
  if (event->point) run_until(*event->point);
}

float between(const Event* begin, const Event* end) {
  return std::chrono::duration<float, std::milli>(end->point->time - begin->point->time).count();
}

}  // namespace mezzo::emulator
