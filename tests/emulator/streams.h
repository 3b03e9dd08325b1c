// Streams of the emulated devices, which run their work at once or as late as a real device might.
#pragma once

#include <cstddef>
#include <functional>

#include "../../tensor/core/macros.h"

namespace mezzo::emulator {

/** Scope in which streams run their work only when the host or another stream waits for it, the
 *  latest that a device may. Code that relies on an order without synchronisation then gives wrong
 *  numbers. Memory is not poisoned meanwhile. Copies access host memory late too, pageable or
 *  pinned: if a source has changed by then, the call that waits for it, or the end of the scope,
 *  throws a Fault. For one thread. */
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
/** A point in a stream. */
struct Event;

Stream* make_stream(int device);
int device_of(const Stream* stream);
/** Enqueues work, which runs at once or late. A null stream always runs it at once. */
void put(Stream* stream, std::function<void()> work);
/** Runs all pending work of the stream. */
void drain(Stream* stream);
/** Runs all pending work of a device's streams. */
void drain_device(int device);
void drain_all();
bool is_drained(const Stream* stream);

Event* make_event(bool timed);
void drop_event(Event* event);
void place(Event* event, Stream* stream);
/** Makes later work of the stream wait for the event as it is recorded at this time. */
void hold(Stream* stream, Event* event);
/** Records the event in captured work: it is never reached. */
void place_captured(Event* event);
bool is_captured(const Event* event);
bool is_reached(const Event* event);
void run_until(Event* event);
bool is_timed(const Event* event);
/** Returns the milliseconds between two timed events that were reached. */
float between(const Event* begin, const Event* end);

}  // namespace mezzo::emulator
