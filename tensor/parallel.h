// parallel_for: fixed panels of work over the library's own threads, with the same result for any number of them.
// Sees: the standard library only.
// Read next: parallel.cpp (the pool), cpu/ (its users).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

#include "macros.h"

namespace mezzo {

/** Sets how many threads a region may use, the calling one included; 1 keeps everything on the calling thread. Results do not depend on it.
 *  Default: MEZZO_NUM_THREADS, else the CPUs this process may run on. Errors: ValueError unless 1 <= count <= 1024. */
MZ_API void set_num_threads(int count);

/** How many threads a region may use. Errors: ValueError when MEZZO_NUM_THREADS is not a number in 1..1024. */
MZ_API int num_threads();

/** Elements per chunk of an elementwise loop: large enough that handing it out costs nothing, small enough to balance two threads. */
inline constexpr std::int64_t kElementwiseChunk = 16384;

/** Elements per partial result of a reduction; the partials combine pairwise in index order. */
inline constexpr std::int64_t kReductionChunk = 4096;

/** Work below this many nanoseconds is done by the caller alone: waking a thread costs a good part of it. */
inline constexpr double kParallelWorthNs = 20000;

namespace detail {

/** Refers to a callable that takes a panel index; the callable must outlive it. */
class PanelBody {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_const_t<F>, PanelBody>) explicit PanelBody(F& body)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(body)))),
        run_([](void* object, std::int64_t& panel, std::int64_t end) {
          for (; panel < end; ++panel) (*static_cast<F*>(object))(panel);
        }) {}

  /** Runs panels panel..end-1; when the callable throws, `panel` is the index it threw at. */
  void operator()(std::int64_t& panel, std::int64_t end) const { run_(object_, panel, end); }

 private:
  void* object_;
  void (*run_)(void*, std::int64_t&, std::int64_t);
};

/** Runs panels 0..panels-1 on the pool; on the calling thread when it is itself inside a region, or the pool is busy or of size 1. */
MZ_API void run_panels(std::int64_t panels, PanelBody body);

}  // namespace detail

/** Calls body(panel) once for each panel in 0..panels-1. Thread t of T gets a contiguous range of panels, so which thread runs which panel
 *  depends on T; what a panel computes must not. Regions inside a region run inline. When bodies throw, the exception of the lowest panel
 *  that threw is rethrown after all threads are done; panels behind a throwing one may not have run.
 *  `cost_ns` estimates the whole work in nanoseconds of one thread; below kParallelWorthNs no other thread is asked. */
template <class F>
void parallel_for(std::int64_t panels, F&& body, double cost_ns = std::numeric_limits<double>::infinity()) {
  if (panels > 1 && cost_ns >= kParallelWorthNs) return detail::run_panels(panels, detail::PanelBody(body));
  for (std::int64_t panel = 0; panel < panels; ++panel) body(panel);
}

/** Calls body(begin, end) for the chunks [0,chunk), [chunk,2 chunk), ... of n elements. The cut depends on n and chunk alone.
 *  `element_ns` estimates the work per element in nanoseconds of one thread. Exceptions as in parallel_for. */
template <class F>
void parallel_chunks(std::int64_t n, std::int64_t chunk, F&& body, double element_ns = 1.0) {
  const auto one_chunk = [&](std::int64_t index) {
    body(index * chunk, n - index * chunk < chunk ? n : (index + 1) * chunk);
  };
  parallel_for(n / chunk + (n % chunk != 0), one_chunk, static_cast<double>(n) * element_ns);
}

}  // namespace mezzo
