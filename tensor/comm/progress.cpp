#include "progress.h"

#include <sys/prctl.h>

#include <algorithm>
#include <string_view>

#include "../core/error.h"
#include "../text/log.h"
#include "../text/text.h"
#include "engine.h"
#include "plans.h"

namespace mezzo::comm::detail {

namespace {

using namespace std::chrono_literals;

// The first character of a note says what it is.
constexpr char kLeft = 'L';   // the sender gave up; the rest is the reason
constexpr char kSame = 'S';   // the sender threw the rest, which concerns all ranks
constexpr char kEnded = 'E';  // the sender's program ended

constexpr auto kTimeAfterEnd = 1s;     // for the last messages of a rank that has ended
constexpr int kTestsAfterEnd = 1000;   // the same, for a busy machine
constexpr auto kTimeAfterNote = 50ms;  // for the last data of a rank that gave up
constexpr auto kNoteTime = 1s;         // for the messages of the other ranks after a failure

/** The sleeps between two tests of a transfer: the first one and the longest. */
struct Sleeps {
  std::chrono::microseconds spin, first, longest;
};
constexpr Sleeps kAwaited{50us, 20us, 200us};    // a thread of this rank waits for an operation
constexpr Sleeps kBackground{0us, 50us, 400us};  // no thread waits: leaves the cores free
constexpr Sleeps kAtEnd{50us, 20us, 10ms};       // of the program

std::string label_of(const Job& job) { return job.label.empty() ? describe(job.frame) : job.label; }

std::string no_answer(std::chrono::duration<double> timeout) {
  return str("no answer for ", timeout.count(), " s (MEZZO_COMM_TIMEOUT_S)");
}

std::string text_of(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

/** Returns the first lines in which the texts of two ranks differ. */
std::string first_difference(const std::vector<std::string>& texts) {
  const auto line = [](std::string_view text, std::size_t number) {
    for (; number > 0; --number) {
      const std::size_t end = text.find('\n');
      if (end == text.npos) return std::string("nothing");
      text.remove_prefix(end + 1);
    }
    const std::string_view found = text.substr(0, text.find('\n'));
    return found.empty() ? std::string("nothing") : std::string(found);
  };
  const auto other = std::find_if(texts.begin(), texts.end(),
                                  [&](const std::string& text) { return text != texts[0]; });
  if (other == texts.end()) return "the same text on all ranks";
  const auto at = std::mismatch(texts[0].begin(), texts[0].end(), other->begin(), other->end());
  const auto number = static_cast<std::size_t>(std::count(texts[0].begin(), at.first, '\n'));
  return str(line(texts[0], number), " on rank 0, ", line(*other, number), " on rank ",
             other - texts.begin());
}

}  // namespace

void Progress::open() {
  thread_ = std::thread([this] { run(); });
  std::unique_lock lock(mutex_);
  const bool in_time = wake_.wait_for(lock, timeout_, [&] { return opened_ || failure_; });
  if (in_time && !failure_) return;
  thread_.detach();
  if (failure_) std::rethrow_exception(failure_);
  fail<CommError>("comm::init",
                  {.what = no_answer(timeout_), .hint = "every process has to call comm::init()"});
}

void Progress::end() {
  std::unique_lock lock(mutex_);
  stop_ = true;
  wake_.notify_all();
  const auto ended = [&] { return ended_; };
  // Without a failure the other ranks may compute for as long as they like.
  while (!failure_ && !ended_) wake_.wait_for(lock, 100ms, ended);
  wake_.wait_for(lock, 3 * kNoteTime, ended);
  const bool joins = ended_;
  lock.unlock();
  joins ? thread_.join() : thread_.detach();
}

void Progress::wait_for(const Job& job) {
  if (job.finished) return;
  {
    const std::scoped_lock lock(mutex_);
    ++waiters_;
  }
  wake_.notify_all();
  job.finished.wait(false);
  const std::scoped_lock lock(mutex_);
  --waiters_;
}

void Progress::submit(std::shared_ptr<Job> job) {
  const std::scoped_lock lock(mutex_);
  queue_.push_back(std::move(job));
  wake_.notify_all();
}

void Progress::leave(std::string reason) {
  const std::scoped_lock lock(mutex_);
  if (failure_) return;
  failure_ =
      std::make_exception_ptr(CommError(error_text("comm", {.what = str("this rank ", reason)})));
  reason_to_send_ = std::move(reason);
  wake_.notify_all();
}

void Progress::run() {
  prctl(PR_SET_TIMERSLACK, 1000);  // ns; sleeps of 20 us would take 70 us
  prctl(PR_SET_NAME, "mezzo-comm");
  const std::string failure = transport_->open();
  {
    const std::scoped_lock lock(mutex_);
    if (!failure.empty())
      failure_ = std::make_exception_ptr(CommError(error_text("comm::init", {.what = failure})));
    opened_ = true;
    gone_.assign(static_cast<std::size_t>(transport_->size()), false);
    wake_.notify_all();
    if (failure_) return;
  }
  while (const auto job = take()) {
    try {
      execute(*job);
      job->in = job->out = Tensor();
    } catch (...) {
      record_failure(std::current_exception());
      unfinished_ = job;
      const std::scoped_lock lock(mutex_);
      job->error = failure_;
    }
    job->seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    job->finished = true;
    job->finished.notify_all();
  }
  finish();
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  wake_.notify_all();
}

std::shared_ptr<Job> Progress::take() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || !queue_.empty() || !reason_to_send_.empty(); });
    if (!reason_to_send_.empty()) transport_->send_note(kLeft + std::exchange(reason_to_send_, {}));
    if (!queue_.empty()) break;
    if (stop_) return nullptr;
  }
  auto job = std::move(queue_.front());
  queue_.pop_front();
  return job;
}

void Progress::execute(Job& job) {
  started_ = Clock::now();
  {
    const std::scoped_lock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }
  receive_notes();
  frames_.clear();
  if (job.checked) exchange_frames(job);
  if (job.plan) run_plan(job, *job.plan);
}

void Progress::exchange_frames(Job& job) {
  frames_.resize(static_cast<std::size_t>(job.group->size));
  transfer(job, {.kind = TransferKind::all_gather,
                 .group = job.group->id,
                 .in = &job.frame,
                 .out = frames_.data(),
                 .count = sizeof(Frame),
                 .is_frame = true});
  const auto difference = mismatch(frames_);
  if (!difference) return;
  if (!only_signatures_differ(frames_) || !job.details) tell_all(*difference);
  std::vector<std::string> texts;
  for (Frame& frame : frames_) frame.payload = {};
  Frame length;
  put_length(length, job.details->size());
  transfer(job, {.kind = TransferKind::all_gather,
                 .group = job.group->id,
                 .in = &length,
                 .out = frames_.data(),
                 .count = sizeof(Frame),
                 .is_frame = true});
  run_plan(job, *gather_text_plan(*job.details, texts));
  tell_all(
      error_text(describe(job.frame), {.what = "ranks differ", .got = first_difference(texts)}));
}

void Progress::tell_all(const std::string& text) {
  transport_->send_note(kSame + text);
  throw CommError(text);
}

void Progress::run_plan(Job& job, Plan& plan) {
  PlanContext context{*job.group, frames_, scratch_, max_count(), *transport_};
  Transfer next;
  while (plan.next(context, next)) transfer(job, next);
}

void Progress::transfer(const Job& job, const Transfer& transfer) {
  const auto require = [&](const std::string& failure) {
    if (failure.empty()) return;
    const std::string what = str("failed in ", label_of(job), ": ", failure);
    transport_->send_note(kLeft + what);
    fail<CommError>("comm", {.what = str("this rank ", what)});
  };
  require(transport_->start(transfer));
  tests_since_gone_ = 0;
  const Clock::time_point start = Clock::now();
  std::chrono::microseconds sleep{0};
  bool done = false;
  for (int tests = 0; !done; ++tests) {
    require(transport_->test(done));
    if (done) return;
    const bool slept = pause(job, start, sleep);
    if (!slept && tests % 16 != 15) continue;
    try {
      look_for_failures(job);
    } catch (...) {
      // The rank that failed may have finished this transfer before, and its note overtaken it.
      if (!ends_soon()) throw;
      record_failure(std::current_exception());
      return;
    }
  }
}

/** Waits for the rest of a transfer whose data may have been sent already. Returns true if it
 *  ends. */
bool Progress::ends_soon() {
  const auto start = Clock::now();
  bool done = false;
  while (Clock::now() - start < kTimeAfterNote) {
    if (!transport_->test(done).empty()) return false;
    if (done) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

/** Waits between two tests of a transfer that began at `start`. `sleep` is the former sleep; the
 * next one is twice as long. Returns false if it did not sleep. */
bool Progress::pause(const Job& job, Clock::time_point start, std::chrono::microseconds& sleep) {
  std::unique_lock lock(mutex_);
  const bool awaited = waiters_ > 0;
  const Sleeps& sleeps = job.frame.kind == FrameKind::end ? kAtEnd
                         : awaited                        ? kAwaited
                                                          : kBackground;
  if (Clock::now() - start < sleeps.spin) return false;
  sleep = std::clamp(2 * sleep, sleeps.first, sleeps.longest);
  wake_.wait_for(lock, sleep, [&] { return !awaited && waiters_ > 0; });
  if (!awaited && waiters_ > 0) sleep = 0us;
  return true;
}

void Progress::look_for_failures(const Job& job) {
  receive_notes();
  {
    const std::scoped_lock lock(mutex_);
    if (!reason_to_send_.empty()) transport_->send_note(kLeft + std::exchange(reason_to_send_, {}));
    if (failure_) std::rethrow_exception(failure_);
  }
  // The others may compute for as long as they like after this rank has ended.
  if (job.frame.kind != FrameKind::end) check_time(job);
}

void Progress::check_time(const Job& job) {
  const auto where = [&] { return job.round.empty() ? "comm" : job.round; };
  const auto waiting = [&] { return "waiting in " + label_of(job); };
  const auto now = Clock::now();
  if (now - started_ > timeout_)
    tell_all(error_text(where(), {.what = no_answer(timeout_), .hint = waiting()}));
  for (const int rank : job.group->world_ranks)
    if (gone_[static_cast<std::size_t>(rank)] && ++tests_since_gone_ > kTestsAfterEnd &&
        now - std::max(gone_since_, started_) > kTimeAfterEnd)
      fail<CommError>(where(),
                      {.what = str("rank ", rank, " has ended its program"), .hint = waiting()});
}

void Progress::receive_notes() {
  int from = 0;
  std::string note;
  while (transport_->receive_note(from, note)) {
    const std::string rest = note.substr(1);
    if (note[0] == kLeft) fail<CommError>("comm", {.what = str("rank ", from, " ", rest)});
    if (note[0] == kSame) throw CommError(rest);
    gone_[static_cast<std::size_t>(from)] = true;
    gone_since_ = Clock::now();
  }
}

void Progress::record_failure(std::exception_ptr error) {
  const std::scoped_lock lock(mutex_);
  if (!failure_) failure_ = std::move(error);
}

void Progress::finish() {
  bool healthy = true;
  try {
    {
      const std::scoped_lock lock(mutex_);
      healthy = !failure_;
    }
    transport_->send_note(std::string(1, kEnded));
    if (healthy) {
      Job last;
      last.frame.kind = FrameKind::end;
      last.group = std::make_shared<Group>();
      last.group->size = transport_->size();
      exchange_frames(last);
      transport_->close();
      return;
    }
  } catch (...) {
    record_failure(std::current_exception());
    log_text(Severity::error, text_of(failure_));
  }
  deliver_notes();
}

void Progress::deliver_notes() {
  const auto start = Clock::now();
  gone_[static_cast<std::size_t>(transport_->rank())] = true;
  while (Clock::now() - start < kNoteTime) {
    if (transport_->notes_sent() && std::count(gone_.begin(), gone_.end(), false) == 0) return;
    try {
      receive_notes();
    } catch (const CommError&) {  // why others gave up is of no use any more
    }
    std::this_thread::sleep_for(1ms);
  }
}

}  // namespace mezzo::comm::detail
