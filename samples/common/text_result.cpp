#include "text_result.h"

#include <cmath>

#include "table.h"

namespace samples {

namespace {

double bits(double nats) { return nats / std::log(2.0); }

}  // namespace

void note_nats(Run& run, double nats) {
  run.note("validation_nats", nats);
  run.note("validation_bits_per_character", bits(nats));
}

std::string text_result(const std::string& program, const std::string& level,
                        const RunFigures& figures, double nats) {
  const std::string name = program + " " + level + ": ";
  return name + fixed(figures.step_ms, 2) + " ms per step, peak memory " +
         bytes_text(static_cast<double>(figures.peak_bytes)) + "\n" + name + "validation " +
         fixed(nats, 4) + " nats, " + fixed(bits(nats), 4) + " bits per character; " +
         std::to_string(figures.steps) + " steps, " + std::to_string(figures.skipped_steps) +
         " skipped\n";
}

}  // namespace samples
