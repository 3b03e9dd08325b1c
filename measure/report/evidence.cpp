#include "evidence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../../tensor/core/registry.h"

namespace mezzo::amp::report {

namespace {

/** Sums this many binades below their greatest term are rounding errors: f16 has 11 bits. */
constexpr int kMostCancelled = 8;

/** Returns the dtype of the 16-bit activations of a run; empty if there are none. */
std::string low_dtype_of(const RunData& run) {
  if (!run.run.cast_dtype.empty()) return run.run.cast_dtype;
  for (const Sample& sample : run.samples)
    for (const SampleRow& row : sample.rows)
      if (row.kind == Kind::activation && is_low(row.dtype)) return std::string(name(row.dtype));
  return {};
}

Precision precision_named(const std::string& text) {
  for (const Precision p : {Precision::low, Precision::f32, Precision::promote, Precision::banned})
    if (name(p) == text) return p;
  return Precision::match;
}

Precision registered_tag(const std::string& op) {
  for (const OpInfo* info : all_ops())
    if (info->traits.name == op) return info->traits.precision;
  return Precision::match;
}

/** Returns for each op of a graph whether its result is in 16 bits: as recorded, or for a graph in
 *  f32 as O1 would compute it. */
std::vector<bool> low_ops(const std::vector<GraphOp>& graph, bool as_recorded) {
  std::vector<bool> low;
  for (const GraphOp& op : graph) {
    const Precision tag = precision_named(op.tag);
    bool any = false, all = true;
    for (const GraphOp::Operand& x : op.in) {
      if (x.from < 0 || !is_floating(x.dtype)) continue;
      const bool operand = low[static_cast<std::size_t>(x.from)];
      any = any || operand;
      all = all && operand;
    }
    const bool predicted = tag == Precision::low || (tag == Precision::match && any) ||
                           (tag == Precision::promote && any && all);
    low.push_back(as_recorded ? !op.out.empty() && is_low(op.out[0].dtype) : predicted);
  }
  return low;
}

/** Returns the exponent of the greatest loss scale of each step. */
std::map<std::int64_t, int> scales_by_step(const RunData& run) {
  std::map<std::int64_t, int> out;
  for (const StepLine& step : run.steps)
    if (!step.scales.empty())
      out[step.step] = exponent_of(*std::max_element(step.scales.begin(), step.scales.end()));
  return out;
}

/** Returns the index of the first step whose loss is NaN or infinite; -1 if there is none. */
std::int64_t first_bad_loss_of(const RunData& run) {
  for (std::size_t i = 0; i < run.steps.size(); ++i)
    for (const double loss : run.steps[i].losses)
      if (!std::isfinite(loss)) return static_cast<std::int64_t>(i);
  return -1;
}

/** Returns the samples of the steps before `end` but the first, which is not typical, or else the
 *  first. */
std::vector<const Sample*> judged_samples(const RunData& run, std::int64_t end) {
  std::vector<const Sample*> samples;
  for (const Sample& sample : run.samples)
    if (samples.empty() || sample.step < end) samples.push_back(&sample);
  if (samples.size() > 1) samples.erase(samples.begin());
  return samples;
}

}  // namespace

Evidence::Evidence(const RunData& data)
    : run(data), low(low_dtype_of(data)), first_bad_loss(first_bad_loss_of(data)) {
  const std::set<std::string> low_rows = read_graph();
  const std::map<std::int64_t, int> scales = scales_by_step(run);
  const std::int64_t end = first_bad_loss < 0
                               ? std::numeric_limits<std::int64_t>::max()
                               : run.steps[static_cast<std::size_t>(first_bad_loss)].step;
  for (const Sample* sample : judged_samples(run, end)) {
    const auto scale = scales.find(sample->step);
    add_rows(*sample, scale == scales.end() ? 0 : scale->second, low_rows);
  }
}

void Evidence::add_rows(const Sample& sample, int step_scale,
                        const std::set<std::string>& low_rows) {
  std::map<std::string, int> greatest;  // exponents of gradients of products, without loss scale
  for (const SampleRow& row : sample.rows)
    if (row.kind == Kind::activation_grad)
      if (const std::optional<int> top = greatest_exponent(row.histogram))
        greatest[row.name] = *top - exponent_of(row.scale);
  for (const SampleRow& row : sample.rows) {
    const auto product = products_of_biases.find(row.name);
    const auto terms =
        product == products_of_biases.end() ? greatest.end() : greatest.find(product->second);
    const std::optional<int> top = greatest_exponent(row.histogram);
    rows.push_back({.row = &row,
                    .step = sample.step,
                    .step_scale = step_scale,
                    .is_low = is_in_16_bits(row, low_rows),
                    .is_noise = row.kind == Kind::weight_grad && top && terms != greatest.end() &&
                                *top - exponent_of(row.scale) < terms->second - kMostCancelled});
  }
}

std::set<std::string> Evidence::read_graph() {
  std::set<std::string> low_rows;
  const std::vector<bool> ops = low_ops(run.graph, !low.empty());
  for (std::size_t i = 0; i < run.graph.size(); ++i) {
    const GraphOp& op = run.graph[i];
    const Precision tag = precision_named(op.tag);
    tags[op.row] = tag;
    if (!ops[i]) continue;
    low_rows.insert(op.row);
    if (tag == Precision::low) operands.insert(op.row + " input");
    // A norm of 16-bit values in f32 has gradients of its parameters in f32.
    for (const GraphOp::Operand& x : op.in) {
      if (tag == Precision::low || is_low(x.dtype)) low_parameters.insert(x.name);
      if (tag != Precision::low) continue;
      if (x.from >= 0) operands.insert(run.graph[static_cast<std::size_t>(x.from)].row);
      if (x.shape.size() == 1) products_of_biases[x.name] = op.row;
    }
  }
  return low_rows;
}

bool Evidence::is_in_16_bits(const SampleRow& row, const std::set<std::string>& low_rows) const {
  if (is_low(row.dtype)) return true;
  // At levels that cast ops, gradients of f32 weights were in 16 bits before they were cast back.
  if (row.kind == Kind::weight_grad) return low_parameters.contains(row.name);
  const bool is_activation = row.kind == Kind::activation || row.kind == Kind::activation_grad;
  return low.empty() && is_activation &&
         (low_rows.contains(row.name) ||
          (!tags.contains(row.name) && registered_tag(row.op) == Precision::low));
}

Precision Evidence::tag_of(const SampleRow& row) const {
  const auto found = tags.find(row.name);
  return found == tags.end() ? registered_tag(row.op) : found->second;
}

ScaleWindow Evidence::window() const {
  ScaleWindow window;
  for (const JudgedRow& judged : rows)
    if (is_low_gradient(judged))
      window.add(judged.row->name, judged.row->histogram, exponent_of(judged.row->scale));
  return window;
}

bool Evidence::was_skipped(std::int64_t index) const {
  const auto& results = run.steps[static_cast<std::size_t>(index)].results;
  return std::find(results.begin(), results.end(), "skipped") != results.end();
}

}  // namespace mezzo::amp::report
