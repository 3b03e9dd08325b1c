#include "profile_rows.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "roof.h"

namespace mezzo::detail {

namespace {

double seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

std::int64_t duration(const ProfileEvent& event, std::int64_t end) {
  return (event.end == ProfileEvent::kOpen ? end : event.end) - event.begin;
}

/** The times of each event in seconds on the device. */
struct DeviceTimes {
  std::vector<double> total, self;
  double outside = 0;
};

DeviceTimes device_times(const ProfileLog& log, const DeviceMarks& marks, QueueMark last) {
  DeviceTimes times{std::vector<double>(log.events.size()), std::vector<double>(log.events.size())};
  if (!marks.timed()) return times;
  if (last) times.outside = marks.seconds(marks.first(), last);
  for (std::size_t i = 0; i < log.events.size(); ++i) {
    const ProfileEvent& event = log.events[i];
    if (!event.device_begin || !event.device_end) continue;
    times.total[i] = marks.seconds(event.device_begin, event.device_end);
    times.self[i] += times.total[i];
    // events that are not timed pass their nested events on to those around them
    std::int32_t outer = event.parent;
    while (outer >= 0 && times.total[static_cast<std::size_t>(outer)] == 0)
      outer = log.events[static_cast<std::size_t>(outer)].parent;
    (outer >= 0 ? times.self[static_cast<std::size_t>(outer)] : times.outside) -= times.total[i];
  }
  for (double& self : times.self) self = std::max(self, 0.0);
  times.outside = std::max(times.outside, 0.0);
  return times;
}

/** Identifies a row. Rows of modules have no kind and no name. */
struct RowKey {
  std::string_view module;
  std::uint32_t name;
  ProfileKind kind;
  bool backward;
  friend bool operator<(const RowKey& a, const RowKey& b) {
    return std::tie(a.module, a.name, a.kind, a.backward) <
           std::tie(b.module, b.name, b.kind, b.backward);
  }
};

class Rows {
 public:
  Rows(const ProfileLog& log, std::int64_t end, ProfileGroup group_by, const Roof* roof)
      : log_(log), end_(end), group_by_(group_by), roof_(roof) {}

  void add(const DeviceTimes& device) {
    const std::vector<std::int64_t> self = self_times(log_, end_);
    std::vector<std::size_t> row_of(log_.events.size());
    for (std::size_t i = 0; i < log_.events.size(); ++i) {
      const ProfileEvent& event = log_.events[i];
      row_of[i] = place_of(key_of(event));
      ProfileRow& row = rows_[row_of[i]];
      ++row.calls;
      row.self_s += seconds(self[i]);
      row.device_self_s += device.self[i];
      row.flops += event.flops;
      row.bytes += event.bytes;
      row.allocated += event.allocated;
      if (roof_) row.floor_s += roof_->seconds({event.flops, event.bytes}, event.dtype);
      // An event inside another one of its row is part of that one's time.
      bool counted = false;
      for (std::int32_t outer = event.parent; outer >= 0 && !counted;
           outer = log_.events[static_cast<std::size_t>(outer)].parent)
        counted = row_of[static_cast<std::size_t>(outer)] == row_of[i];
      if (counted) continue;
      row.total_s += seconds(duration(event, end_));
      row.device_total_s += device.total[i];
    }
  }

  /** Sets the totals of modules, and adds rows for modules that only have submodules. */
  void sum_submodules() {
    const std::vector<ProfileRow> own = rows_;
    for (ProfileRow& row : rows_) row.total_s = row.device_total_s = 0;
    for (const ProfileRow& part : own) {
      std::string_view path = part.module;
      while (true) {
        ProfileRow& row = rows_[place_of({kept(path), 0, ProfileKind::module, part.backward})];
        row.total_s += part.self_s;
        row.device_total_s += part.device_self_s;
        const std::size_t dot = path.rfind('.');
        if (dot == std::string_view::npos) break;
        path = path.substr(0, dot);
      }
    }
  }

  void add_outside(const DeviceTimes& device) {
    std::int64_t outside = end_;
    for (std::size_t i = 0; i < log_.events.size(); ++i)
      if (log_.events[i].parent < 0) outside -= duration(log_.events[i], end_);
    ProfileRow& row = rows_.emplace_back();
    row.kind = ProfileKind::outside;
    row.op = kOutside;
    row.self_s = row.total_s = seconds(outside);
    row.device_self_s = row.device_total_s = device.outside;
    row.allocated = log_.outside_allocated;
  }

  std::vector<ProfileRow> take() { return std::move(rows_); }

 private:
  RowKey key_of(const ProfileEvent& event) const {
    const std::string_view module =
        group_by_ == ProfileGroup::op ? std::string_view() : log_.modules[event.module];
    if (group_by_ == ProfileGroup::module) return {module, 0, ProfileKind::module, event.backward};
    return {module, event.name, event.kind, event.backward};
  }

  std::size_t place_of(const RowKey& key) {
    const auto [place, is_new] = places_.try_emplace(key, rows_.size());
    if (is_new) {
      ProfileRow& row = rows_.emplace_back();
      row.kind = key.kind;
      if (key.kind != ProfileKind::module) row.op = log_.names[key.name];
      row.module = key.module;
      row.backward = key.backward;
    }
    return place->second;
  }

  /** Returns the same text with the lifetime of this object. */
  std::string_view kept(std::string_view path) { return kept_[kept_.number(path)]; }

  const ProfileLog& log_;
  const std::int64_t end_;
  const ProfileGroup group_by_;
  const Roof* const roof_;
  std::vector<ProfileRow> rows_;
  std::map<RowKey, std::size_t> places_;
  TextTable kept_;
};

}  // namespace

std::vector<std::int64_t> self_times(const ProfileLog& log, std::int64_t end) {
  std::vector<std::int64_t> self(log.events.size());
  for (std::size_t i = 0; i < log.events.size(); ++i) {
    const ProfileEvent& event = log.events[i];
    const std::int64_t time = duration(event, end);
    self[i] += time;
    if (event.parent >= 0) self[static_cast<std::size_t>(event.parent)] -= time;
  }
  return self;
}

std::vector<ProfileRow> rows_of(const ProfileLog& log, const DeviceMarks& marks, QueueMark last,
                                std::int64_t end, ProfileGroup group_by, const Roof* roof) {
  const DeviceTimes device = device_times(log, marks, last);
  Rows rows(log, end, group_by, roof);
  rows.add(device);
  if (group_by == ProfileGroup::module) rows.sum_submodules();
  rows.add_outside(device);
  std::vector<ProfileRow> result = rows.take();
  std::stable_sort(result.begin(), result.end(), [](const ProfileRow& a, const ProfileRow& b) {
    return a.self_time() > b.self_time();
  });
  return result;
}

std::vector<MemorySample> timeline_of(const ProfileLog& log) {
  std::vector<MemorySample> samples, latest;
  for (const ProfileLog::Memory& memory : log.devices) {
    MemorySample& sample = latest.emplace_back();
    sample.device = memory.device;
    for (const MemoryUse& use : memory.at_start.by_category) sample.current.push_back(use.current);
  }
  samples = latest;
  for (std::size_t i = 0; i < log.memory.size(); ++i) {
    const MemoryChange& change = log.memory[i];
    MemorySample& sample = latest[change.device];
    sample.seconds = seconds(change.time);
    sample.current[static_cast<std::size_t>(change.category)] = change.current;
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace mezzo::detail
