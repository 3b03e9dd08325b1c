// The rules on numbers that 16 bits are too coarse for.
#include <algorithm>
#include <cmath>
#include <map>

#include "../../tensor/text/text.h"
#include "findings.h"

namespace mezzo::amp::report {

namespace {

/** Share of the elements with a gradient that may keep their weight. */
constexpr double kMostLost = 0.25;

/** Shares by name of a tensor. */
using Shares = std::map<std::string, double>;

/** The largest of some shares. Requires at least one. */
const std::pair<const std::string, double>& largest(const Shares& shares) {
  return *std::max_element(shares.begin(), shares.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
}

std::vector<std::string> names_of(const Shares& shares) {
  std::vector<std::string> names;
  for (const auto& entry : shares) names.push_back(entry.first);
  return names;
}

bool is_all_zero(const Histogram& h) {
  return h.elements > 0 && count_finite_nonzero(h) == 0 && h.infinities + h.nans == 0;
}

/** Returns the worst error of each gradient, of those with too large a one. */
Shares coarse_gradients(const Evidence& evidence) {
  Shares worst;
  for (const JudgedRow& judged : evidence.rows) {
    if (!Evidence::is_low_gradient(judged)) continue;
    const SampleRow& row = *judged.row;
    // Gradients of f32 weights were rounded to f16 with the loss scale, before the cast back.
    const int shift = row.dtype == f16 ? 0 : judged.step_scale - exponent_of(row.scale);
    const double error = subnormal_error(row.histogram, shift);
    if (error > kMostUnderflow) worst[row.name] = std::max(worst[row.name], error);
  }
  return worst;
}

/** Returns true if gradients of 16-bit weights were recorded without loss scale, and had one that
 *  suits all gradients before. */
bool is_unscaled_in_f16(const Evidence& evidence, const ScaleWindow& window) {
  bool is_unscaled = false;
  for (const JudgedRow& judged : evidence.rows) {
    if (judged.row->kind != Kind::weight_grad) continue;
    if (judged.step_scale < window.least || judged.step_scale > window.most) return false;
    is_unscaled = is_unscaled ||
                  (judged.row->dtype == f16 && judged.row->scale == 1 && judged.step_scale != 0);
  }
  return is_unscaled;
}

/** Returns the gradients that are 0 everywhere in all samples. */
std::vector<std::string> zero_gradients(const Evidence& evidence) {
  std::map<std::string, bool> zero;
  for (const JudgedRow& judged : evidence.rows)
    if (Evidence::is_low_gradient(judged))
      zero.emplace(judged.row->name, true).first->second &= is_all_zero(judged.row->histogram);
  std::vector<std::string> names;
  for (const auto& [name, is_zero] : zero)
    if (is_zero) names.push_back(name);
  return names;
}

/** Returns true if a cast of a gradient to f16 made zeros. */
bool flushed_gradients(const RunData& run) {
  return std::any_of(run.casts.begin(), run.casts.end(), [](const CastEntry& cast) {
    return cast.direction == CastDirection::backward && cast.to == f16 && cast.flushed > 0;
  });
}

/** Returns for each 16-bit tensor the share of elements with a gradient that kept their value, in
 *  all samples together, if it is too large. Weights in f32, or with f32 masters, have updates in
 *  f32. */
Shares kept_weights(const Evidence& evidence) {
  std::map<std::pair<std::int64_t, std::string>, std::int64_t> no_gradient;
  for (const JudgedRow& judged : evidence.rows)
    if (judged.row->kind == Kind::weight_grad)
      no_gradient[{judged.step, judged.row->name}] = judged.row->histogram.zeros;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> counts;  // kept, with gradient
  for (const JudgedRow& judged : evidence.rows) {
    const SampleRow& row = *judged.row;
    if (row.kind != Kind::update || !is_low(row.dtype)) continue;
    const std::int64_t without = no_gradient[{judged.step, row.name}];
    auto& [kept, moving] = counts[row.name];
    kept += std::max<std::int64_t>(0, row.histogram.zeros - without);
    moving += row.histogram.elements - without;
  }
  Shares lost;
  for (const auto& [name, count] : counts) {
    const double share = static_cast<double>(count.first) / static_cast<double>(count.second);
    if (share > kMostLost) lost[name] = share;
  }
  return lost;
}

/** Returns the first level with f32 master weights of a model in the dtype `low`; empty if there is
 *  none. */
std::string level_with_masters(const std::string& low) {
  for (const Level& level : kLevels)
    if (level.master_weights.value_or(false) && level.cast_model_type &&
        name(*level.cast_model_type) == low)
      return std::string(level.name);
  return {};
}

}  // namespace

std::string percent(double share) {
  const double rounded = std::round(1000 * share) / 10;
  return rounded == 0 && share > 0 ? "less than 0.1 %" : str(rounded, " %");
}

void find_underflows(const Evidence& evidence, std::vector<Finding>& findings) {
  if (evidence.low != "f16") return;
  Shares worst = coarse_gradients(evidence);
  // Zeros alone prove nothing: a unit may be off, or its part of the net not in use.
  if (!worst.empty() || flushed_gradients(evidence.run))
    for (const std::string& name : zero_gradients(evidence)) worst[name] = 1;
  if (worst.empty()) return;
  const auto& [name, error] = largest(worst);
  Finding finding{
      .kind = "underflow",
      .severity = "problem",
      .text = str("Gradients underflow in f16: of ", name, " rounding changes ",
                  percent(std::min(1.0, error)), " of the sum of magnitudes",
                  worst.size() > 1 ? str(" (", worst.size(), " tensors are affected)") : "", "."),
      .names = names_of(worst)};
  const ScaleWindow window = evidence.window();
  if (window.is_unknown()) {
    finding.text += " All gradients are 0: raise the loss scale, or use \"dynamic\".";
  } else if (is_unscaled_in_f16(evidence, window)) {
    finding.text +=
        str(" The loss scale suits them, but they are divided by it in f16. Keep f32 "
            "master weights (",
            kMastersOfF16, ").");
    finding.level = kMastersOfF16;
  } else {
    suggest_scale(finding, window);
  }
  findings.push_back(std::move(finding));
}

void find_lost_updates(const Evidence& evidence, std::vector<Finding>& findings) {
  const Shares lost = kept_weights(evidence);
  if (lost.empty()) return;
  const auto& [name, share] = largest(lost);
  const std::string level = level_with_masters(evidence.low);
  findings.push_back(
      {.kind = "lost_update",
       .severity = "problem",
       .text = str("Updates are lost: ", percent(share), " of the weights of ", name,
                   " that have a gradient did not change, because the update is less than half "
                   "the distance to the next ",
                   evidence.low, " number. Keep f32 master weights",
                   level.empty() ? "" : str(" (", level, ")"), "."),
       .names = names_of(lost),
       .level = level});
}

}  // namespace mezzo::amp::report
