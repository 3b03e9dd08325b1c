#include "parallel.h"

#include <pthread.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#if defined(__SSE__)
#  include <immintrin.h>
#else
#  include <cfenv>
#endif

#include "../core/error.h"
#include "../text/log.h"
#include "cpu_set.h"

namespace mezzo {

namespace {

constexpr int kMaxThreads = 1024;
constexpr auto kSpin = std::chrono::microseconds(40);

// ---- rounding and denormal mode -----------------------------------------------------------------

#if defined(__SSE__)
/** The rounding and denormal mode of a thread: MXCSR without its sticky exception flags. */
class FloatMode {
 public:
  FloatMode() : control_(_mm_getcsr() & ~kFlags) {}
  void apply() const { _mm_setcsr(control_); }

 private:
  static constexpr unsigned kFlags = 0x3F;
  unsigned control_;
};
#else
class FloatMode {
 public:
  FloatMode() { std::fegetenv(&environment_); }
  void apply() const { std::fesetenv(&environment_); }

 private:
  std::fenv_t environment_;
};
#endif

// ---- waiting ------------------------------------------------------------------------------------

void pause_briefly() {
#if defined(__SSE__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

/** Returns once `value` differs from `old`. Spins for a while, because the next region often
 *  follows immediately, then sleeps. The yields help if the machine is busy and the awaited thread
 *  shares this one's CPU. */
template <class T> void wait_while_equal(const std::atomic<T>& value, T old) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      pause_briefly();
    }
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < deadline);
  value.wait(old, std::memory_order_acquire);
}

// ---- the pool -----------------------------------------------------------------------------------

thread_local bool inside_region = false;

/** A scope that marks this thread as inside a region. */
class RegionMark {
 public:
  RegionMark() { inside_region = true; }
  ~RegionMark() { inside_region = false; }
  RegionMark(const RegionMark&) = delete;
  RegionMark& operator=(const RegionMark&) = delete;
};

/** The panels of one thread in one region, and the exception that stopped them. */
struct Share {
  std::int64_t panel = 0;
  std::int64_t end = 0;
  std::exception_ptr failure;

  void run(const detail::PanelBody& body) {
    const RegionMark mark;
    try {
      body(panel, end);
    } catch (...) {
      failure = std::current_exception();
    }
  }
};

/** The worker threads of the process. */
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { resize(0); }

  /** Runs the panels. Returns false, without running any, if another thread is using the pool. */
  bool try_run(std::int64_t panels, const detail::PanelBody& body, int threads) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    resize(threads - 1);

    body_ = &body;
    mode_ = FloatMode();
    const auto sharers =
        static_cast<int>(std::min(static_cast<std::int64_t>(workers_.size()) + 1, panels));
    unfinished_.store(sharers - 1, std::memory_order_relaxed);
    const auto cut = [&](int t) {
      return panels / sharers * t + std::min<std::int64_t>(t, panels % sharers);
    };
    for (int t = 1; t < sharers; ++t)
      workers_[static_cast<std::size_t>(t - 1)]->start(cut(t), cut(t + 1));
    Share own{0, cut(1), nullptr};
    own.run(body);
    for (int left; (left = unfinished_.load(std::memory_order_acquire)) != 0;)
      wait_while_equal(unfinished_, left);

    rethrow_lowest(own, sharers);
    return true;
  }

 private:
  /** A worker thread. It sleeps on `ticket`, runs its share when the ticket changes, and then
   *  decrements the pool's `unfinished_`. */
  struct alignas(64) Worker {
    explicit Worker(Pool& pool)
        : thread([this, &pool](const std::stop_token& stop) { serve(pool, stop); }) {}
    ~Worker() {
      thread.request_stop();
      raise_ticket();
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    void start(std::int64_t begin, std::int64_t end) {
      share.panel = begin;
      share.end = end;
      raise_ticket();
    }

    void raise_ticket() {
      ticket.fetch_add(1, std::memory_order_release);
      ticket.notify_one();
    }

    void serve(Pool& pool, const std::stop_token& stop) {
      for (unsigned seen = 0;; ++seen) {
        wait_while_equal(ticket, seen);
        if (stop.stop_requested()) return;
        pool.mode_.apply();
        share.run(*pool.body_);
        if (pool.unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1)
          pool.unfinished_.notify_one();
      }
    }

    std::atomic<unsigned> ticket = 0;
    Share share;
    std::jthread thread;  // last: it uses the members above
  };

  /** Sets the number of workers. If the system cannot create enough threads, fewer are used;
   *  results do not change. */
  void resize(int workers) {
    const auto wanted = static_cast<std::size_t>(workers);
    while (workers_.size() > wanted) workers_.pop_back();
    try {
      while (workers_.size() < wanted) workers_.push_back(std::make_unique<Worker>(*this));
      is_short_ = false;
    } catch (const std::exception&) {  // no more threads, or out of memory
      if (!std::exchange(is_short_, true)) report_shortage(wanted + 1);
    }
  }

  /** Logs that threads are missing, once until all threads exist again, because every region tries
   *  again. */
  void report_shortage(std::size_t wanted) const {
    char line[160];
    std::snprintf(line, sizeof line,
                  "parallel: a thread cannot be created; got %zu, expected %zu; "
                  "continuing with fewer threads",
                  workers_.size() + 1, wanted);
    log_text(Severity::warning, line);
  }

  /** Rethrows the exception of the lowest panel. Shares are in panel order, so it is the first one
   *  found. */
  void rethrow_lowest(Share& own, int sharers) {
    std::exception_ptr lowest = std::exchange(own.failure, nullptr);
    for (int t = 1; t < sharers; ++t) {
      std::exception_ptr failure =
          std::exchange(workers_[static_cast<std::size_t>(t - 1)]->share.failure, nullptr);
      if (!lowest) lowest = std::move(failure);
    }
    if (lowest) std::rethrow_exception(lowest);
  }

  std::mutex mutex_;
  const detail::PanelBody* body_ = nullptr;
  FloatMode mode_;
  std::atomic<int> unfinished_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;
  bool is_short_ = false;  // fewer workers than requested; already logged
};

/** The owner of the process's pool. There is no pool after exit has begun. A forked child, in which
 *  the pool's threads do not exist, gets a new pool. */
class PoolOwner {
 public:
  PoolOwner() {
    // The child does not destroy the copy of the parent's pool, since it cannot join its threads.
    pthread_atfork(nullptr, nullptr, [] { current_.store(new Pool); });
  }
  PoolOwner(const PoolOwner&) = delete;
  PoolOwner& operator=(const PoolOwner&) = delete;
  ~PoolOwner() { delete current_.exchange(nullptr); }

  static Pool* pool() {
    static PoolOwner owner;
    return current_.load(std::memory_order_acquire);
  }

 private:
  static inline std::atomic<Pool*> current_ = new Pool;
};

// ---- the number of threads ----------------------------------------------------------------------

/** Returns MEZZO_NUM_THREADS, or null if it is not set. */
const char* threads_of_environment() {
  const char* text = std::getenv("MEZZO_NUM_THREADS");
  return text && *text ? text : nullptr;
}

int initial_threads() {
  const char* text = threads_of_environment();
  if (!text) return std::clamp(static_cast<int>(usable_cpus().count()), 1, kMaxThreads);
  int count = 0;
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, count);
  if (parsed.ec != std::errc() || parsed.ptr != end || count < 1 || count > kMaxThreads) {
    fail<ValueError>("MEZZO_NUM_THREADS",
                     {.what = "invalid number of threads",
                      .got = "\"" + std::string(text) + "\"",
                      .expected = "a number in 1.." + std::to_string(kMaxThreads)});
  }
  return count;
}

std::atomic<int>& thread_count() {
  static std::atomic<int> count = initial_threads();
  return count;
}

std::atomic<bool> set_by_program = false;

}  // namespace

void set_num_threads(int count) {
  if (count < 1 || count > kMaxThreads) {
    fail<ValueError>("set_num_threads", {.what = "count is out of range",
                                         .got = std::to_string(count),
                                         .expected = "1.." + std::to_string(kMaxThreads)});
  }
  thread_count().store(count, std::memory_order_relaxed);
  set_by_program.store(true, std::memory_order_relaxed);
}

void detail::set_default_threads(int count) {
  if (threads_of_environment() || set_by_program.load(std::memory_order_relaxed)) return;
  thread_count().store(std::min(count, kMaxThreads), std::memory_order_relaxed);
}

int num_threads() { return thread_count().load(std::memory_order_relaxed); }

void detail::run_panels(std::int64_t panels, PanelBody body) {
  const int threads = inside_region ? 1 : num_threads();
  if (threads > 1 && panels > 1) {
    if (Pool* pool = PoolOwner::pool(); pool && pool->try_run(panels, body, threads)) return;
  }
  std::int64_t panel = 0;
  body(panel, panels);
}

}  // namespace mezzo
