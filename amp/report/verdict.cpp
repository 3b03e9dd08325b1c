#include "verdict.h"

#include "../../tensor/text/text.h"
#include "findings.h"

namespace mezzo::amp::report {

namespace {

Finding healthy(const std::string& low) {
  return {.kind = "healthy",
          .severity = "good",
          .text = str("Nothing is lost", low.empty() ? "" : str(" in ", low),
                      ": no gradient underflows, nothing overflows, and every update is kept.")};
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
  if (findings.empty() && !run.samples.empty()) findings.push_back(healthy(evidence.low));
  if (!run.complete) findings.push_back(truncated(run.steps.size()));
  return findings;
}

}  // namespace mezzo::amp::report
