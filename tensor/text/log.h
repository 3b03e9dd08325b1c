// The library's log: lines of text with a severity, passed to a sink that the program chooses.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "../core/macros.h"

namespace mezzo {

/** The severity of a log line. */
enum class Severity : std::uint8_t { info, warning, error };

/** A function that receives one line without its line break. It is called by one thread at a time,
 *  and must not log itself. */
using LogSink = std::function<void(Severity severity, std::string_view line)>;

/** Replaces the process's sink and returns the previous one. The default writes to stderr; on
 *  ranks other than 0 only warnings and errors, which then begin with "[rank 3] ". Other sinks get
 *  all lines of their process as they are. An empty function disables the log. */
MZ_API LogSink set_log_sink(LogSink sink);

/** Passes each line of `text` to the sink. Exceptions of the sink are ignored, so that logging
 *  cannot break the caller. */
MZ_API void log_text(Severity severity, std::string_view text) noexcept;

/** Returns this process's number among those that comm::init() has connected; 0 before that call
 *  and in a process alone. A sink may call it. */
MZ_API int log_rank() noexcept;

namespace detail {
/** Sets log_rank(). Called by comm::init(). */
MZ_API void set_log_rank(int rank) noexcept;
}  // namespace detail

}  // namespace mezzo
