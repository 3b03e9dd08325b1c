#include "trace.h"

#include <algorithm>

#include "../autograd/ops.h"
#include "../tensor/text.h"
#include "unobserved.h"

namespace mezzo::amp {

namespace {

std::int64_t count_true(const Tensor& mask) { return count_nonzero(mask).item<std::int64_t>(); }

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
  static constexpr std::size_t kWidths[] = {20, 24, 8, 10, 7, 6, 10, 12, 10, 8};
  std::string out;
  const std::size_t* width = kWidths;
  for (const std::string& cell : cells) out += padded(cell, *width++);
  return out.substr(0, out.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

trace::trace() : outer_(ThreadCasts::here().ledger) { ThreadCasts::here().ledger = this; }

trace::~trace() { ThreadCasts::here().ledger = outer_; }

void trace::note(const CastReason& reason, const Tensor& from, const Tensor& to, bool cached) {
  const Key key{current_module_path(), reason.op, reason.rule, from.dtype(), to.dtype()};
  const auto [place, is_new] = places_.try_emplace(key, entries_.size());
  if (is_new)
    entries_.push_back({.module = std::get<0>(key),
                        .op = std::string(reason.op),
                        .rule = std::string(reason.rule),
                        .from = from.dtype(),
                        .to = to.dtype()});
  CastEntry& entry = entries_[place->second];
  if (cached) {
    ++entry.cache_hits;
  } else {
    const Unobserved quiet;
    ++entry.count;
    entry.elements += to.numel();
    entry.bytes += to.numel() * static_cast<std::int64_t>(item_size(to.dtype()));
    if (is_low(to.dtype())) {
      entry.overflowed += count_true(isinf(to) & isfinite(from));
      entry.flushed += count_true((to == 0) & (from != 0));
    }
  }
  if (outer_) outer_->note(reason, from, to, cached);
}

std::vector<CastEntry> trace::entries() const { return entries_; }

CastEntry trace::total() const {
  CastEntry sum;
  for (const CastEntry& entry : entries_) add(sum, entry);
  return sum;
}

std::string trace::table() const {
  std::string out =
      line({"module", "op", "rule", "cast", "count", "cached", "elements", "bytes", "overflowed", "flushed"});
  for (const CastEntry& e : entries_)
    out += line({e.module, e.op, e.rule, str(e.from, "->", e.to), str(e.count), str(e.cache_hits),
                 str(e.elements), str(e.bytes), str(e.overflowed), str(e.flushed)});
  return out;
}

}  // namespace mezzo::amp
