// Progress: the thread that communicates.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "job.h"

namespace mezzo::comm::detail {

/** Owns a transport and runs jobs in the order in which they were submitted. It tests for progress
 *  and sleeps between the tests. The sleeps grow, and are longest while no thread waits for an
 *  operation. So it never blocks in the library and leaves the cores to the computation. After a
 *  failure all further jobs fail with the same error. There is one object per process, never
 *  destroyed. */
class Progress {
 public:
  /** `timeout`: how long a job may take. */
  Progress(std::unique_ptr<Transport> transport, std::chrono::duration<double> timeout)
      : transport_(std::move(transport)), timeout_(timeout) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /** Starts the thread, opens the transport on it and waits for that. Errors: CommError; the thread
   *  may then still use this object. */
  void open();
  /** Ends the thread. If nothing failed, waits for all ranks and closes the transport. Otherwise
   *  leaves it open, so that the launcher ends all processes. The thread may then still use this
   *  object. */
  void end();

  /** Waits until a job that was submitted has finished. */
  void wait_for(const Job& job);
  /** Appends a job. */
  void submit(std::shared_ptr<Job> job);
  /** Makes all jobs of all ranks fail; the others throw "rank N " + `reason`. */
  void leave(std::string reason);

  /** Returns the transport, for its constant properties. */
  const Transport& transport() const { return *transport_; }

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  std::shared_ptr<Job> take();
  void execute(Job& job);
  void exchange_frames(Job& job);
  [[noreturn]] void tell_all(const std::string& text);
  void check_time(const Job& job);
  void transfer(const Job& job, const Transfer& transfer);
  bool ends_soon();
  bool pause(const Job& job, Clock::time_point start, std::chrono::microseconds& sleep);
  void run_plan(Job& job, Plan& plan);
  void look_for_failures(const Job& job);
  void receive_notes();
  void record_failure(std::exception_ptr error);
  void finish();
  void deliver_notes();

  std::unique_ptr<Transport> transport_;
  std::chrono::duration<double> timeout_;
  std::vector<Frame> frames_;        // of all ranks of the running job's group
  std::vector<std::byte> scratch_;   // PlanContext::scratch
  Clock::time_point started_;        // of the running job
  std::vector<bool> gone_;           // ranks that ended their program
  Clock::time_point gone_since_;     // when the last of them was heard of
  int tests_since_gone_ = 0;         // of the running transfer
  std::shared_ptr<Job> unfinished_;  // failed, with a transfer that still uses its memory

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> queue_;
  int waiters_ = 0;             // threads in wait_for()
  std::exception_ptr failure_;  // set once
  std::string reason_to_send_;  // what leave() has to send
  bool opened_ = false;
  bool stop_ = false;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace mezzo::comm::detail
