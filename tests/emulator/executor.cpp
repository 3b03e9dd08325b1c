#include "executor.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "capability.h"
#include "fiber.h"
#include "fill.h"
#include "races.h"
#include "sectors.h"

namespace mezzo::emulator {

Here here;

namespace {

struct Worker;

/** What one CUDA thread, a lane, does. */
enum class State : std::uint8_t { fresh, ready, waiting, done };

/** A fiber and the lane that it runs next. */
struct Worker {
  Fiber fiber;
  unsigned first = 0;
};

struct Meeting {
  std::uint32_t mask = 0, arrived = 0;
  CallPlace place;
  Exchange exchange[2];
  unsigned current = 0;
};

struct Slot {
  const void* key;
  unsigned char* memory;  // allocated separately, so that the sanitizer detects overruns; never
                          // freed
  std::size_t bytes;
  std::uint64_t block = 0;  // serial number of the block that used it last
};

/** A block that runs. */
struct Block {
  Index3 index;
  std::uint64_t serial = 0;
  std::size_t shared_bytes = 0;
  unsigned runnable = 0, done = 0, cursor = 0;
  std::vector<std::uint32_t> runnable_of_warp;  // a bit per lane
  std::vector<State> states;                    // of the lanes
  std::vector<Worker*> workers;                 // whose stacks lanes use that had to wait
  std::vector<Meeting> meetings;
  std::vector<Slot> slots;
  std::vector<unsigned> polling;  // lanes that wait for other blocks
  CallPlace polls;

  unsigned at_barrier = 0;
  int barrier_sum = 0, barrier_result = 0;
  CallPlace barrier;
};

/** Allocates memory at a multiple of `alignment` that is not a multiple of twice that. */
unsigned char* aligned_memory(std::size_t bytes, std::size_t alignment) {
  if (alignment <= kSharedAlignment) return new unsigned char[bytes];
  auto* room = static_cast<unsigned char*>(
      ::operator new(bytes + alignment, std::align_val_t(2 * alignment)));
  return room + alignment;
}

std::string where(CallPlace place) {
  return std::string(place.file) + ":" + std::to_string(place.line);
}

class Executor {
 public:
  static Executor& executor() {
    static Executor& only = *new Executor;
    return only;
  }

  void run(Index3 grid_size, Index3 block_size, std::size_t dynamic_bytes, void (*body)(void*),
           void* argument, bool together) {
    const std::lock_guard lock(mutex_);
    body_ = body;
    argument_ = argument;
    here.grid_size = grid_size;
    here.block_size = block_size;
    count_ = block_size.x * block_size.y * block_size.z;
    if (count_ == 0 || count_ > 1024)
      throw Fault("a block of " + std::to_string(count_) + " threads");
    if (dynamic_bytes > kMostShared)
      throw Fault("a block with " + std::to_string(dynamic_bytes) +
                  " bytes of dynamic shared memory");
    dynamic_bytes_ = dynamic_bytes;
    arrange();
    if (together) return run_together(grid_size.x);
    for (unsigned z = 0; z < grid_size.z; ++z)
      for (unsigned y = 0; y < grid_size.y; ++y)
        for (unsigned x = 0; x < grid_size.x; ++x) {
          start_block(0, {x, y, z});
          run_block();
          if (b_->done < count_ && fault_.empty()) fault_ = "a block waits for another one";
          end_if_faulty();
        }
  }

  void set_schedule(Schedule schedule) {
    const std::lock_guard lock(mutex_);
    schedule_ = schedule;
  }

  void* shared_slot(const void* key, std::size_t bytes, std::size_t alignment) {
    Slot* slot = nullptr;
    for (Slot& s : b_->slots)
      if (s.key == key && s.bytes == bytes) slot = &s;
    if (!slot) slot = &b_->slots.emplace_back(Slot{key, aligned_memory(bytes, alignment), bytes});
    if (slot->block != b_->serial) {
      slot->block = b_->serial;
      races::add_memory(static_cast<const char*>(key), slot->memory, bytes);
      std::memset(slot->memory, 0xFF, bytes);
      b_->shared_bytes += bytes;
      if (b_->shared_bytes > (dynamic_bytes_ > kSharedLimit ? kMostShared : kSharedLimit)) {
        fault_ = "the block uses " + std::to_string(b_->shared_bytes) + " bytes of shared memory";
        leave();
      }
    }
    return slot->memory;
  }

  void* dynamic_shared() {
    static const char key[] = "dynamic";
    return shared_slot(key, dynamic_bytes_, kSharedAlignment);
  }

  int wait_for_block(int value, CallPlace place) {
    if (b_->at_barrier == 0) {
      b_->barrier = place;
      b_->barrier_sum = 0;
    } else if (!(place == b_->barrier)) {
      fault_ = "threads of one block wait at different barriers: " + where(b_->barrier) + " and " +
               where(place);
      leave();
    }
    b_->barrier_sum += value;
    if (++b_->at_barrier == count_) {
      b_->at_barrier = 0;
      races::order_block();
      b_->barrier_result = b_->barrier_sum;
      std::fill(b_->states.begin(), b_->states.end(), State::ready);
      set_all_runnable();
      return b_->barrier_result;
    }
    block_current();
    return b_->barrier_result;
  }

  void let_blocks_run(CallPlace place) {
    b_->polls = place;
    b_->polling.push_back(current_);
    block_current();
  }

  const Exchange& meet(std::uint32_t mask, std::uint64_t value, CallPlace place, Act act) {
    Meeting& meeting = b_->meetings[current_ / kWarp];
    const unsigned lane = current_ % kWarp;
    if (!(mask >> lane & 1)) {
      fault_ = "a lane outside the mask it names, at " + where(place);
      leave();
    }
    const unsigned lanes = std::min(kWarp, count_ - current_ / kWarp * kWarp);
    if (lanes < kWarp && mask >> lanes) {
      fault_ = "a mask with lanes that do not exist, at " + where(place);
      leave();
    }
    if (meeting.arrived == 0) {
      meeting.mask = mask;
      meeting.place = place;
      meeting.current ^= 1;
    } else if (mask != meeting.mask || !(place == meeting.place)) {
      fault_ = "lanes of one warp wait at different places: " + where(meeting.place) + " and " +
               where(place);
      leave();
    }
    Exchange& exchange = meeting.exchange[meeting.current];
    exchange.value[lane] = value;
    exchange.present = mask;
    meeting.arrived |= 1u << lane;
    if (meeting.arrived != mask) {
      block_current();
      return exchange;
    }
    if (const char* wrong = act ? act(exchange) : nullptr) forbid(wrong, place);
    meeting.arrived = 0;
    for (unsigned i = 0; i < kWarp; ++i)
      if (i != lane && (mask >> i & 1)) wake(current_ / kWarp * kWarp + i);
    return exchange;
  }

  void sync_warp(std::uint32_t mask, CallPlace place) {
    meet(mask, 0, place, [](const Exchange& all) -> const char* {
      races::order_warp(executor().current_ / kWarp * kWarp, all.present);
      return nullptr;
    });
  }

  void forbid(const char* what, CallPlace place) {
    fault_ = std::string(what) + ", at " + where(place);
    leave();
  }

  void fail(std::string&& what) {
    std::string().swap(fault_);  // else the move would leave the old memory in `what`
    fault_ = std::move(what);
    leave();
  }

 private:
  static void work(void* worker) { executor().work(*static_cast<Worker*>(worker)); }

  /** Sets the order of the lanes for the schedule. */
  void arrange() {
    constexpr Schedule kTurns[] = {Schedule::forward, Schedule::greedy, Schedule::reverse,
                                   Schedule::scrambled};
    const Schedule now = schedule_ == Schedule::rotating ? kTurns[turn_++ % 4] : schedule_;
    greedy_ = now == Schedule::greedy;
    if (order_.size() == count_ && now == arranged_) return;
    arranged_ = now;
    order_.resize(count_);
    for (unsigned i = 0; i < count_; ++i) {
      order_[i] = now == Schedule::reverse ? count_ - 1 - i : i;
      // 389 is prime and divides no block size, so every lane occurs once.
      if (now == Schedule::scrambled) order_[i] = (i * 389 + 5) % count_;
    }
  }

  /** Prepares the block with the given number among those that run together. */
  void start_block(std::size_t number, Index3 index) {
    while (blocks_.size() <= number) blocks_.push_back(std::make_unique<Block>());
    b_ = blocks_[number].get();
    b_->index = here.block = index;
    b_->serial = ++serial_;
    races::begin_block();
    sectors::begin_block();
    here.atomic = false;
    b_->shared_bytes = 0;
    b_->states.assign(count_, State::fresh);
    b_->workers.assign(count_, nullptr);
    b_->meetings.resize((count_ + kWarp - 1) / kWarp);
    for (Meeting& m : b_->meetings) m.arrived = 0;
    b_->at_barrier = 0;
    set_all_runnable();
    b_->done = 0;
    b_->cursor = 0;
    b_->polling.clear();
    fault_.clear();
  }

  /** Runs the block until it is done, faulty, or waits for other blocks. Returns true if a lane did
   *  something else than poll. */
  bool run_block() {
    const unsigned done_before = b_->done;
    for (const unsigned lane : std::exchange(b_->polling, {})) wake(lane);
    const unsigned polls = b_->runnable;
    resumed_ = 0;
    while (b_->done < count_ && fault_.empty() && b_->runnable > 0)
      host_.switch_to(fiber_of(pick()));
    if (b_->done < count_ && fault_.empty() && b_->polling.empty()) fault_ = deadlock();
    return b_->done > done_before || resumed_ > polls || b_->polling.size() != polls;
  }

  /** Resumes a block that waited for others. */
  void enter_block(Block& block) {
    b_ = &block;
    here.block = block.index;
    races::begin_block();
    for (const Slot& slot : block.slots)
      if (slot.block == block.serial)
        races::add_memory(static_cast<const char*>(slot.key), slot.memory, slot.bytes);
  }

  /** Runs the blocks of a cooperative launch in turns. */
  void run_together(unsigned count) {
    for (unsigned i = 0; i < count; ++i) start_block(i, {i, 0, 0});
    for (bool any_left = true; any_left;) {
      any_left = false;
      bool any_ran = false;
      for (unsigned i = 0; i < count; ++i) {
        Block& block = *blocks_[arranged_ == Schedule::reverse ? count - 1 - i : i];
        if (block.done == count_) continue;
        enter_block(block);
        any_ran = run_block() || any_ran;
        any_left = any_left || block.done < count_;
        end_if_faulty();
      }
      if (any_left && !any_ran)
        fault_ = "deadlock: blocks wait for each other at " + where(b_->polls);
      end_if_faulty();
    }
  }

  void end_if_faulty() {
    if (fault_.empty()) return;  // all workers are idle
    idle_.clear();
    workers_.clear();  // some are suspended within the kernel
    throw Fault("kernel: " + fault_);
  }

  std::string deadlock() const {
    const unsigned live = count_ - b_->done;
    std::string text = "deadlock: " + std::to_string(live) + " of " + std::to_string(count_) +
                       " are still in the kernel";
    if (b_->at_barrier > 0)
      text += ", " + std::to_string(b_->at_barrier) + " of them in __syncthreads at " +
              where(b_->barrier);
    for (const Meeting& m : b_->meetings)
      if (m.arrived) {
        text += ", some for lanes of their warp at " + where(m.place);
        break;
      }
    return text;
  }

  /** Returns the next runnable lane. There must be one. */
  unsigned pick() {
    if (greedy_)
      for (unsigned warp = 0;; ++warp)
        if (const std::uint32_t lanes = b_->runnable_of_warp[warp])
          return warp * kWarp + static_cast<unsigned>(std::countr_zero(lanes));
    for (;; b_->cursor = b_->cursor + 1 == count_ ? 0 : b_->cursor + 1) {
      const unsigned lane = order_[b_->cursor];
      if (b_->runnable_of_warp[lane / kWarp] >> lane % kWarp & 1) return lane;
    }
  }

  /** Records that a lane became runnable, or is no longer. */
  void set_runnable(unsigned lane, bool is_runnable) {
    b_->runnable += is_runnable ? 1u : ~0u;
    b_->runnable_of_warp[lane / kWarp] ^= 1u << lane % kWarp;
  }

  void enter(unsigned lane) {
    current_ = lane;
    races::lane = lane;
    const Index3 size = here.block_size;
    if (size.x == count_)  // most blocks are one-dimensional, and divisions took a tenth of the
                           // time
      here.thread = {lane, 0, 0};
    else
      here.thread = {lane % size.x, lane / size.x % size.y, lane / (size.x * size.y)};
  }

  /** Makes a runnable lane the current one. Returns the fiber to switch to. */
  Fiber& fiber_of(unsigned lane) {
    ++resumed_;
    Worker* worker = b_->workers[lane];
    if (!worker) {
      if (idle_.empty()) {
        workers_.push_back(std::make_unique<Worker>());
        idle_.push_back(workers_.back().get());
        idle_.back()->fiber.start(&Executor::work, idle_.back());
      }
      worker = idle_.back();
      idle_.pop_back();
      worker->first = lane;
    }
    b_->states[lane] = State::ready;
    enter(lane);
    running_ = worker;
    return worker->fiber;
  }

  /** Runs one lane after another on a fiber, as long as the schedule chooses lanes without a
   *  stack, then switches to another fiber or to the host; again and again. */
  void work(Worker& worker) {
    for (;;) {
      for (unsigned lane = worker.first;;) {
        enter(lane);
        body_(argument_);
        b_->states[lane] = State::done;
        b_->workers[lane] = nullptr;
        set_runnable(lane, false);
        if (++b_->done == count_ || b_->runnable == 0) break;
        lane = pick();
        if (b_->states[lane] != State::fresh) break;
        b_->states[lane] = State::ready;
      }
      idle_.push_back(&worker);
      leave_to_next(worker);
    }
  }

  /** Suspends the fiber that runs, and resumes the next lane, or the host if there is none. */
  void leave_to_next(Worker& worker) {
    if (b_->runnable > 0)
      worker.fiber.switch_to(fiber_of(pick()));
    else
      worker.fiber.switch_to(host_);
  }

  /** Suspends the current lane until wake(). */
  void block_current() {
    b_->states[current_] = State::waiting;
    b_->workers[current_] = running_;
    set_runnable(current_, false);
    leave_to_next(*running_);
  }

  void wake(unsigned lane) {
    b_->states[lane] = State::ready;
    set_runnable(lane, true);
  }

  void set_all_runnable() {
    b_->runnable = count_;
    b_->runnable_of_warp.assign((count_ + kWarp - 1) / kWarp, ~0u);
    if (count_ % kWarp != 0) b_->runnable_of_warp.back() = (1u << count_ % kWarp) - 1;
  }

  /** Ends the block with fault_, from one of its fibers. Objects on the fiber's stack are not
   *  destroyed. */
  void leave() { running_->fiber.switch_to(host_); }

  std::mutex mutex_;
  Schedule schedule_ = Schedule::rotating, arranged_ = Schedule::rotating;
  unsigned turn_ = 0;
  bool greedy_ = false;

  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  std::size_t dynamic_bytes_ = 0;
  unsigned count_ = 0, current_ = 0;
  unsigned resumed_ = 0;  // switches to a fiber in run_block()
  std::vector<unsigned> order_;
  std::vector<std::unique_ptr<Block>> blocks_;  // kept for their shared memory
  Block* b_ = nullptr;                          // the running one
  std::uint64_t serial_ = 0;

  Context host_;
  Worker* running_ = nullptr;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
  std::string fault_;
};

}  // namespace

void set_schedule(Schedule schedule) { Executor::executor().set_schedule(schedule); }

void run_grid(Index3 grid_size, Index3 block_size, std::size_t dynamic_shared_bytes,
              void (*body)(void*), void* argument, bool together) {
  const void* kernel = *static_cast<void* const*>(argument);  // first member of launch()'s Call
  log_fill(kernel, std::int64_t{grid_size.x} * grid_size.y * grid_size.z,
           std::int64_t{block_size.x} * block_size.y * block_size.z);
  if (DryRun::is_on()) return;
  Executor::executor().run(grid_size, block_size, dynamic_shared_bytes, body, argument, together);
}

void* shared_slot(const void* key, std::size_t bytes, std::size_t alignment) {
  return Executor::executor().shared_slot(key, bytes, alignment);
}

void* dynamic_shared() { return Executor::executor().dynamic_shared(); }

void wait_for_block(CallPlace place) { Executor::executor().wait_for_block(0, place); }

void let_blocks_run(CallPlace place) { Executor::executor().let_blocks_run(place); }

int sum_over_block(int value, CallPlace place) {
  return Executor::executor().wait_for_block(value, place);
}

const Exchange& meet_warp(std::uint32_t mask, std::uint64_t value, CallPlace place) {
  return Executor::executor().meet(mask, value, place, nullptr);
}

const Exchange& meet_warp(std::uint32_t mask, std::uint64_t value, CallPlace place, Act act) {
  return Executor::executor().meet(mask, value, place, act);
}

void sync_warp(std::uint32_t mask, CallPlace place) { Executor::executor().sync_warp(mask, place); }

void forbid(const char* what, CallPlace place) { Executor::executor().forbid(what, place); }

void fail_kernel(std::string&& what) { Executor::executor().fail(std::move(what)); }

}  // namespace mezzo::emulator
