#include "trace.h"

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "../../autograd/hooks.h"
#include "../../tensor/core/guard_list.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/ops/ops.h"
#include "../../tensor/text/text.h"
#include "unobserved.h"

namespace mezzo::amp {

namespace {

std::int64_t count_zeros(const Tensor& x) {
  return x.numel() - count_nonzero(x).item<std::int64_t>();
}

std::int64_t count_infinite(const Tensor& x) {
  return count_nonzero(isinf(x)).item<std::int64_t>();
}

void add(CastEntry& sum, const CastEntry& entry) {
  sum.count += entry.count;
  sum.cache_hits += entry.cache_hits;
  sum.elements += entry.elements;
  sum.bytes += entry.bytes;
  sum.overflowed += entry.overflowed;
  sum.flushed += entry.flushed;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text + "  ";
}

std::string line(std::initializer_list<std::string> cells) {
  static constexpr std::size_t kWidths[] = {20, 24, 8, 8, 10, 7, 6, 10, 12, 10, 8};
  std::string out;
  const std::size_t* width = kWidths;
  for (const std::string& cell : cells) out += padded(cell, *width++);
  return out.substr(0, out.find_last_not_of(' ') + 1) + "\n";
}

/** Identifies an entry. */
struct EntryKey {
  std::string module;
  std::string op, tag;
  CastDirection direction;
  DType from, to;
  friend bool operator<(const EntryKey& a, const EntryKey& b) {
    return std::tie(a.module, a.op, a.tag, a.direction, a.from, a.to) <
           std::tie(b.module, b.op, b.tag, b.direction, b.from, b.to);
  }
};

}  // namespace

std::string_view name(CastDirection direction) {
  return direction == CastDirection::forward ? "forward" : "backward";
}

/** The entries. Gradient hooks hold a weak reference, as they can outlive the trace. */
struct trace::Recorder {
  std::vector<CastEntry> entries;
  std::map<EntryKey, std::size_t> places;
  std::thread::id thread = std::this_thread::get_id();

  CastEntry& entry(const EntryKey& key) {
    const auto [place, is_new] = places.try_emplace(key, entries.size());
    if (is_new)
      entries.push_back({.module = key.module,
                         .op = key.op,
                         .tag = key.tag,
                         .direction = key.direction,
                         .from = key.from,
                         .to = key.to});
    return entries[place->second];
  }

  /** Adds a cast of `from` to the dtype of the key; `to` is its result, if it exists. Zeros stay
   *  zero and infinities infinite, so that others of the result have been flushed or overflowed. */
  void add(const EntryKey& key, const Tensor& from, const std::optional<Tensor>& to) {
    CastEntry& e = entry(key);
    ++e.count;
    e.elements += from.numel();
    e.bytes += from.numel() * static_cast<std::int64_t>(item_size(key.to));
    if (!is_low(key.to)) return;
    Capture::refuse_crossing("amp::trace", from, cpu);
    const Tensor result = to ? *to : from.to(key.to);
    if (const std::int64_t zeros = count_zeros(result)) e.flushed += zeros - count_zeros(from);
    if (!finite(result)) e.overflowed += count_infinite(result) - count_infinite(from);
  }

  static void watch_gradient(const std::shared_ptr<Recorder>& self, const EntryKey& key,
                             const Tensor& to);
};

trace::trace() : recorder_(std::make_shared<Recorder>()) {
  outer = std::exchange(ThreadCasts::here().ledger, this);
}

trace::~trace() {
  close_guard<CastLedger>(ThreadCasts::here().ledger, *this, &CastLedger::outer,
                          "trace: guards must close in reverse order of opening");
}

void trace::note(const CastReason& reason, const Tensor& from, const Tensor& to, bool cached) {
  const EntryKey key{current_module_path(),  std::string(reason.op), std::string(reason.tag),
                     CastDirection::forward, from.dtype(),           to.dtype()};
  if (cached) {
    ++recorder_->entry(key).cache_hits;
  } else {
    const Unobserved quiet;
    recorder_->add(key, from, to);
    if (to.requires_grad()) Recorder::watch_gradient(recorder_.ptr(), key, to);
  }
  if (outer) outer->note(reason, from, to, cached);
}

/** Records the backward cast of a cast's result: its gradient returns to the original dtype. */
void trace::Recorder::watch_gradient(const std::shared_ptr<Recorder>& self, const EntryKey& key,
                                     const Tensor& to) {
  register_hook(to, [key, weak = std::weak_ptr<Recorder>(self)](const Tensor& gradient) -> Tensor {
    const std::shared_ptr<Recorder> recorder = weak.lock();
    if (!recorder || recorder->thread != std::this_thread::get_id()) return {};
    const Unobserved quiet;
    const EntryKey backward_key{key.module,       key.op,  key.tag, CastDirection::backward,
                                gradient.dtype(), key.from};
    recorder->add(backward_key, gradient, std::nullopt);
    return {};
  });
}

std::vector<CastEntry> trace::entries() const { return recorder_->entries; }

CastEntry trace::total() const {
  CastEntry sum;
  for (const CastEntry& entry : recorder_->entries) add(sum, entry);
  return sum;
}

CastEntry trace::total(CastDirection direction) const {
  CastEntry sum;
  sum.direction = direction;
  for (const CastEntry& entry : recorder_->entries)
    if (entry.direction == direction) add(sum, entry);
  return sum;
}

std::string trace::table() const {
  std::string out = line({"module", "op", "tag", "way", "cast", "count", "cached", "elements",
                          "bytes", "overflowed", "flushed"});
  for (const CastEntry& e : recorder_->entries)
    out += line({e.module, e.op, e.tag, std::string(name(e.direction)), str(e.from, "->", e.to),
                 str(e.count), str(e.cache_hits), str(e.elements), str(e.bytes), str(e.overflowed),
                 str(e.flushed)});
  return out;
}

}  // namespace mezzo::amp
