// The events of a profile as rows, as a table and as a trace.
#pragma once

#include <string>
#include <vector>

#include "device_marks.h"
#include "profile_log.h"
#include "profiler.h"

namespace mezzo::detail {

/** The name of the row for the time outside of all events. */
inline constexpr const char* kOutside = "outside ops";

/** Returns the nanoseconds of each event, apart from nested events; of one that is still running
 *  until `end`. */
std::vector<std::int64_t> self_times(const ProfileLog& log, std::int64_t end);

/** Returns the rows of Profiler::rows(). `last` is the device's mark at `end`; null if no device is
 *  timed. Errors: CudaError. */
std::vector<ProfileRow> rows_of(const ProfileLog& log, const DeviceMarks& marks, QueueMark last,
                                std::int64_t end, ProfileGroup group_by, const Roof* roof);

/** Returns the samples of Profiler::memory_timeline(). */
std::vector<MemorySample> timeline_of(const ProfileLog& log);

/** Returns the table of Profiler::table(), one line per row, columns aligned. Columns without
 *  figures are left out. */
std::string table_of(std::vector<ProfileRow> rows, const ProfileTableOptions& options);

/** Returns the text of Profiler::chrome_trace(): a JSON object, whose key traceEvents holds the
 *  events. Source of the format: "Trace Event Format", Google, 2016. Errors: CudaError. */
std::string chrome_trace_of(const ProfileLog& log, const DeviceMarks& marks, std::int64_t end);

/** Returns the text of Profiler::stacks(): a line "frame;frame;frame NANOSECONDS" per stack. */
std::string stacks_of(const ProfileLog& log, std::int64_t end);

}  // namespace mezzo::detail
