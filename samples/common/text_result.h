// What is said in the end of a net that has learned a text.
// Sees: run.h.
// Read next: ../char_gpt.cpp, ../char_lstm.cpp.
#pragma once

#include <string>

#include "run.h"

namespace samples {

/** Into the run's report: the mean cost of a character that was not trained on, in nats and in bits. */
void note_nats(Run& run, double nats);

/** The program's last lines. */
std::string text_result(const std::string& program, const std::string& level, const RunFigures& figures,
                        double nats);

}  // namespace samples
