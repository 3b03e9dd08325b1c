#include "deferred.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include "../tensor/capture.h"
#include "../tensor/ops/cross_entropy.h"
#include "../tensor/text.h"
#include "device.h"

namespace mezzo::gpu {

namespace {

constexpr std::size_t kWords = 64;

/** The watched ranges of one device, and their words in its memory. */
struct Watch {
  Tensor words;
  std::vector<WatchedRange> ranges;
  std::vector<runtime::Stream> armed;  // whose kernels may have noted something
  std::size_t kept = 0;                // the first ranges, whose words are in captured steps
  int captures = 0;                    // how many of these there are
  // When each range was first watched since the last wait; 0: not since. Where several were broken, the call that came first is the one to tell of.
  std::array<std::size_t, kWords> turns{};
  std::size_t last_turn = 0;

  DeferredWord* take_turn(std::size_t i) {
    if (turns[i] == 0) turns[i] = ++last_turn;
    return data() + i;
  }
  void forget_turns() {
    turns.fill(0);
    last_turn = 0;
  }

  void arm(runtime::Stream stream) {
    if (std::find(armed.begin(), armed.end(), stream) == armed.end()) armed.push_back(stream);
  }

  DeferredWord* data() const { return static_cast<DeferredWord*>(words.raw_data()); }
};

std::mutex mutex;
std::array<Watch, 128>& watches() {
  static auto& all = *new std::array<Watch, 128>;  // tensors outlive exit
  return all;
}
Watch& watch_of(Device device) { return watches()[static_cast<std::size_t>(device.index)]; }

/** Waits for it: kernels of any stream may note something from here on. */
void reset(Watch& watch, Device device) {
  std::array<DeferredWord, kWords> clean;
  clean.fill(kNothingBad);
  const runtime::Stream stream = current_stream(device);
  runtime::copy(watch.data(), clean.data(), sizeof clean, stream);
  runtime::synchronize(stream);
}

[[noreturn]] void fail_noted(const WatchedRange& watched, DeferredWord word) {
  const auto place = static_cast<std::int64_t>(word >> 32);
  const auto value = static_cast<std::int32_t>(static_cast<std::uint32_t>(word));
  if (const auto* index = std::get_if<op::IndexRange>(&watched)) op::fail_index(*index, place, value);
  const ClassRange& range = std::get<ClassRange>(watched);
  op::fail_class(range.op, range.targets, place, value, range.classes, range.ignore_index);
}

}  // namespace

namespace {

/** The words, clean, before their first use. */
void prepare_watch(Device device) {
  const std::lock_guard lock(mutex);
  Watch& watch = watch_of(device);
  if (watch.words.defined()) return;
  const CategoryScope scope(MemoryCategory::workspace);
  watch.words = empty_tensor({static_cast<std::int64_t>(kWords * sizeof(DeferredWord))}, DType::u8, device);
  reset(watch, device);
}

/** Takes back the words that no captured step has, once what was noted in them has come out. */
void make_room(Device device) {
  queues().synchronize(device);
  const std::lock_guard lock(mutex);
  watch_of(device).ranges.resize(watch_of(device).kept);
}

}  // namespace

void prepare_capture(Device device) {
  prepare_watch(device);
  const bool is_full = [&] {
    const std::lock_guard lock(mutex);
    return watch_of(device).ranges.size() > kWords / 2;
  }();
  if (is_full) make_room(device);
}

void keep_watched(Device device) {
  const std::lock_guard lock(mutex);
  watch_of(device).kept = watch_of(device).ranges.size();
  ++watch_of(device).captures;
}

void release_watched(Device device) noexcept {
  const std::lock_guard lock(mutex);
  if (--watch_of(device).captures == 0) watch_of(device).kept = 0;
}

void arm_watched(Device device) {
  const runtime::Stream stream = current_stream(device);
  const std::lock_guard lock(mutex);
  if (watch_of(device).kept > 0) watch_of(device).arm(stream);
}

DeferredWord* watch(Device device, const WatchedRange& range) {
  prepare_watch(device);
  const runtime::Stream stream = current_stream(device);
  {
    const std::lock_guard lock(mutex);
    Watch& watch = watch_of(device);
    watch.arm(stream);
    const auto at = std::find(watch.ranges.begin(), watch.ranges.end(), range);
    if (at != watch.ranges.end()) return watch.take_turn(static_cast<std::size_t>(at - watch.ranges.begin()));
    if (watch.ranges.size() < kWords) {
      watch.ranges.push_back(range);
      return watch.take_turn(watch.ranges.size() - 1);
    }
  }
  // All words are taken: what was noted has to come out before they can serve others.
  if (Capture::current() || watch_of(device).kept == kWords)
    fail<StateError>(std::visit([](const auto& r) { return r.op; }, range),
                     {.what = "too many kinds of indices are watched on this device",
                      .expected = str("at most ", kWords, " in captured steps"),
                      .hint = "capture fewer steps, or indices of fewer shapes"});
  make_room(device);
  return watch(device, range);
}

void raise_deferred(Device device) {
  std::array<DeferredWord, kWords> words;
  WatchedRange broken;
  DeferredWord noted = kNothingBad;
  {
    const std::lock_guard lock(mutex);
    Watch& watch = watch_of(device);
    if (watch.armed.empty()) return;
    const runtime::Stream stream = current_stream(device);
    // What kernels in other streams have yet to note is not in this copy. A stream that another
    // thread captures may not be asked: it stays armed.
    std::erase_if(watch.armed, [&](runtime::Stream s) { return s == stream || queues().is_idle(device, s); });
    runtime::copy(words.data(), watch.data(), sizeof words, stream);
    runtime::synchronize(stream);
    std::size_t first_turn = watch.last_turn + 1;
    for (std::size_t i = 0; i < watch.ranges.size(); ++i)
      if (words[i] != kNothingBad && watch.turns[i] < first_turn) {
        noted = words[i];
        broken = watch.ranges[i];
        first_turn = watch.turns[i];
      }
    if (noted != kNothingBad) {
      // What other streams note goes with it.
      std::erase_if(watch.armed, [&](runtime::Stream s) { return queues().try_synchronize(device, s); });
      reset(watch, device);
    }
    if (watch.armed.empty()) watch.forget_turns();
  }
  if (noted != kNothingBad) fail_noted(broken, noted);
}

}  // namespace mezzo::gpu
