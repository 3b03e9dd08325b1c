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

/** Replaces the process's sink and returns the previous one. The default writes to stderr; an empty
 *  function disables the log. */
MZ_API LogSink set_log_sink(LogSink sink);

/** Passes each line of `text` to the sink. Exceptions of the sink are ignored, so that logging
 *  cannot break the caller. */
MZ_API void log_text(Severity severity, std::string_view text) noexcept;

}  // namespace mezzo
