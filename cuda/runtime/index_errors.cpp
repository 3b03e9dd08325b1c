#include "index_errors.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include "../../tensor/device/capture.h"
#include "../../tensor/ops/loss/cross_entropy.h"
#include "../../tensor/text/text.h"
#include "device.h"

namespace mezzo::gpu {

namespace {

constexpr std::size_t kWords = 64;

/** The checked ranges of one device and their words in device memory. */
struct Watch {
  Tensor words;
  std::vector<WatchedRange> ranges;
  std::vector<runtime::Stream> armed;  // streams whose kernels may have recorded something
  std::size_t kept = 0;                // number of leading ranges that captured steps use
  int captures = 0;                    // number of captured steps
  // Order in which ranges were first checked since the last wait; 0: not checked since. If several
  // have invalid values, the error is that of the earliest call.
  std::array<std::size_t, kWords> turns{};
  std::size_t last_turn = 0;

  IndexErrorWord* take_turn(std::size_t i) {
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

  IndexErrorWord* data() const { return static_cast<IndexErrorWord*>(words.raw_data()); }
};

std::mutex pending_mutex;
std::array<Watch, 128>& watches() {
  static auto& all = *new std::array<Watch, 128>;  // never destroyed: tensors may outlive main
  return all;
}
Watch& watch_of(Device device) { return watches()[static_cast<std::size_t>(device.index)]; }

/** Clears the words and waits, because kernels of any stream may write to them afterwards. */
void reset(Watch& watch, Device device) {
  std::array<IndexErrorWord, kWords> clean;
  clean.fill(kNothingBad);
  const runtime::Stream stream = current_stream(device);
  runtime::copy(watch.data(), clean.data(), sizeof clean, stream);
  runtime::synchronize(stream);
}

[[noreturn]] void fail_noted(const WatchedRange& watched, IndexErrorWord word) {
  const auto place = static_cast<std::int64_t>(word >> 32);
  const auto value = static_cast<std::int32_t>(static_cast<std::uint32_t>(word));
  if (const auto* index = std::get_if<op::IndexRange>(&watched))
    op::fail_index(*index, place, value);
  const ClassRange& range = std::get<ClassRange>(watched);
  op::fail_class(range.op, range.targets, place, value, range.classes, range.ignore_index);
}

}  // namespace

namespace {

/** Allocates and clears the words at their first use. */
void prepare_watch(Device device) {
  const std::lock_guard lock(pending_mutex);
  Watch& watch = watch_of(device);
  if (watch.words.defined()) return;
  const CategoryScope scope(MemoryCategory::workspace);
  watch.words =
      empty_tensor({static_cast<std::int64_t>(kWords * sizeof(IndexErrorWord))}, DType::u8, device);
  reset(watch, device);
}

/** Frees the words that no captured step uses, after raising the errors recorded in them. */
void make_room(Device device) {
  queues().synchronize(device);
  const std::lock_guard lock(pending_mutex);
  watch_of(device).ranges.resize(watch_of(device).kept);
}

}  // namespace

void prepare_capture(Device device) {
  prepare_watch(device);
  const bool is_full = [&] {
    const std::lock_guard lock(pending_mutex);
    return watch_of(device).ranges.size() > kWords / 2;
  }();
  if (is_full) make_room(device);
}

void keep_watched(Device device) {
  const std::lock_guard lock(pending_mutex);
  watch_of(device).kept = watch_of(device).ranges.size();
  ++watch_of(device).captures;
}

void release_watched(Device device) noexcept {
  const std::lock_guard lock(pending_mutex);
  if (--watch_of(device).captures == 0) watch_of(device).kept = 0;
}

void arm_watched(Device device) {
  const runtime::Stream stream = current_stream(device);
  const std::lock_guard lock(pending_mutex);
  if (watch_of(device).kept > 0) watch_of(device).arm(stream);
}

IndexErrorWord* watch(Device device, const WatchedRange& range) {
  prepare_watch(device);
  const runtime::Stream stream = current_stream(device);
  {
    const std::lock_guard lock(pending_mutex);
    Watch& watch = watch_of(device);
    watch.arm(stream);
    const auto at = std::find(watch.ranges.begin(), watch.ranges.end(), range);
    if (at != watch.ranges.end())
      return watch.take_turn(static_cast<std::size_t>(at - watch.ranges.begin()));
    if (watch.ranges.size() < kWords) {
      watch.ranges.push_back(range);
      return watch.take_turn(watch.ranges.size() - 1);
    }
  }
  // All words are in use: recorded errors must be raised before words can be reused.
  if (Capture::current() || watch_of(device).kept == kWords)
    fail<StateError>(std::visit([](const auto& r) { return r.op; }, range),
                     {.what = "too many different index checks on this device",
                      .expected = str("at most ", kWords, " in captured steps"),
                      .hint = "capture fewer steps, or indices of fewer shapes"});
  make_room(device);
  return watch(device, range);
}

void raise_index_errors(Device device) {
  std::array<IndexErrorWord, kWords> words;
  WatchedRange broken;
  IndexErrorWord noted = kNothingBad;
  {
    const std::lock_guard lock(pending_mutex);
    Watch& watch = watch_of(device);
    if (watch.armed.empty()) return;
    const runtime::Stream stream = current_stream(device);
    // This copy lacks what pending kernels in other streams will record. A stream that another
    // thread captures must not be queried, so it stays armed.
    std::erase_if(watch.armed,
                  [&](runtime::Stream s) { return s == stream || queues().is_idle(device, s); });
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
      // Later records of other streams are discarded.
      std::erase_if(watch.armed,
                    [&](runtime::Stream s) { return queues().try_synchronize(device, s); });
      reset(watch, device);
    }
    if (watch.armed.empty()) watch.forget_turns();
  }
  if (noted != kNothingBad) fail_noted(broken, noted);
}

}  // namespace mezzo::gpu
