// The one outlet for what the library has to say: lines of text with a severity, to a sink that the program chooses.
// Sees: the standard library only.
// Read next: error.h (what is thrown instead).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "macros.h"

namespace mezzo {

enum class Severity : std::uint8_t { info, warning, error };

/** Receives one line, without its line break. Called by one thread at a time; must not log itself. */
using LogSink = std::function<void(Severity severity, std::string_view line)>;

/** Replaces the process's sink and returns the former one. The default writes to stderr; an empty function silences the library. */
MZ_API LogSink set_log_sink(LogSink sink);

/** Hands each line of `text` to the sink. What the sink throws is swallowed: a report never breaks what it reports on. */
MZ_API void log_text(Severity severity, std::string_view text) noexcept;

}  // namespace mezzo
