#include "trace.h"

#include <algorithm>
#include <map>
#include <thread>
#include <tuple>
#include <utility>

#include "../autograd/hooks.h"
#include "../autograd/ops.h"
#include "../tensor/capture.h"
#include "../tensor/guard_list.h"
#include "../tensor/text.h"
#include "unobserved.h"

namespace mezzo::amp {

namespace {

std::int64_t count_true(const Tensor& mask) {
  Capture::refuse_crossing("amp::trace", mask, cpu);
  return count_nonzero(mask).item<std::int64_t>();
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

/** A kind of cast: what an entry counts. */
struct Kind {
  std::string module;
  std::string op, rule;
  CastDirection direction;
  DType from, to;
  friend bool operator<(const Kind& a, const Kind& b) {
    return std::tie(a.module, a.op, a.rule, a.direction, a.from, a.to) <
           std::tie(b.module, b.op, b.rule, b.direction, b.from, b.to);
  }
};

}  // namespace

std::string_view name(CastDirection direction) {
  return direction == CastDirection::forward ? "forward" : "backward";
}

/** The entries. Gradients find it by way of hooks, which outlive the trace: then it is gone. */
struct trace::Book {
  std::vector<CastEntry> entries;
  std::map<Kind, std::size_t> places;
  std::thread::id thread = std::this_thread::get_id();

  CastEntry& entry(const Kind& kind) {
    const auto [place, is_new] = places.try_emplace(kind, entries.size());
    if (is_new)
      entries.push_back({.module = kind.module,
                         .op = kind.op,
                         .rule = kind.rule,
                         .direction = kind.direction,
                         .from = kind.from,
                         .to = kind.to});
    return entries[place->second];
  }

  void add(const Kind& kind, const Tensor& from, const Tensor& to) {
    CastEntry& e = entry(kind);
    ++e.count;
    e.elements += to.numel();
    e.bytes += to.numel() * static_cast<std::int64_t>(item_size(to.dtype()));
    if (!is_low(to.dtype())) return;
    e.overflowed += count_true(isinf(to) & isfinite(from));
    e.flushed += count_true((to == 0) & (from != 0));
  }

  static void watch_gradient(const std::shared_ptr<Book>& self, const Kind& kind, const Tensor& to);
};

trace::trace() : book_(std::make_shared<Book>()) { outer = std::exchange(ThreadCasts::here().ledger, this); }

trace::~trace() {
  close_guard<CastLedger>(ThreadCasts::here().ledger, *this, &CastLedger::outer,
                          "trace: guards must close in reverse order of opening");
}

void trace::note(const CastReason& reason, const Tensor& from, const Tensor& to, bool cached) {
  const Kind kind{current_module_path(),  std::string(reason.op), std::string(reason.rule),
                  CastDirection::forward, from.dtype(),           to.dtype()};
  if (cached) {
    ++book_->entry(kind).cache_hits;
  } else {
    const Unobserved quiet;
    book_->add(kind, from, to);
    if (to.requires_grad()) Book::watch_gradient(book_, kind, to);
  }
  if (outer) outer->note(reason, from, to, cached);
}

/** The gradient of a cast's result is cast back to the dtype the cast came from. */
void trace::Book::watch_gradient(const std::shared_ptr<Book>& self, const Kind& kind, const Tensor& to) {
  register_hook(to, [kind, weak = std::weak_ptr<Book>(self)](const Tensor& gradient) -> Tensor {
    const std::shared_ptr<Book> book = weak.lock();
    if (!book || book->thread != std::this_thread::get_id()) return {};
    const Unobserved quiet;
    const Kind back{kind.module, kind.op, kind.rule, CastDirection::backward, gradient.dtype(), kind.from};
    book->add(back, gradient, gradient.to(kind.from));
    return {};
  });
}

std::vector<CastEntry> trace::entries() const { return book_->entries; }

CastEntry trace::total() const {
  CastEntry sum;
  for (const CastEntry& entry : book_->entries) add(sum, entry);
  return sum;
}

CastEntry trace::total(CastDirection direction) const {
  CastEntry sum;
  sum.direction = direction;
  for (const CastEntry& entry : book_->entries)
    if (entry.direction == direction) add(sum, entry);
  return sum;
}

std::string trace::table() const {
  std::string out = line({"module", "op", "rule", "way", "cast", "count", "cached", "elements", "bytes",
                          "overflowed", "flushed"});
  for (const CastEntry& e : book_->entries)
    out +=
        line({e.module, e.op, e.rule, std::string(name(e.direction)), str(e.from, "->", e.to), str(e.count),
              str(e.cache_hits), str(e.elements), str(e.bytes), str(e.overflowed), str(e.flushed)});
  return out;
}

}  // namespace mezzo::amp
