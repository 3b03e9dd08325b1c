// Profiler: where the time, the arithmetic and the memory of a program go, by op and by module.
//
//   Profiler profile;
//   for (int i = 0; i < 10; ++i) train_step();
//   profile.stop();
//   std::cout << profile.table({.rows = 10});
//   profile.chrome_trace("trace.json");  // opens in ui.perfetto.dev and chrome://tracing
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../tensor/core/macros.h"
#include "../tensor/core/pointers.h"
#include "../tensor/device/device.h"

namespace mezzo {

struct Roof;

/** Options of Profiler. */
struct ProfilerOptions {
  /** A device whose work is timed by events in the queue of this thread; the CPU for none. */
  Device device = Device::best();
  /** Run fused ops one by one, so that each has a row in its module. They take longer than fused.
   */
  bool single_ops = false;
};

/** What a row of a profile is about. */
enum class ProfileKind : std::uint8_t {
  op,      // one call of an op
  rule,    // the backward rule of an op
  range,   // a TraceRange: work of the library or the program that is not an op, as "Adam.step"
  module,  // all of these in a module
  outside  // time of the scope outside all of these
};

/** What the rows of a profile are about. */
enum class ProfileGroup : std::uint8_t { op, module, op_and_module };

/** By what the rows of a table are sorted, largest first. */
enum class ProfileSort : std::uint8_t {
  self_time,   // of the device if one is timed, else of the host
  total_time,  // likewise
  calls,
  flops,
  bytes,
  allocated
};

/** Options of Profiler::table. */
struct ProfileTableOptions {
  ProfileSort sort_by = ProfileSort::self_time;  // the order of the rows
  std::size_t rows = 30;                         // more rows become one row, "other rows"
  ProfileGroup group_by = ProfileGroup::op;      // what a row is about
  const Roof* roof = nullptr;  // adds the share of this roof; null: no such column
};

/** Figures of an op, a module or an op in a module. Forward and backward passes have rows of their
 *  own. */
struct MZ_API ProfileRow {
  ProfileKind kind = ProfileKind::op;  // what the row is about
  /** "linear" (op), "linear backward" (rule), "Adam.step" (range), "outside ops"; empty for a
   *  module. */
  std::string op;
  std::string module;          // dotted path; empty outside modules, and where rows are about ops
  bool backward = false;       // runs in a backward pass
  std::int64_t calls = 0;      // how often it ran
  double self_s = 0;           // seconds on the host, apart from nested ops, rules and ranges
  double total_s = 0;          // seconds on the host, with them; of a module: with its submodules
  double device_self_s = 0;    // as self_s, by events of the device; 0 if none is timed
  double device_total_s = 0;   // as total_s, likewise
  double flops = 0;            // multiplications and additions of products, without nested ops
  double bytes = 0;            // of operands and results, without nested ops
  double floor_s = 0;          // least seconds for flops and bytes by the roof; 0 without a roof
  std::int64_t allocated = 0;  // bytes allocated by this thread, without nested ops

  /** Returns the seconds that rates and shares refer to: of the device if timed, else the host. */
  double self_time() const { return device_self_s > 0 ? device_self_s : self_s; }
  /** Returns "linear", "fc1.linear", "fc1". */
  std::string name() const;
};

/** Memory in use at one time, by MemoryCategory. */
struct MemorySample {
  double seconds = 0;                 // since the profiler was opened
  Device device;                      // whose memory it is
  std::vector<std::int64_t> current;  // bytes in use, one number per MemoryCategory
};

/** Scope that records every op, backward rule and TraceRange of the thread that opens it; those of
 *  other threads are not seen. Values do not change, and ops run fused as they do without it,
 * unless options or another trace hook ask for single ops. Each event costs about 0.3 us and 200
 * bytes until the profiler is destroyed. Profilers nest; the inner one must be destroyed or stopped
 *  first. A replayed graph (gpu::Graph) has no events of ops. */
class MZ_API Profiler {
 public:
  /** Starts recording. Errors: DeviceError for a device that does not exist. */
  explicit Profiler(const ProfilerOptions& options = {});
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /** Ends recording; a second call does nothing. Without it, the following functions report what
   *  has been recorded up to their call. */
  void stop();

  /** Returns the seconds from construction to stop(), or until now. */
  double seconds() const;
  /** Returns all rows, by self time, and one for the time outside of ops, rules and ranges. Their
   *  self times add up to seconds(). Waits for the timed device. Errors: CudaError. */
  std::vector<ProfileRow> rows(ProfileGroup group_by = ProfileGroup::op,
                               const Roof* roof = nullptr) const;
  /** Returns the rows as text. The row "outside ops" and the sum are always there. Waits for the
   *  timed device. Errors: CudaError. */
  std::string table(const ProfileTableOptions& options = {}) const;
  /** Returns the memory in use: at the start, and after each change by this thread. Memory is that
   *  of all threads, of the CPU and of the timed device. */
  std::vector<MemorySample> memory_timeline() const;

  /** Writes all events in the Trace Event Format of Chrome, which ui.perfetto.dev opens: ops with
   *  module, dtypes, shapes and work; modules, each from the first to the last of consecutive ops;
   *  ops of the timed device; memory in use by category. Times are in microseconds. Errors:
   * IoError; CudaError. */
  void chrome_trace(const std::string& path) const;
  /** Writes self times in nanoseconds by stack of modules and ops, in the folded format of flame
   *  graph tools (flamegraph.pl, speedscope.app), such as "forward;encoder;fc1;linear 5120".
   *  Errors: IoError. */
  void stacks(const std::string& path) const;

 private:
  struct State;
  Owner<State> state_;
};

}  // namespace mezzo
