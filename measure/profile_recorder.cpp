#include "profile_recorder.h"

#include <algorithm>
#include <limits>
#include <new>

#include "../tensor/text/text.h"
#include "op_work.h"

namespace mezzo::detail {

namespace {

/** The range that the autograd engine opens around a backward pass. */
constexpr std::string_view kBackward = "backward";

DType first_floating_dtype(Inputs tensors) {
  for (const Tensor& x : tensors)
    if (x.defined() && is_floating(x.dtype())) return x.dtype();
  return DType::f32;
}

}  // namespace

ProfileRecorder::ProfileRecorder(ProfileLog& log, DeviceMarks& marks, std::int64_t start,
                                 bool single_ops)
    : NestedTrace("Profiler: profilers must be stopped in reverse order of construction"),
      log_(log),
      marks_(marks),
      start_(start) {
  open_.reserve(64);
  if (!single_ops) allow_fused_ops();
}

std::uint32_t ProfileRecorder::name_of(const OpInfo& info, ProfileKind kind) {
  auto& names = kind == ProfileKind::rule ? rule_names_ : op_names_;
  const auto [entry, is_new] = names.try_emplace(&info);
  if (is_new)
    entry->second = kind == ProfileKind::rule
                        ? log_.names.number(str(info.traits.name, " backward"))
                        : log_.names.number(info.traits.name);
  return entry->second;
}

void ProfileRecorder::enter(ProfileKind kind, std::uint32_t name, bool starts_backward) {
  current_module_path(path_);
  const ProfileEvent* outer = innermost();
  const std::int32_t parent = outer ? static_cast<std::int32_t>(open_.back()) : -1;
  open_.push_back(log_.events.size());
  ProfileEvent& event = log_.events.push({});
  event.end = ProfileEvent::kOpen;
  event.parent = parent;
  event.name = name;
  event.module = log_.modules.number(path_);
  event.kind = kind;
  event.backward = starts_backward || (outer && outer->backward);
  event.dtype = DType::f32;
  event.device_begin = marks_.place();
  event.begin = now();
}

void ProfileRecorder::leave() noexcept {
  ProfileEvent* event = innermost();
  if (!event) return;
  event->end = now();
  event->device_end = marks_.place();
  open_.pop_back();
}

void ProfileRecorder::note_tensors(ProfileEvent& event, Inputs in, Inputs out) {
  const std::size_t most = std::numeric_limits<std::uint8_t>::max();
  event.operands = static_cast<std::int64_t>(log_.tensors.size());
  event.inputs = static_cast<std::uint8_t>(std::min(in.size(), most));
  event.outputs = static_cast<std::uint8_t>(std::min(out.size(), most));
  log_.add_tensors(in.first(event.inputs));
  log_.add_tensors(out.first(event.outputs));
  event.dtype = first_floating_dtype(in);
  const auto is_timed = [&](const Tensor& x) {
    return x.defined() && x.device() == marks_.device();
  };
  if (std::none_of(in.begin(), in.end(), is_timed) &&
      std::none_of(out.begin(), out.end(), is_timed))
    event.device_begin = nullptr;
}

void ProfileRecorder::trace(const OpInfo& info, Inputs in, Outputs out) {
  NestedTrace::trace(info, in, out);
  ProfileEvent* event = innermost();
  if (!event) return;
  const OpWork work = op_work(info, in, out);
  event->flops += work.flops;
  event->bytes += work.bytes;
  // The casts of several weights by one kernel are traced in its range.
  if (event->kind == ProfileKind::op) note_tensors(*event, in, out);
}

void ProfileRecorder::enter_forward(const OpInfo& info) {
  NestedTrace::enter_forward(info);
  enter(ProfileKind::op, name_of(info, ProfileKind::op), false);
}

void ProfileRecorder::leave_forward(const OpInfo& info) noexcept {
  leave();
  NestedTrace::leave_forward(info);
}

void ProfileRecorder::enter_backward(const OpInfo& info) {
  NestedTrace::enter_backward(info);
  enter(ProfileKind::rule, name_of(info, ProfileKind::rule), true);
}

void ProfileRecorder::leave_backward(const OpInfo& info, Inputs gy, Inputs gradients) {
  if (ProfileEvent* event = innermost()) {
    const std::int64_t end = now();
    const OpWork work = backward_work(info, gy, gradients);
    event->flops += work.flops;
    event->bytes += work.bytes;
    note_tensors(*event, gy, gradients);
    leave();
    event->end = end;
  }
  NestedTrace::leave_backward(info, gy, gradients);
}

void ProfileRecorder::enter_range(std::string_view name) {
  NestedTrace::enter_range(name);
  enter(ProfileKind::range, log_.names.number(name), name == kBackward);
}

void ProfileRecorder::leave_range() noexcept {
  // A range that was opened before this recorder is none of its events.
  if (const ProfileEvent* event = innermost(); event && event->kind == ProfileKind::range) leave();
  NestedTrace::leave_range();
}

void ProfileRecorder::memory_changed(const Allocator& allocator, MemoryCategory category,
                                     std::int64_t bytes, std::int64_t current) noexcept {
  if (bytes > 0) {
    ProfileEvent* event = innermost();
    (event ? event->allocated : log_.outside_allocated) += bytes;
  }
  for (std::size_t i = 0; i < log_.devices.size(); ++i)
    if (log_.devices[i].allocator == &allocator) {
      try {
        log_.memory.push({now(), current, static_cast<std::uint8_t>(i), category});
      } catch (const std::bad_alloc&) {  // the timeline lacks this change
      }
    }
}

}  // namespace mezzo::detail
