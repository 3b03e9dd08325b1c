// parallel_for: runs panels of work on the library's threads, with results that do not depend on
// the number of threads.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

#include "../core/macros.h"

namespace mezzo {

/** Sets how many threads a parallel region may use, including the calling one; 1 runs everything on
 *  the calling thread. Results do not depend on it. Default: MEZZO_NUM_THREADS, else the number of
 *  CPUs this process may use; comm::init() divides them between the processes that were launched on
 *  this machine. Errors: ValueError unless 1 <= count <= 1024. */
MZ_API void set_num_threads(int count);

/** Returns how many threads a parallel region may use. Errors: ValueError if MEZZO_NUM_THREADS is
 *  not a number in 1..1024. */
MZ_API int num_threads();

/** Elements per chunk of an elementwise loop: large enough to make the scheduling cost negligible,
 *  small enough to balance two threads. */
inline constexpr std::int64_t kElementwiseChunk = 16384;

/** Elements per partial result of a reduction; partial results are combined pairwise in index
 *  order. */
inline constexpr std::int64_t kReductionChunk = 4096;

/** Work estimated below this many nanoseconds runs on the calling thread only, because waking a
 *  thread takes a large part of that time. */
inline constexpr double kParallelWorthNs = 20000;

namespace detail {

/** Sets how many threads a parallel region may use, unless MEZZO_NUM_THREADS or set_num_threads()
 *  says so. Called by comm::init(). */
MZ_API void set_default_threads(int count);

/** A reference to a callable that takes a panel index; the callable must outlive it. */
class PanelBody {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_const_t<F>, PanelBody>)
  explicit PanelBody(F& body)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(body)))),
        run_([](void* object, std::int64_t& panel, std::int64_t end) {
          for (; panel < end; ++panel) (*static_cast<F*>(object))(panel);
        }) {}

  /** Runs panels panel..end-1; if the callable throws, `panel` is the index at which it threw. */
  void operator()(std::int64_t& panel, std::int64_t end) const { run_(object_, panel, end); }

 private:
  void* object_;
  void (*run_)(void*, std::int64_t&, std::int64_t);
};

/** Runs panels 0..panels-1 on the pool, or on the calling thread if it is inside a region, or if
 *  the pool is busy or of size 1. */
MZ_API void run_panels(std::int64_t panels, PanelBody body);

}  // namespace detail

/** Calls body(panel) once for each panel in 0..panels-1. Thread t of T gets a contiguous range of
 *  panels, so the thread that runs a panel depends on T; what a panel computes must not. Regions
 *  inside a region run on the calling thread. If bodies throw, the exception of the lowest panel
 *  that threw is rethrown after all threads are done; panels after a throwing one may not have run.
 *  `cost_ns` estimates the whole work in nanoseconds of one thread; below kParallelWorthNs only the
 *  calling thread is used. */
template <class F>
void parallel_for(std::int64_t panels, F&& body,
                  double cost_ns = std::numeric_limits<double>::infinity()) {
  if (panels > 1 && cost_ns >= kParallelWorthNs)
    return detail::run_panels(panels, detail::PanelBody(body));
  for (std::int64_t panel = 0; panel < panels; ++panel) body(panel);
}

/** Calls body(begin, end) for the chunks [0,chunk), [chunk,2 chunk), ... of n elements. The chunks
 *  depend only on n and chunk. `element_ns` estimates the work per element in nanoseconds of one
 *  thread. Exceptions as in parallel_for. */
template <class F>
void parallel_chunks(std::int64_t n, std::int64_t chunk, F&& body, double element_ns = 1.0) {
  const auto one_chunk = [&](std::int64_t index) {
    body(index * chunk, n - index * chunk < chunk ? n : (index + 1) * chunk);
  };
  parallel_for(n / chunk + (n % chunk != 0), one_chunk, static_cast<double>(n) * element_ns);
}

}  // namespace mezzo
