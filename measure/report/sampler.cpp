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

constexpr std::string_view kCast = "to";

bool has_kernel(const OpInfo& op) { return op.composite == nullptr && op.view == nullptr; }

/** Returns true for an op that writes a tensor without gradient in place, like the flag of an
 *  overflow: it is no part of a net. */
bool is_bookkeeping(Inputs in, Outputs out) {
  return !in.empty() && in[0].defined() && in[0].impl() == out[0].impl() && !out[0].requires_grad();
}

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
  if (op.composite) composites_.push_back(&op);
  NestedTrace::enter_forward(op);
}

void Sampler::leave_forward(const OpInfo& op) noexcept {
  kernels_ -= has_kernel(op);
  if (op.composite && !composites_.empty()) composites_.pop_back();
  NestedTrace::leave_forward(op);
}

void Sampler::enter_backward(const OpInfo& op) {
  ++backward_;
  NestedTrace::enter_backward(op);
}

const OpInfo& Sampler::public_op(const OpInfo& op) const {
  if (!op.traits.internal) return op;
  for (auto op_at = composites_.rbegin(); op_at != composites_.rend(); ++op_at)
    if (!(*op_at)->traits.internal) return **op_at;
  return op;
}

Precision Sampler::precision(const OpInfo& op) const {
  for (const OpInfo* composite : composites_)
    if (composite->traits.precision != Precision::match) return composite->traits.precision;
  return op.traits.precision;
}

std::string Sampler::module_of(Inputs in) const {
  const std::string executed = current_module_path();
  const std::string path = names_.module_path(model_, executed);
  for (const Tensor& x : in) {
    const ParameterName* parameter = parameter_of(x);
    if (!parameter) continue;
    const std::string& owner = parameter->module;
    const bool is_part = executed.empty() || owner.starts_with(path + ".");
    if (is_part || owner.ends_with("." + executed)) return owner;
  }
  return path;
}

std::vector<CastEntry> Sampler::casts() const {
  std::vector<CastEntry> entries = casts_.entries();
  for (CastEntry& entry : entries) entry.module = names_.module_path("", entry.module);
  return entries;
}

void Sampler::trace(const OpInfo& op, Inputs in, Outputs out) {
  const bool is_whole = op.composite == nullptr && kernels_ == has_kernel(op);
  if (is_whole && backward_ == 0 && thread_hooks().grad_enabled && !Capture::current() &&
      !is_bookkeeping(in, out))
    add_forward(op, in, out);
  NestedTrace::trace(op, in, out);
}

void Sampler::add_forward(const OpInfo& op, Inputs in, Outputs out) {
  find_model(in);
  Call call{.name = {}, .module = module_of(in), .op = std::string(public_op(op).traits.name)};
  if (has_kernel(op) && op.traits.name != kCast && is_floating(out[0].dtype())) {
    call.name = joined(call.module, call.op);
    const std::size_t number = ++counted_[call.name];
    if (number > 1) call.name += str(" #", number);
    if (number > kMostCalls) call.name.clear();
  }
  if (with_details_)
    add_to_graph({.op = call.op,
                  .module = call.module,
                  .tag = std::string(name(precision(op))),
                  .row = call.name},
                 in, out.first(1));
  const bool is_same = op.view != nullptr || op.traits.name == kCast;
  is_input_[out[0].impl()] = is_same && is_input(in[0]);
  if (!call.name.empty()) {
    if (precision(op) == Precision::low) add_inputs(call, in);
    rows_.push_back(pending_row(
        {.kind = Kind::activation, .name = call.name, .module = call.module, .op = call.op},
        out[0]));
    note_memory(call.name, "forward");
  }
  if (out[0].requires_grad())
    calls_[joined(model_ + current_module_path(), op.traits.name)].push_back(std::move(call));
}

bool Sampler::is_input(const Tensor& x) const {
  if (!x.defined() || x.impl()->is_scalar || !is_floating(x.dtype()) || parameter_of(x))
    return false;
  const auto found = is_input_.find(x.impl());
  return found == is_input_.end() || found->second;
}

void Sampler::add_inputs(const Call& call, Inputs in) {
  std::size_t number = 0;
  for (const Tensor& x : in)
    if (is_input(x))
      rows_.push_back(
          pending_row({.kind = Kind::activation,
                       .name = str(call.name, " input", ++number > 1 ? str(' ', number) : ""),
                       .module = call.module,
                       .op = call.op},
                      x));
}

void Sampler::leave_backward(const OpInfo& op, Inputs gy, Inputs gradients) {
  --backward_;
  if (backward_ == 0 && !Capture::current() && has_kernel(op)) {
    const auto calls = calls_.find(joined(model_ + current_module_path(), op.traits.name));
    if (calls != calls_.end() && !calls->second.empty()) {
      const Call call = std::move(calls->second.back());
      calls->second.pop_back();
      if (!call.name.empty()) add_gradient(call, gy[0]);
    }
  }
  NestedTrace::leave_backward(op, gy, gradients);
}

void Sampler::add_gradient(const Call& call, const Tensor& gradient) {
  if (gradient.defined() && is_floating(gradient.dtype()))
    rows_.push_back(pending_row({.kind = Kind::activation_grad,
                                 .name = call.name,
                                 .module = call.module,
                                 .op = call.op,
                                 .scale = loss_scale_},
                                gradient));
  note_memory(call.name, "backward");
}

void Sampler::note(const CastReason& reason, const Tensor& from, const Tensor& to, bool cached) {
  if (Capture::current()) {  // the counts of casts_ cannot be read in a captured step
    if (casts_.outer) casts_.outer->note(reason, from, to, cached);
    return;
  }
  is_input_[to.impl()] = is_input(from);
  if (with_details_ && !cached && backward_ == 0 && thread_hooks().grad_enabled) {
    if (kernels_ == 0 && !graph_.empty() && graph_.back().op == kCast)
      graph_.back().tag = reason.tag;  // trace() has recorded the cast as an op
    else
      add_to_graph({.op = std::string(kCast),
                    .module = module_of({&from, 1}),
                    .tag = std::string(reason.tag)},
                   {&from, 1}, {&to, 1});
  }
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
  if (x.impl()->is_scalar) return out;  // a number; its address may be that of a former tensor
  if (const auto maker = makers_.find(x.impl()); maker != makers_.end()) out.from = maker->second;
  if (const ParameterName* parameter = parameter_of(x)) out.name = parameter->name;
  return out;
}

void Sampler::add_to_graph(GraphOp node, Inputs in, Inputs out) {
  for (const Tensor& x : in)
    if (x.defined()) node.in.push_back(operand(x));
  for (const Tensor& x : out) {
    node.out.push_back({.dtype = x.dtype(), .shape = sizes(x)});
    cast_of_.erase(x.impl());  // the address of a former tensor may be used again
    makers_[x.impl()] = std::ssize(graph_);
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
