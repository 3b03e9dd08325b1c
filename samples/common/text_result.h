// Results of a net that was trained on a text.
#pragma once

#include <string>

#include "run.h"

namespace samples {

/** Adds the mean validation loss per character to the run's report, in nats and in bits. */
void note_nats(Run& run, double nats);

/** Returns the last lines that the program prints. */
std::string text_result(const std::string& program, const std::string& level,
                        const RunFigures& figures, double nats);

}  // namespace samples
