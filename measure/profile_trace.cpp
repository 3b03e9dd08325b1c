
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "../tensor/io/utf8.h"
#include "../tensor/text/text.h"
#include "profile_rows.h"

namespace mezzo::detail {

namespace {

// Rows of the trace; a device and its memory are of the same process.
constexpr int kProcess = 1, kOps = 1, kModules = 2, kDevice = 3;

/** Returns nanoseconds as microseconds: "12.345". */
std::string micros(std::int64_t nanoseconds) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%lld.%03d", static_cast<long long>(nanoseconds / 1000),
                static_cast<int>(nanoseconds % 1000));
  return text.data();
}

std::string whole(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.0f", value);
  return text.data();
}

std::string_view category_of(const ProfileEvent& event) {
  if (event.kind == ProfileKind::range) return "range";
  return event.backward ? "backward" : "forward";
}

/** Writes the events of a trace. */
class TraceText {
 public:
  TraceText(const ProfileLog& log, const DeviceMarks& marks, std::int64_t end)
      : log_(log), marks_(marks), end_(end) {}

  std::string text() {
    out_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    name_row("process_name", kOps, "mezzo");
    name_row("thread_name", kOps, "ops");
    name_row("thread_name", kModules, "modules");
    if (marks_.timed()) name_row("thread_name", kDevice, str(marks_.device()));
    for (std::size_t i = 0; i < log_.events.size(); ++i) add_op(log_.events[i]);
    add_modules();
    if (marks_.timed())
      for (std::size_t i = 0; i < log_.events.size(); ++i) add_device_op(log_.events[i]);
    add_memory();
    return std::move(out_) + "\n]}\n";
  }

 private:
  void begin_event() {
    out_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
  }

  void name_row(std::string_view what, int row, std::string_view name) {
    begin_event();
    out_ += str("{\"ph\":\"M\",\"name\":", io::json_string(what), ",\"pid\":", kProcess,
                ",\"tid\":", row, ",\"ts\":0,\"args\":{\"name\":", io::json_string(name), "}}");
  }

  /** Adds a complete event; the caller adds its arguments and closes it. */
  void begin_complete(int row, std::string_view name, std::string_view category, std::int64_t begin,
                      std::int64_t duration) {
    begin_event();
    out_ += str("{\"ph\":\"X\",\"name\":", io::json_string(name),
                ",\"cat\":", io::json_string(category), ",\"pid\":", kProcess, ",\"tid\":", row,
                ",\"ts\":", micros(begin), ",\"dur\":", micros(duration));
  }

  std::int64_t end_of(const ProfileEvent& event) const {
    return event.end == ProfileEvent::kOpen ? end_ : event.end;
  }

  void add_tensors(std::string_view key, std::span<const TensorRecord> tensors) {
    if (tensors.empty()) return;
    out_ += str(",", io::json_string(key), ":[");
    for (std::size_t i = 0; i < tensors.size(); ++i)
      out_ +=
          (i > 0 ? "," : "") +
          io::json_string(tensors[i].defined ? str(tensors[i].dtype, tensors[i].shape) : "none");
    out_ += "]";
  }

  void add_op(const ProfileEvent& event) {
    begin_complete(kOps, log_.names[event.name], category_of(event), event.begin,
                   end_of(event) - event.begin);
    out_ += str(",\"args\":{\"module\":", io::json_string(log_.modules[event.module]));
    const std::vector<TensorRecord> tensors = log_.tensors_of(event);
    const bool is_rule = event.kind == ProfileKind::rule;
    add_tensors(is_rule ? "output gradients" : "inputs", std::span(tensors).first(event.inputs));
    add_tensors(is_rule ? "input gradients" : "outputs", std::span(tensors).subspan(event.inputs));
    if (event.flops > 0) out_ += ",\"flops\":" + whole(event.flops);
    if (event.bytes > 0) out_ += ",\"bytes\":" + whole(event.bytes);
    if (event.allocated > 0) out_ += str(",\"allocated\":", event.allocated);
    out_ += "}}";
  }

  void add_device_op(const ProfileEvent& event) {
    if (!event.device_begin || !event.device_end) return;
    const auto ns = [&](QueueMark from, QueueMark to) {
      return std::max<std::int64_t>(0, std::llround(1e9 * marks_.seconds(from, to)));
    };
    begin_complete(kDevice, log_.names[event.name], category_of(event),
                   ns(marks_.first(), event.device_begin),
                   ns(event.device_begin, event.device_end));
    out_ += str(",\"args\":{\"module\":", io::json_string(log_.modules[event.module]), "}}");
  }

  /** A module that is shown as running. */
  struct OpenModule {
    std::string path;
    std::string_view category;
    std::int64_t begin;
  };
  struct ModuleSpan {
    OpenModule module;
    std::int64_t end;
  };

  /** Returns the paths of a module and of those that contain it, outermost first: "encoder" and
   *  "encoder.fc1" for "encoder.fc1". */
  static std::vector<std::string> paths_to(const std::string& module) {
    std::vector<std::string> paths;
    for (std::size_t dot = 0; dot != std::string::npos && !module.empty();) {
      dot = module.find('.', dot == 0 && paths.empty() ? 0 : dot + 1);
      paths.push_back(module.substr(0, dot));
    }
    return paths;
  }

  /** Adds each module from the first to the last of consecutive outermost ops that run in it. */
  void add_modules() {
    std::vector<OpenModule> open;
    std::vector<ModuleSpan> spans;
    std::int64_t last_end = 0;
    const auto close_to = [&](std::size_t depth) {
      for (; open.size() > depth; open.pop_back()) spans.push_back({open.back(), last_end});
    };
    for (std::size_t i = 0; i < log_.events.size(); ++i) {
      const ProfileEvent& event = log_.events[i];
      const bool is_range = event.kind == ProfileKind::range;
      const bool nested =
          event.parent >= 0 &&
          log_.events[static_cast<std::size_t>(event.parent)].kind != ProfileKind::range;
      if (nested) continue;
      const std::vector<std::string> paths = paths_to(log_.modules[event.module]);
      const std::string_view category = event.backward ? "backward" : "forward";
      std::size_t same = 0;
      while (same < open.size() && same < paths.size() && open[same].path == paths[same] &&
             open[same].category == category)
        ++same;
      close_to(same);
      for (; same < paths.size(); ++same) open.push_back({paths[same], category, event.begin});
      if (!is_range) last_end = end_of(event);
    }
    close_to(0);
    std::stable_sort(spans.begin(), spans.end(), [](const ModuleSpan& a, const ModuleSpan& b) {
      return a.module.begin != b.module.begin ? a.module.begin < b.module.begin : a.end > b.end;
    });
    for (const ModuleSpan& span : spans) {
      const std::string& path = span.module.path;
      begin_complete(kModules, path.substr(path.rfind('.') + 1), span.module.category,
                     span.module.begin, std::max<std::int64_t>(0, span.end - span.module.begin));
      out_ += str(",\"args\":{\"module\":", io::json_string(path), "}}");
    }
  }

  /** Adds the memory in use by category as counters. Categories that are never in use are left
   *  out. */
  void add_memory() {
    for (std::size_t device = 0; device < log_.devices.size(); ++device) {
      std::array<std::int64_t, kNumMemoryCategories> current{};
      std::array<bool, kNumMemoryCategories> used{};
      for (std::size_t i = 0; i < kNumMemoryCategories; ++i) {
        current[i] = log_.devices[device].at_start.by_category[i].current;
        used[i] = current[i] > 0;
      }
      for (std::size_t i = 0; i < log_.memory.size(); ++i)
        if (log_.memory[i].device == device)
          used[static_cast<std::size_t>(log_.memory[i].category)] = true;
      add_counter(device, 0, current, used);
      for (std::size_t i = 0; i < log_.memory.size(); ++i) {
        const MemoryChange& change = log_.memory[i];
        if (change.device != device) continue;
        current[static_cast<std::size_t>(change.category)] = change.current;
        add_counter(device, change.time, current, used);
      }
    }
  }

  void add_counter(std::size_t device, std::int64_t time,
                   const std::array<std::int64_t, kNumMemoryCategories>& current,
                   const std::array<bool, kNumMemoryCategories>& used) {
    begin_event();
    out_ += str(
        "{\"ph\":\"C\",\"name\":", io::json_string(str("memory of ", log_.devices[device].device)),
        ",\"pid\":", kProcess, ",\"tid\":", kOps, ",\"ts\":", micros(time), ",\"args\":{");
    const char* separator = "";
    for (std::size_t i = 0; i < kNumMemoryCategories; ++i) {
      if (!used[i]) continue;
      out_ +=
          str(separator, io::json_string(name(static_cast<MemoryCategory>(i))), ":", current[i]);
      separator = ",";
    }
    out_ += "}}";
  }

  const ProfileLog& log_;
  const DeviceMarks& marks_;
  const std::int64_t end_;
  std::string out_;
  bool is_first_ = true;
};

/** Returns a frame without the characters that separate frames and lines. */
std::string frame(std::string text) {
  std::replace(text.begin(), text.end(), ';', ',');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string frames_of_module(std::string_view path) {
  std::string frames(path);
  std::replace(frames.begin(), frames.end(), '.', ';');
  return frames;
}

/** Returns the modules of an event that are not yet in the stack of the event around it. */
std::string_view inner_path(std::string_view path, std::string_view outer) {
  if (path == outer) return {};
  const bool inside = !outer.empty() && path.starts_with(outer) && path[outer.size()] == '.';
  return inside ? path.substr(outer.size() + 1) : path;
}

}  // namespace

std::string chrome_trace_of(const ProfileLog& log, const DeviceMarks& marks, std::int64_t end) {
  return TraceText(log, marks, end).text();
}

std::string stacks_of(const ProfileLog& log, std::int64_t end) {
  const std::vector<std::int64_t> self = self_times(log, end);
  std::map<std::string, std::int64_t> sums;
  std::vector<std::string> stacks(log.events.size());
  std::int64_t outside = end;
  for (std::size_t i = 0; i < log.events.size(); ++i) {
    const ProfileEvent& event = log.events[i];
    const bool is_outermost = event.parent < 0;
    if (is_outermost) outside -= (event.end == ProfileEvent::kOpen ? end : event.end) - event.begin;
    const std::string& module = log.modules[event.module];
    std::string stack = is_outermost ? (event.kind == ProfileKind::range ? "" : "forward")
                                     : stacks[static_cast<std::size_t>(event.parent)];
    const std::string_view outer =
        is_outermost ? std::string_view()
                     : log.modules[log.events[static_cast<std::size_t>(event.parent)].module];
    for (const std::string& part :
         {frames_of_module(inner_path(module, outer)), frame(log.names[event.name])})
      if (!part.empty()) stack += (stack.empty() ? "" : ";") + part;
    sums[stack] += self[i];
    stacks[i] = std::move(stack);
  }
  sums[kOutside] += outside;
  std::string out;
  for (const auto& [stack, nanoseconds] : sums) out += str(stack, " ", nanoseconds, "\n");
  return out;
}

}  // namespace mezzo::detail
