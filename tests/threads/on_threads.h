// on_threads(): runs one function on several threads at once.
#pragma once

#include <exception>
#include <latch>
#include <thread>
#include <vector>

namespace threads {

/** Calls body(0) to body(count - 1), each on its own thread, all started together, and waits for
 *  all. Rethrows the first exception. Do not use Catch2's checks in `body`. */
template <class F> void on_threads(int count, const F& body) {
  std::latch start(count);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(count));
  {
    std::vector<std::jthread> running;
    for (int t = 0; t < count; ++t)
      running.emplace_back([&, t] {
        start.arrive_and_wait();
        try {
          body(t);
        } catch (...) {
          failures[static_cast<std::size_t>(t)] = std::current_exception();
        }
      });
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace threads
