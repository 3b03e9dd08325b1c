// The rules on runs in f32: whether f16 would do, and with which loss scale.
#include <cmath>

#include "../../tensor/text/text.h"
#include "findings.h"

namespace mezzo::amp::report {

namespace {

/** Returns the first number too large for f16 that casts would round to f16; null if none. */
const SampleRow* first_too_large(const Evidence& evidence) {
  for (const JudgedRow& judged : evidence.rows) {
    const SampleRow& row = *judged.row;
    const bool is_cast = (row.kind == Kind::activation && judged.is_low) ||
                         (row.kind == Kind::weight && evidence.low_parameters.contains(row.name));
    if (is_cast && greatest_exponent(row.histogram).value_or(0) >= kF16FirstInfinite) return &row;
  }
  return nullptr;
}

Finding too_large(const SampleRow& row) {
  return {
      .kind = "needs_bf16",
      .severity = "hint",
      .text = str("f16 is too narrow: ", row.name, " reaches 2^", *greatest_exponent(row.histogram),
                  ", and f16 ends below 2^16. Use bf16 (", kCastsToBf16, ")."),
      .names = {row.name},
      .level = std::string(kCastsToBf16)};
}

Finding too_wide(const ScaleWindow& window) {
  Finding finding{.kind = "needs_bf16",
                  .severity = "hint",
                  .text = "The gradients span more than f16 holds.",
                  .names = {window.least_name, window.most_name}};
  suggest_scale(finding, window);
  return finding;
}

Finding fits(const ScaleWindow& window) {
  return {
      .kind = "fine_in_f16",
      .severity = "hint",
      .text = str("f16 would do (", kCastsToF16,
                  "): activations stay below 65504, and with a loss scale between 2^", window.least,
                  " and 2^", window.most, " no gradient underflows or overflows; 2^",
                  window.suggestion(), " leaves room."),
      .level = std::string(kCastsToF16),
      .loss_scale = std::ldexp(1.0, window.suggestion())};
}

}  // namespace

void suggest_scale(Finding& finding, const ScaleWindow& window) {
  if (window.is_unknown()) return;
  if (window.is_empty()) {
    finding.text += str(" No loss scale suits all gradients: ", window.least_name,
                        " needs at least 2^", window.least, ", ", window.most_name, " at most 2^",
                        window.most, ". Use bf16 (", kCastsToBf16, ").");
    finding.level = kCastsToBf16;
    return;
  }
  finding.loss_scale = std::ldexp(1.0, window.suggestion());
  finding.text += str(" A loss scale between 2^", window.least, " and 2^", window.most,
                      " keeps all gradients; 2^", window.suggestion(), " leaves room.");
}

void find_needed_dtype(const Evidence& evidence, std::vector<Finding>& findings) {
  if (!evidence.low.empty() || evidence.rows.empty() || !findings.empty()) return;
  if (const SampleRow* row = first_too_large(evidence)) {
    findings.push_back(too_large(*row));
    return;
  }
  const ScaleWindow window = evidence.window();
  if (window.is_unknown()) return;  // no gradient
  findings.push_back(window.is_empty() ? too_wide(window) : fits(window));
}

}  // namespace mezzo::amp::report
