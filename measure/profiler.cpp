#include "profiler.h"

#include <optional>

#include "../tensor/io/atomic_file.h"
#include "profile_recorder.h"
#include "profile_rows.h"

namespace mezzo {

struct Profiler::State {
  explicit State(const ProfilerOptions& options) : marks(options.device) {
    for (const Device it : {cpu, options.device})
      if (log.devices.empty() || it != cpu)
        log.devices.push_back({it, &allocator_for(it), memory_stats(it)});
    recorder.emplace(log, marks, start, options.single_ops);
  }

  /** Returns the nanoseconds from construction to stop(), or until now. */
  std::int64_t end() const { return recorder ? detail::clock_ns() - start : log.end; }

  detail::ProfileLog log;
  detail::DeviceMarks marks;
  std::int64_t start = detail::clock_ns();
  QueueMark last = nullptr;                         // of the device, at stop()
  std::optional<detail::ProfileRecorder> recorder;  // empty after stop()
};

namespace {

void write_file(std::string_view operation, const std::string& path, std::string_view text) {
  io::AtomicFile file(operation, path);
  file.write(text);
  file.commit();
}

}  // namespace

std::string ProfileRow::name() const {
  return module.empty() ? op : op.empty() ? module : module + "." + op;
}

Profiler::Profiler(const ProfilerOptions& options) : state_(new State(options)) {}

Profiler::~Profiler() = default;

void Profiler::stop() {
  if (!state_->recorder) return;
  state_->log.end = state_->end();
  state_->last = state_->marks.place();
  state_->recorder.reset();
}

double Profiler::seconds() const { return static_cast<double>(state_->end()) * 1e-9; }

std::vector<ProfileRow> Profiler::rows(ProfileGroup group_by, const Roof* roof) const {
  const std::int64_t end = state_->end();
  const QueueMark last = state_->recorder ? state_->marks.place() : state_->last;
  return detail::rows_of(state_->log, state_->marks, last, end, group_by, roof);
}

std::string Profiler::table(const ProfileTableOptions& options) const {
  return detail::table_of(rows(options.group_by, options.roof), options);
}

std::vector<MemorySample> Profiler::memory_timeline() const {
  return detail::timeline_of(state_->log);
}

void Profiler::chrome_trace(const std::string& path) const {
  write_file("Profiler.chrome_trace", path,
             detail::chrome_trace_of(state_->log, state_->marks, state_->end()));
}

void Profiler::stacks(const std::string& path) const {
  write_file("Profiler.stacks", path, detail::stacks_of(state_->log, state_->end()));
}

}  // namespace mezzo
