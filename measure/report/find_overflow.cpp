// The rules on infinite and NaN numbers.
#include <algorithm>
#include <cmath>
#include <set>

#include "../../tensor/text/text.h"
#include "findings.h"

namespace mezzo::amp::report {

namespace {

/** Share of skipped steps that growth of a dynamic loss scale does not explain. */
constexpr double kMostSkipped = 0.05;
/** Skipped steps at the start, while a dynamic loss scale falls from 2^24 or less. */
constexpr std::int64_t kSearch = 24;
/** Skipped steps from the start on that count although no step succeeds. */
constexpr std::int64_t kHopeless = 8;
/** Exponent from which on finite numbers are near the end of f16. */
constexpr int kNearTheEnd = 12;

bool is_bad(const Histogram& h) { return h.infinities + h.nans > 0; }

/** Returns true if the infinite results of an op in 16 bits stem from its arithmetic. A mask of
 *  -inf, or the logarithm of 0, has finite numbers far from the end of the range beside it. */
bool overflowed(const SampleRow& row, Precision tag) {
  if (row.kind != Kind::activation || !is_low(row.dtype) || row.histogram.infinities == 0)
    return false;
  const std::optional<int> top = greatest_exponent(row.histogram);
  return tag == Precision::low || tag == Precision::f32 || !top || *top >= kNearTheEnd;
}

std::string op_of(const CastEntry& cast) {
  return cast.module.empty() ? cast.op : str(cast.module, ' ', cast.op);
}

/** Returns the ops whose operands became infinite when they were cast. */
std::set<std::string> overflowed_casts(const RunData& run) {
  std::set<std::string> out;
  for (const CastEntry& cast : run.casts)
    if (cast.direction == CastDirection::forward && cast.overflowed > 0) out.insert(op_of(cast));
  return out;
}

/** The largest number of f16 and of bf16, as text. */
std::string largest_of(const std::string& low) { return low == "f16" ? "65504" : "3.39e38"; }

Finding cast_finding(const std::string& op, const std::string& low) {
  const bool is_f16 = low == "f16";
  return {.kind = "overflow",
          .severity = "problem",
          .text = str("An operand of ", op.empty() ? "the model" : op, " is infinite in ", low,
                      ": it is above ", largest_of(low), " before the cast. A loss scale does not ",
                      "help in the forward pass: divide the numbers",
                      is_f16 ? str(", or use bf16 (", kCastsToBf16, ").") : "."),
          .names = {op},
          .level = std::string(is_f16 ? kCastsToBf16 : "")};
}

/** Returns the first 16-bit weights that were infinite when the model was converted; null if
 *  none. */
const SampleRow* first_bad_weight(const RunData& run) {
  if (run.samples.empty()) return nullptr;
  for (const SampleRow& row : run.samples[0].rows)
    if (row.kind == Kind::weight && is_low(row.dtype) && is_bad(row.histogram)) return &row;
  return nullptr;
}

Finding weight_finding(const std::string& name, const std::string& low) {
  const bool is_f16 = low == "f16";
  return {.kind = "overflow",
          .severity = "problem",
          .text = str(
              "Weights of ", name, " are infinite in ", low, ": they were above ", largest_of(low),
              " before the model was converted. ",
              is_f16 ? str("Use bf16 (", kCastsToBf16, ").") : "The range of bf16 is that of f32."),
          .names = {name},
          .level = std::string(is_f16 ? kCastsToBf16 : "")};
}

Finding product_finding(const std::string& name, const std::string& low) {
  Finding finding{.kind = "overflow", .severity = "problem", .text = {}, .names = {name}};
  finding.text = str("The result of ", name, " overflows in ", low, ".");
  if (low == "f16") {
    finding.text +=
        str(" A number above 65504 is infinite in f16. A loss scale does not help in the forward "
            "pass: use bf16 (",
            kCastsToBf16, "), or keep the layer in f32.");
    finding.level = kCastsToBf16;
  } else {
    finding.text += " The range of bf16 is that of f32, so f32 does not help.";
  }
  return finding;
}

/** Returns true if a level converts the model to 16 bits and casts no ops. False for other runs,
 *  such as those under autocast. */
bool runs_ops_in_16_bits(const std::string& name) {
  const Level* level = find_level(name);
  return level && !level->patch_functions && is_low(level->cast_model_type.value_or(f32));
}

Finding tag_finding(const std::string& name, Precision tag, const Evidence& evidence) {
  const bool needs_casts = tag == Precision::f32 && runs_ops_in_16_bits(evidence.run.run.level);
  return {.kind = "wrong_tag",
          .severity = "problem",
          .text = str(name, " ran in ", evidence.low,
                      " and became infinite from finite operands. Its op is no matrix product: ",
                      needs_casts ? str("use ", kCastsToF16, ", which runs it in f32.")
                                  : "run it in f32 (amp::float_function, or leave its precision "
                                    "tag at f32)."),
          .names = {name},
          .level = std::string(needs_casts ? kCastsToF16 : "")};
}

/** Returns the first row of the activations of a step that has NaN or infinities; null if none. */
const SampleRow* first_bad_activation(const RunData& run, std::int64_t step) {
  for (const Sample& sample : run.samples)
    for (const SampleRow& row : sample.rows)
      if (sample.step >= step && row.kind == Kind::activation && is_bad(row.histogram)) return &row;
  return nullptr;
}

/** Returns true if a gradient was not finite in an earlier step. */
bool had_bad_gradients_before(const RunData& run, std::int64_t step) {
  for (const Sample& sample : run.samples)
    for (const SampleRow& row : sample.rows)
      if (sample.step < step && row.kind == Kind::weight_grad && is_bad(row.histogram)) return true;
  return false;
}

/** Returns the names of the weight gradients that are not finite. */
std::vector<std::string> bad_gradients(const Evidence& evidence) {
  std::vector<std::string> names;
  for (const JudgedRow& judged : evidence.rows)
    if (judged.row->kind == Kind::weight_grad && is_bad(judged.row->histogram) &&
        std::find(names.begin(), names.end(), judged.row->name) == names.end())
      names.push_back(judged.row->name);
  return names;
}

/** Counts of skipped steps. */
struct Skips {
  std::int64_t steps = 0, searching = 0, later = 0;

  explicit Skips(const Evidence& evidence) : steps(std::ssize(evidence.run.steps)) {
    while (searching < std::min(steps, kSearch) && evidence.was_skipped(searching)) ++searching;
    for (std::int64_t i = searching; i < steps; ++i) later += evidence.was_skipped(i);
  }
  bool are_too_many() const {
    const auto rest = static_cast<double>(std::max<std::int64_t>(1, steps - searching));
    const bool none_succeeds = searching == steps && steps > kHopeless;
    return none_succeeds || (later > 2 && static_cast<double>(later) / rest > kMostSkipped);
  }
};

}  // namespace

void find_forward_overflows(const Evidence& evidence, std::vector<Finding>& findings) {
  if (const SampleRow* row = first_bad_weight(evidence.run)) {
    findings.push_back(weight_finding(row->name, evidence.low));
    return;
  }
  const std::set<std::string> casts = overflowed_casts(evidence.run);
  for (const std::string& op : casts) findings.push_back(cast_finding(op, evidence.low));
  std::set<std::string> found;
  for (const Sample& sample : evidence.run.samples)
    for (const SampleRow& row : sample.rows) {
      const Precision tag = evidence.tag_of(row);
      if (!overflowed(row, tag)) continue;
      if (casts.empty() && found.insert(row.name).second)
        findings.push_back(tag == Precision::low ? product_finding(row.name, evidence.low)
                                                 : tag_finding(row.name, tag, evidence));
      break;  // what follows has infinite operands
    }
}

void find_bad_losses(const Evidence& evidence, std::vector<Finding>& findings) {
  if (evidence.first_bad_loss < 0 || !findings.empty()) return;
  const std::int64_t first =
      evidence.run.steps[static_cast<std::size_t>(evidence.first_bad_loss)].step;
  if (had_bad_gradients_before(evidence.run, first)) return;  // they spoilt the weights
  Finding finding{.kind = "bad_loss", .severity = "problem", .text = {}};
  finding.text = str("The loss is NaN or infinite from step ", first, " on");
  finding.text += evidence.low.empty() ? "."
                                       : str(", and no sampled result became infinite in ",
                                             evidence.low, ": look for the cause at O0.");
  if (const SampleRow* row = first_bad_activation(evidence.run, first)) {
    finding.text += str(" The first result that is not finite is that of ", row->name, ".");
    finding.names = {row->name};
  }
  findings.push_back(std::move(finding));
}

void find_gradient_overflows(const Evidence& evidence, std::vector<Finding>& findings) {
  if (evidence.low.empty() || !findings.empty()) return;  // infinite results have such gradients
  const Skips skips(evidence);
  const std::vector<std::string> names = bad_gradients(evidence);
  const bool is_static = evidence.run.run.loss_scale != "dynamic";
  if (!skips.are_too_many() && (!is_static || names.empty())) return;
  const std::int64_t skipped = skips.searching + skips.later;
  Finding finding{.kind = "overflow", .severity = "problem", .text = {}, .names = names};
  finding.text =
      skipped > 0
          ? str("Gradients overflow: ", skipped, " of ", skips.steps, " steps were skipped.")
          : str("Gradients became infinite or NaN, first of ", names.front(), ".");
  if (evidence.low == "f16") suggest_scale(finding, evidence.window());
  findings.push_back(std::move(finding));
}

}  // namespace mezzo::amp::report
