#include "job.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "../core/error.h"
#include "../text/text.h"

namespace mezzo::comm::detail {

namespace {

/** Compares what describes the operation; the payload of a round is its name. */
bool same(const Frame& a, const Frame& b) {
  const bool whole = a.kind == FrameKind::round && b.kind == FrameKind::round;
  return std::memcmp(&a, &b, whole ? sizeof(Frame) : offsetof(Frame, payload)) == 0;
}

std::string_view name(FrameKind kind) {
  constexpr std::string_view kNames[] = {
      "all_reduce", "reduce_scatter", "all_gather", "broadcast",   "all_to_all",
      "barrier",    "gather_text",    "split",      "begin_round", "the end of the program"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name(Op op) {
  constexpr std::string_view kNames[] = {"sum", "max", "min"};
  return kNames[static_cast<std::size_t>(op)];
}

/** Returns what is in the parentheses after a name: the op, the order or the root. */
std::string arguments(const Frame& frame) {
  constexpr std::string_view kOrders[] = {"fast", "ranks", "ranks, f32_sum"};
  switch (frame.kind) {
    case FrameKind::all_reduce:
    case FrameKind::reduce_scatter:
      return str("(", name(frame.op), ", ", kOrders[frame.order],
                 factor_of(frame) == 1 ? "" : str(", times ", factor_of(frame)), ")");
    case FrameKind::broadcast: return str("(root ", frame.number, ")");
    default: return {};
  }
}

bool has_elements(FrameKind kind) { return kind <= FrameKind::all_to_all; }

std::string round_name(const Frame& frame) {
  const auto* text = reinterpret_cast<const char*>(frame.payload.data());
  const std::string_view all(text, frame.payload.size());
  return str(all.substr(0, all.find('\0')), " ", frame.number);
}

std::string in_detail(const Frame& frame) {
  std::string text = str(describe(frame), " as operation ", frame.sequence + 1);
  if (frame.kind == FrameKind::round) text += str(" with signature ", frame.signature);
  return text;
}

}  // namespace

namespace {
constexpr auto kNoFactor = std::bit_cast<std::uint64_t>(1.0);  // so that signature 0 means 1
}
double factor_of(const Frame& frame) { return std::bit_cast<double>(frame.signature ^ kNoFactor); }
void set_factor(Frame& frame, double factor) {
  frame.signature = std::bit_cast<std::uint64_t>(factor) ^ kNoFactor;
}

std::string describe(const Frame& frame) {
  if (frame.kind == FrameKind::round) return round_name(frame);
  std::string text = str(name(frame.kind), arguments(frame));
  if (has_elements(frame.kind)) text += str(" of ", frame.dtype, " x ", frame.count);
  return text;
}

bool only_signatures_differ(std::span<const Frame> frames) {
  return std::all_of(frames.begin(), frames.end(), [&](Frame frame) {
    frame.signature = frames[0].signature;
    return frame.kind == FrameKind::round && same(frame, frames[0]);
  });
}

std::optional<std::string> mismatch(std::span<const Frame> frames) {
  const auto other = std::find_if(frames.begin(), frames.end(),
                                  [&](const Frame& frame) { return !same(frame, frames[0]); });
  if (other == frames.end()) return std::nullopt;
  std::string first = describe(frames[0]), second = describe(*other);
  if (first == second) first = in_detail(frames[0]), second = in_detail(*other);
  return error_text("comm",
                    {.what = "ranks are not in the same operation",
                     .got = str(first, " on rank 0, ", second, " on rank ", other - frames.begin()),
                     .expected = "the same calls in the same order on all ranks"});
}

}  // namespace mezzo::comm::detail
