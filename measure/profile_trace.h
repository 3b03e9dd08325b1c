// The events of a profile as files: Trace Event Format, folded stacks.
#pragma once

#include <string>

#include "device_marks.h"
#include "profile_log.h"

namespace mezzo::detail {

/** Returns the text of Profiler::chrome_trace(): a JSON object, whose key traceEvents holds the
 *  events. Source of the format: "Trace Event Format", Google, 2016. Errors: CudaError. */
std::string chrome_trace_of(const ProfileLog& log, const DeviceMarks& marks, std::int64_t end);

/** Returns the text of Profiler::stacks(): a line "frame;frame;frame NANOSECONDS" per stack. */
std::string stacks_of(const ProfileLog& log, std::int64_t end);

}  // namespace mezzo::detail
