// Streams of the emulated devices: each runs its work at once, or holds it back as long as a real device might.
// Sees: ../../tensor/macros.h.
// Read next: streams.cpp, runtime.cpp.
#pragma once

#include <cstddef>
#include <functional>

#include "../../tensor/macros.h"

namespace mezzo::emulator {

/** While it lives, streams do nothing until somebody waits for them, on the host or in another
 *  stream: the latest that a device may do its work. What relies on an order that nobody asked
 *  for gives wrong numbers then. Memory is not poisoned meanwhile. For one thread. Copies read
 *  and write host memory late too, pageable or pinned: a source that has changed by then is a
 *  Fault of whatever waits for it, the end of the scope included. */
class MZ_API LateWork {
 public:
  LateWork();
  ~LateWork() noexcept(false);
  LateWork(const LateWork&) = delete;
  LateWork& operator=(const LateWork&) = delete;

  static bool is_wanted();
};

/** A queue of work. */
struct Stream;
/** A point in one. */
struct Event;

Stream* make_stream(int device);
int device_of(const Stream* stream);
void drop_stream(Stream* stream);
/** Does the work, now or late. Null is a stream that never holds back. */
void put(Stream* stream, std::function<void()> work);
/** Does all that the stream holds back. */
void run_dry(Stream* stream);
/** The same for all streams of a device. */
void run_device_dry(int device);
void run_all_dry();
bool is_dry(const Stream* stream);

Event* make_event(bool timed);
void drop_event(Event* event);
void place(Event* event, Stream* stream);
/** The stream's further work waits for the event as it is placed now. */
void hold(Stream* stream, Event* event);
/** Places the event in work that is being captured: it is never reached. */
void place_captured(Event* event);
bool is_captured(const Event* event);
bool is_reached(const Event* event);
void run_until(Event* event);
bool is_timed(const Event* event);
/** Milliseconds between two timed events that were reached. */
float between(const Event* begin, const Event* end);

}  // namespace mezzo::emulator
