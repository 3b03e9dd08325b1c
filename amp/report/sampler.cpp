#include "sampler.h"

#include <utility>

#include "../../tensor/core/error.h"
#include "../../tensor/core/guard_list.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/memory/allocator.h"
#include "../../tensor/text/text.h"

namespace mezzo::amp::report {

namespace {

/** Calls of one op in one module that are recorded; later ones, as in gradient accumulation, are
 *  not. */
constexpr std::size_t kMostCalls = 4;

bool has_kernel(const OpInfo& op) { return op.composite == nullptr && op.view == nullptr; }

std::string joined(const std::string& module, std::string_view op) {
  return module.empty() ? std::string(op) : str(module, ' ', op);
}

std::vector<std::int64_t> sizes(const Tensor& x) { return {x.shape().begin(), x.shape().end()}; }

}  // namespace

Sampler::Sampler(const ParameterNames& names, Device device, bool with_details)
    : NestedTrace("amp::Report: a trace guard that was opened in a sampled step is still open"),
      names_(names),
      device_(device),
      with_details_(with_details) {
  outer = std::exchange(ThreadCasts::here().ledger, this);
}

Sampler::~Sampler() {
  close_guard<CastLedger>(ThreadCasts::here().ledger, *this, &CastLedger::outer,
                          "amp::Report: a trace that was opened in a sampled step is still open");
}

void Sampler::enter_forward(const OpInfo& op) {
  kernels_ += has_kernel(op);
  NestedTrace::enter_forward(op);
}

void Sampler::leave_forward(const OpInfo& op) noexcept {
  kernels_ -= has_kernel(op);
  NestedTrace::leave_forward(op);
}

void Sampler::enter_backward(const OpInfo& op) {
  ++backward_;
  NestedTrace::enter_backward(op);
}

void Sampler::trace(const OpInfo& op, Inputs in, Outputs out) {
  const bool is_whole = op.composite == nullptr && kernels_ == has_kernel(op);
  if (is_whole && backward_ == 0 && thread_hooks().grad_enabled && !Capture::current())
    add_forward(op, in, out);
  NestedTrace::trace(op, in, out);
}

void Sampler::add_forward(const OpInfo& op, Inputs in, Outputs out) {
  find_model(in);
  if (with_details_) add_to_graph(op.traits.name, name(op.traits.precision), in, out.first(1));
  if (!has_kernel(op) || !is_floating(out[0].dtype())) return;
  const std::string module = model_ + current_module_path();
  const std::string base = joined(module, op.traits.name);
  std::vector<std::string>& calls = calls_[base];
  const std::size_t number = ++counted_[base];
  if (number > kMostCalls) return;
  calls.push_back(number == 1 ? base : str(base, " #", number));
  rows_.push_back(pending_row({.kind = Kind::activation,
                               .name = calls.back(),
                               .module = module,
                               .op = std::string(op.traits.name)},
                              out[0]));
  note_memory(calls.back(), "forward");
}

void Sampler::leave_backward(const OpInfo& op, Inputs gy, Inputs gradients) {
  --backward_;
  if (backward_ == 0 && !Capture::current() && has_kernel(op)) {
    const std::string base = joined(model_ + current_module_path(), op.traits.name);
    const auto calls = calls_.find(base);
    if (calls != calls_.end() && !calls->second.empty()) {
      const std::string name = std::move(calls->second.back());
      calls->second.pop_back();
      if (gy[0].defined() && is_floating(gy[0].dtype()))
        rows_.push_back(pending_row({.kind = Kind::activation_grad,
                                     .name = name,
                                     .module = model_ + current_module_path(),
                                     .op = std::string(op.traits.name)},
                                    gy[0]));
      note_memory(name, "backward");
    }
  }
  NestedTrace::leave_backward(op, gy, gradients);
}

void Sampler::note(const CastReason& reason, const Tensor& from, const Tensor& to, bool cached) {
  if (Capture::current()) {  // the counts of casts_ cannot be read in a captured step
    if (casts_.outer) casts_.outer->note(reason, from, to, cached);
    return;
  }
  if (with_details_ && !cached && backward_ == 0 && thread_hooks().grad_enabled)
    add_to_graph("to", reason.rule, {&from, 1}, {&to, 1});
  if (const ParameterName* parameter = names_.find(from)) cast_of_[to.impl()] = parameter;
  if (outer) outer->note(reason, from, to, cached);
}

const ParameterName* Sampler::parameter_of(const Tensor& x) const {
  if (!x.defined()) return nullptr;
  if (const ParameterName* parameter = names_.find(x)) return parameter;
  const auto cast = cast_of_.find(x.impl());
  return cast == cast_of_.end() ? nullptr : cast->second;
}

void Sampler::find_model(Inputs in) {
  for (const Tensor& x : in)
    if (const ParameterName* parameter = parameter_of(x)) {
      model_ = parameter->model;
      return;
    }
}

GraphOp::Operand Sampler::operand(const Tensor& x) const {
  GraphOp::Operand out{.dtype = x.dtype(), .shape = sizes(x)};
  if (const auto maker = makers_.find(x.impl()); maker != makers_.end()) out.from = maker->second;
  if (const ParameterName* parameter = parameter_of(x)) out.name = parameter->name;
  return out;
}

void Sampler::add_to_graph(std::string_view op, std::string_view tag, Inputs in, Inputs out) {
  GraphOp node{
      .op = std::string(op), .module = model_ + current_module_path(), .tag = std::string(tag)};
  for (const Tensor& x : in)
    if (x.defined()) node.in.push_back(operand(x));
  for (const Tensor& x : out) {
    node.out.push_back({.dtype = x.dtype(), .shape = sizes(x)});
    cast_of_.erase(x.impl());  // the address of a former tensor may be used again
    makers_[x.impl()] = static_cast<std::int64_t>(graph_.size());
  }
  graph_.push_back(std::move(node));
}

void Sampler::note_memory(const std::string& at, const char* phase) {
  if (!with_details_) return;
  const MemoryStats stats = memory_stats(device_);
  MemoryPoint point{.at = at, .phase = phase, .bytes = {}};
  for (const MemoryUse& use : stats.by_category) point.bytes.push_back(use.current);
  memory_.push_back(std::move(point));
}

}  // namespace mezzo::amp::report
