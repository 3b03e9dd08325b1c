
#include "../../tensor/text/text.h"
#include "findings.h"

namespace mezzo::amp::report {

namespace {

/** Returns a finding that says what a healthy run lost all the same. */
Finding healthy(const Evidence& evidence) {
  std::int64_t elements = 0, flushed = 0, skipped = 0;
  for (const CastEntry& cast : evidence.run.casts) {
    elements += cast.elements;
    flushed += cast.flushed;
  }
  for (std::int64_t i = 0; i < std::ssize(evidence.run.steps); ++i)
    skipped += evidence.was_skipped(i) ? 1 : 0;
  std::string text =
      str(flushed + skipped > 0 ? "Nothing that counts is lost" : "Nothing is lost",
          evidence.low.empty() ? "" : str(" in ", evidence.low),
          ": no gradient underflows, nothing overflows",
          skipped > 0 ? " but gradients of skipped steps" : "", ", and every update is kept.");
  if (flushed > 0)
    text += str(" Sampled casts made ", flushed, " of ", elements,
                " elements zero, each below half of the smallest 16-bit number; no gradient lost ",
                "1 % of its sum by it.");
  if (skipped > 0)
    text += str(" ", skipped, " of ", evidence.run.steps.size(),
                " steps were skipped: a dynamic loss scale finds its value by overflows.");
  return {.kind = "healthy", .severity = "good", .text = std::move(text)};
}

Finding truncated(std::size_t steps) {
  return {.kind = "truncated",
          .severity = "hint",
          .text = str("The record ends after ", steps, " steps: the program did not close it.")};
}

}  // namespace

std::vector<Finding> verdict(const RunData& run) {
  const Evidence evidence(run);
  std::vector<Finding> findings;
  for (const auto rule : {find_forward_overflows, find_bad_losses, find_gradient_overflows,
                          find_underflows, find_lost_updates, find_needed_dtype})
    rule(evidence, findings);
  if (findings.empty() && !run.samples.empty()) findings.push_back(healthy(evidence));
  if (!run.complete) findings.push_back(truncated(run.steps.size()));
  return findings;
}

}  // namespace mezzo::amp::report
