#include "verdict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "../../tensor/core/registry.h"
#include "../../tensor/text/text.h"

namespace mezzo::amp::report {

namespace {

// Of f16: values below 2^-14 are multiples of 2^-24; 2^16 and above is infinite.
constexpr int kSmallestUnit = -24, kFirstInfinite = 16;
/** Relative error of a sum of magnitudes that counts as underflow. */
constexpr double kMostError = 0.01;
/** Share of the elements with a gradient that keep their weight. */
constexpr double kMostLost = 0.25;
/** Share of skipped steps that is not explained by the search for a scale. */
constexpr double kMostSkipped = 0.05;
/** Skips at the start, while a dynamic scale falls to its level. */
constexpr std::int64_t kSearch = 24;

/** Returns the sum of the magnitudes of a histogram, each taken as 1.5 * 2^exponent. */
double sum_of_magnitudes(const Histogram& h) {
  double sum = 0;
  for (std::size_t i = 0; i < h.counts.size(); ++i)
    sum += static_cast<double>(h.counts[i]) * std::ldexp(1.5, h.lowest + static_cast<int>(i));
  return sum;
}

std::int64_t nonzeros(const Histogram& h) {
  std::int64_t count = 0;
  for (const std::int64_t n : h.counts) count += n;
  return count;
}

/** Returns the exponent of the largest finite element; empty if there is none but 0. */
std::optional<int> greatest_exponent(const Histogram& h) {
  if (h.counts.empty()) return std::nullopt;
  return h.lowest + static_cast<int>(h.counts.size()) - 1;
}

/** Returns the error of rounding to f16 after multiplication by 2^shift, relative to the sum of
 *  magnitudes. Only what lies below 2^-14 counts: it is off by a quarter of 2^-24 on average, or by
 *  itself if that is less. */
double subnormal_error(const Histogram& h, int shift) {
  const double sum = sum_of_magnitudes(h);
  if (sum == 0) return 0;
  const double unit = std::ldexp(1.0, kSmallestUnit - shift);
  double error = 0;
  for (std::size_t i = 0; i < h.counts.size(); ++i) {
    const int exponent = h.lowest + static_cast<int>(i);
    if (exponent + shift >= -14) break;
    error += static_cast<double>(h.counts[i]) * std::min(unit / 4, std::ldexp(1.5, exponent));
  }
  return error / sum;
}

int log2_of(double scale) { return scale > 0 && std::isfinite(scale) ? std::ilogb(scale) : 0; }

std::string percent(double share) {
  const double rounded = std::round(1000 * share) / 10;
  return rounded == 0 && share > 0 ? "less than 0.1 %" : str(rounded, " %");
}

bool is_gradient(Kind kind) { return kind == Kind::activation_grad || kind == Kind::weight_grad; }

Precision tag_of(const std::string& op) {
  for (const OpInfo* info : all_ops())
    if (info->traits.name == op) return info->traits.precision;
  return Precision::match;
}

/** Returns true if mixed precision computes the op in 16 bits at a level that casts ops. */
bool runs_low(const SampleRow& row) {
  return row.kind == Kind::weight_grad || tag_of(row.op) == Precision::low;
}

/** The loss scales, as powers of two, with which the gradients of a run fit into f16. */
struct Window {
  int least = -200, most = 200;
  std::string least_name, most_name;  // the gradients that decide

  bool is_empty() const { return least > most; }
  /** Returns the scale to suggest: a quarter below the greatest, for gradients that grow, but at
   *  least the least. */
  int suggestion() const { return std::max(least, most - 2); }
};

/** A row's name, and all its histograms without their scale. */
struct Judge {
  explicit Judge(const RunData& run) : data(run) {
    // The first step is left out, unless it is the only one: it is not typical.
    const std::size_t from = run.samples.size() > 1 ? 1 : 0;
    for (std::size_t i = from; i < run.samples.size(); ++i)
      for (const SampleRow& row : run.samples[i].rows) rows.push_back(&row);
    low = run.run.cast_dtype;
  }

  const RunData& data;
  std::vector<const SampleRow*> rows;
  std::string low;  // "f16", "bf16" or empty
  std::vector<Finding> findings = {};

  /** Returns the window in which all gradients fit. */
  Window window() const {
    Window w;
    for (const SampleRow* row : rows) {
      if (!is_gradient(row->kind) || !runs_low(*row)) continue;
      const int held = log2_of(row->scale);
      const std::optional<int> top = greatest_exponent(row->histogram);
      if (!top) continue;
      const int most = kFirstInfinite - 1 - (*top - held);
      if (most < w.most) w.most = most, w.most_name = row->name;
      int least = most - 60;
      while (least < most + 60 && subnormal_error(row->histogram, least - held) > kMostError)
        ++least;
      if (least > w.least) w.least = least, w.least_name = row->name;
    }
    return w;
  }

  void add(Finding finding) { findings.push_back(std::move(finding)); }

  void suggest_scale(Finding& finding, const Window& w) const {
    if (w.is_empty()) {
      finding.text +=
          str(" No loss scale suits all gradients: ", w.least_name, " needs at least 2^", w.least,
              ", ", w.most_name, " at most 2^", w.most, ". Use bf16 (O4).");
      finding.level = "O4";
      return;
    }
    finding.loss_scale = std::ldexp(1.0, w.suggestion());
    finding.text +=
        str(" A loss scale between 2^", w.least, " and 2^", w.most, " keeps all gradients; 2^",
            w.suggestion(), " leaves room, and \"dynamic\" finds it.");
  }

  void underflow() {
    if (low != "f16") return;
    std::map<std::string, double> worst;
    std::map<std::string, std::pair<int, int>> all_zero;  // name -> samples that are 0, samples
    for (const SampleRow* row : rows) {
      if (!is_gradient(row->kind) || !runs_low(*row)) continue;
      auto& [zero, all] = all_zero[row->name];
      ++all;
      if (nonzeros(row->histogram) == 0 && row->histogram.infinities + row->histogram.nans == 0) {
        ++zero;
        continue;
      }
      // Weight gradients are f32 where weights are, but were rounded to f16 before the cast back.
      const int held = row->dtype == f16 ? 0 : log2_of(scale_at(*row)) - log2_of(row->scale);
      const double error = subnormal_error(row->histogram, held);
      if (error > kMostError) worst[row->name] = std::max(worst[row->name], error);
    }
    for (const auto& [name, count] : all_zero)
      if (count.first == count.second && count.second > 0) worst[name] = 1;
    if (worst.empty()) return;
    const auto most =
        std::max_element(worst.begin(), worst.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    Finding finding{.kind = "underflow", .severity = "problem", .text = {}};
    finding.text =
        str("Gradients underflow in f16: of ", most->first, " rounding changes ",
            percent(std::min(1.0, most->second)), " of the sum of magnitudes",
            worst.size() > 1 ? str(" (", worst.size(), " tensors are affected)") : "", ".");
    for (const auto& entry : worst) finding.names.push_back(entry.first);
    if (most->second >= 1 && window().least <= -200)
      finding.text += " All of them are 0: raise the loss scale, or use \"dynamic\".";
    else
      suggest_scale(finding, window());
    add(std::move(finding));
  }

  /** Returns the loss scale that the gradients of a row had in f16: that of its step. */
  double scale_at(const SampleRow& row) const {
    for (const Sample& sample : data.samples)
      for (const SampleRow& other : sample.rows)
        if (&other == &row)
          for (const StepLine& step : data.steps)
            if (step.step == sample.step && !step.scales.empty()) return step.scales[0];
    return 1;
  }

  /** Returns the ops whose 16-bit results became infinite, and whether each is a product. */
  std::map<std::string, bool> overflowed_ops() const {
    std::map<std::string, bool> out;
    for (const Sample& sample : data.samples)
      for (const SampleRow& row : sample.rows)
        if (row.kind == Kind::activation && is_low(row.dtype) && row.histogram.infinities > 0) {
          out.emplace(row.name, tag_of(row.op) == Precision::low);
          break;  // what follows has infinite operands
        }
    return out;
  }

  void forward_overflow() {
    for (const auto& [name, is_product] : overflowed_ops()) {
      Finding finding{.kind = is_product ? "overflow" : "wrong_tag",
                      .severity = "problem",
                      .text = {},
                      .names = {name},
                      .level = is_product ? "O4" : ""};
      finding.text =
          is_product
              ? str("The result of ", name, " overflows in ", low,
                    ": a number above 65504 is "
                    "infinite in f16. A loss scale does not help in the forward pass: use bf16 "
                    "(O4), or keep the layer in f32.")
              : str(name, " ran in ", low,
                    " and became infinite from finite operands. Its op is no "
                    "matrix product: run it in f32 (amp::float_function, or leave its precision "
                    "tag "
                    "at f32).");
      add(std::move(finding));
    }
  }

  void gradient_overflow() {
    if (low.empty()) return;
    const auto steps = std::ssize(data.steps);
    std::int64_t searching = 0, skipped = 0;
    while (searching < std::min<std::int64_t>(steps, kSearch) && was_skipped(searching))
      ++searching;
    for (std::int64_t i = searching; i < steps; ++i) skipped += was_skipped(i);
    const double share = static_cast<double>(skipped) /
                         static_cast<double>(std::max<std::int64_t>(1, steps - searching));
    std::vector<std::string> names;
    for (const SampleRow* row : rows)
      if (row->kind == Kind::weight_grad && row->histogram.infinities + row->histogram.nans > 0 &&
          std::find(names.begin(), names.end(), row->name) == names.end())
        names.push_back(row->name);
    const bool is_static = data.run.loss_scale != "dynamic";
    const bool all_skipped = searching == steps && steps > 8;
    if (!(share > kMostSkipped && skipped > 2) && !(is_static && !names.empty()) && !all_skipped)
      return;
    if (!findings.empty()) return;  // infinite results make infinite gradients
    Finding finding{.kind = "overflow", .severity = "problem", .text = {}, .names = names};
    finding.text = skipped + searching > 0
                       ? str("Gradients overflow: ", skipped + searching, " of ", steps,
                             " steps were skipped.")
                       : str("Gradients became infinite or NaN, first of ", names.front(), ".");
    suggest_scale(finding, window());
    add(std::move(finding));
  }

  bool was_skipped(std::int64_t i) const {
    const auto& results = data.steps[static_cast<std::size_t>(i)].results;
    return std::find(results.begin(), results.end(), "skipped") != results.end();
  }

  void lost_updates() {
    std::map<std::string, double> lost;
    for (const Sample& sample : data.samples) {
      std::map<std::string, std::int64_t> gradient_zeros;
      for (const SampleRow& row : sample.rows)
        if (row.kind == Kind::weight_grad) gradient_zeros[row.name] = row.histogram.zeros;
      for (const SampleRow& row : sample.rows) {
        // Weights in f32, or with f32 masters, have updates in f32.
        if (row.kind != Kind::update || !is_low(row.dtype)) continue;
        const double moved = static_cast<double>(row.histogram.elements - gradient_zeros[row.name]);
        const double kept = static_cast<double>(row.histogram.zeros - gradient_zeros[row.name]);
        if (moved > 0 && kept / moved > kMostLost)
          lost[row.name] = std::max(lost[row.name], kept / moved);
      }
    }
    if (lost.empty()) return;
    const auto most = std::max_element(
        lost.begin(), lost.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    Finding finding{
        .kind = "lost_update",
        .severity = "problem",
        .text = str("Updates are lost: ", percent(most->second), " of the weights of ", most->first,
                    " that have a gradient did not change, because the "
                    "update is less than half the distance to the next ",
                    low, " number. Keep f32 master weights (", low == "f16" ? "O2" : "O5", ")."),
        .names = {},
        .level = low == "f16" ? "O2" : "O5"};
    for (const auto& entry : lost) finding.names.push_back(entry.first);
    add(std::move(finding));
  }

  /** Of a run in f32: would f16 do? */
  void outlook() {
    if (!low.empty() || rows.empty()) return;
    for (const SampleRow* row : rows) {
      const std::optional<int> top = greatest_exponent(row->histogram);
      if (row->kind != Kind::activation || !runs_low(*row) || !top || *top < kFirstInfinite)
        continue;
      add({.kind = "needs_bf16",
           .severity = "hint",
           .text = str("f16 is too narrow: ", row->name, " reaches 2^", *top,
                       ", and f16 ends below "
                       "2^16. Use bf16 (O4)."),
           .names = {row->name},
           .level = "O4"});
      return;
    }
    const Window w = window();
    if (w.least <= -200) return;  // no gradients
    if (w.is_empty()) {
      Finding finding{.kind = "needs_bf16",
                      .severity = "hint",
                      .text = "The gradients span more than f16 holds.",
                      .names = {w.least_name, w.most_name}};
      suggest_scale(finding, w);
      return add(std::move(finding));
    }
    add({.kind = "fine_in_f16",
         .severity = "hint",
         .text = str("f16 would do (O1): activations stay below 65504, and with a loss scale "
                     "between 2^",
                     w.least, " and 2^", w.most,
                     " no gradient underflows or "
                     "overflows; 2^",
                     w.suggestion(), " leaves room."),
         .level = "O1",
         .loss_scale = std::ldexp(1.0, w.suggestion())});
  }
};

}  // namespace

std::vector<Finding> verdict(const RunData& run) {
  Judge judge(run);
  judge.forward_overflow();
  judge.gradient_overflow();
  judge.underflow();
  judge.lost_updates();
  judge.outlook();
  if (judge.findings.empty() && !run.samples.empty())
    judge.add(
        {.kind = "healthy",
         .severity = "good",
         .text = str("Nothing is lost",
                     run.run.cast_dtype.empty() ? "" : str(" in ", run.run.cast_dtype),
                     ": no gradient underflows, nothing overflows, and every update is kept.")});
  if (!run.complete)
    judge.add({.kind = "truncated",
               .severity = "hint",
               .text = str("The record ends after ", run.steps.size(),
                           " steps: the program did not close it.")});
  return std::move(judge.findings);
}

}  // namespace mezzo::amp::report
