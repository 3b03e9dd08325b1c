// rows_of(): the events of a profile as rows.
#pragma once

#include <vector>

#include "device_marks.h"
#include "profile_log.h"

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

}  // namespace mezzo::detail
