// Sampler: observes the ops, casts and memory of one training step.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../amp/autocast/casting.h"
#include "../../amp/diagnose/trace.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/core/tensor.h"
#include "histogram.h"
#include "lines.h"

namespace mezzo::amp::report {

/** A parameter of a model. */
struct ParameterName {
  std::string name;    // dotted, with the model's name before it if models are named
  std::string module;  // of the module that holds it, likewise
  std::string model;   // the model's name with a dot; empty for a single model
};

/** Names by tensor, and the paths of modules. */
class ParameterNames {
 public:
  void add_module(std::string path) { modules_.push_back(std::move(path)); }
  /** Returns the path of an executing module. `executed` lacks the names of containers that are not
   *  called, as in "0.attention" of "blocks.0.attention"; it is returned with its model if it fits
   *  no module or several. */
  std::string module_path(const std::string& model, const std::string& executed) const {
    const std::string whole = model + executed, end = "." + executed;
    const std::string* found = nullptr;
    int count = 0;
    for (const std::string& path : modules_) {
      if (path == whole) return whole;
      if (!path.starts_with(model) || !path.ends_with(end)) continue;
      found = &path;
      ++count;
    }
    return count == 1 ? *found : whole;
  }

  void add(const Tensor& parameter, ParameterName name) {
    names_[parameter.impl()] = std::move(name);
  }
  /** Returns null for a tensor that is no parameter. */
  const ParameterName* find(const Tensor& x) const {
    const auto found = x.defined() ? names_.find(x.impl()) : names_.end();
    return found == names_.end() ? nullptr : &found->second;
  }

 private:
  std::unordered_map<const void*, ParameterName> names_;
  std::vector<std::string> modules_;
};

/** Observes the calling thread until it is destroyed. Ops without gradient recording (evaluation),
 *  ops inside the kernels of other ops, and captured steps are not recorded. An internal op has the
 *  name of the public one that called it. An op that a module calls with the parameter of a
 *  part of it belongs to that part. Casts have no rows; inputs of the program have one where a
 *  product reads them. */
class Sampler final : public NestedTrace, public CastLedger {
 public:
  /** `with_details`: record the graph and the memory too. */
  Sampler(const ParameterNames& names, Device device, bool with_details);
  ~Sampler();

  /** Sets the loss scale that the gradients of the next backward pass contain. */
  void set_loss_scale(double scale) { loss_scale_ = scale; }

  std::vector<PendingRow>& rows() { return rows_; }
  const std::vector<GraphOp>& graph() const { return graph_; }
  const std::vector<MemoryPoint>& memory() const { return memory_; }
  /** Returns the casts by the paths of their modules. */
  std::vector<CastEntry> casts() const;
  /** Records the memory in use. */
  void note_memory(const std::string& at, const char* phase);

  void trace(const OpInfo& op, Inputs in, Outputs out) override;
  void enter_forward(const OpInfo& op) override;
  void leave_forward(const OpInfo& op) noexcept override;
  void enter_backward(const OpInfo& op) override;
  void leave_backward(const OpInfo& op, Inputs gy, Inputs gradients) override;

 private:
  void note(const CastReason& reason, const Tensor& from, const Tensor& to, bool cached) override;
  /** A recorded call of an op. */
  struct Call {
    std::string name, module, op;
  };

  void add_forward(const OpInfo& op, Inputs in, Outputs out);
  /** Adds rows of the operands of a product that no recorded op has computed. */
  void add_inputs(const Call& call, Inputs in);
  void add_gradient(const Call& call, const Tensor& gradient);
  void add_to_graph(GraphOp node, Inputs in, Inputs out);
  /** Returns the public op that an op is part of: of nested composites the innermost. */
  const OpInfo& public_op(const OpInfo& op) const;
  /** Returns the tag that decides the dtype of an op: that of the outermost composite. */
  Precision precision(const OpInfo& op) const;
  /** Returns the path of the executing module, or of a part of it whose parameter is an operand. */
  std::string module_of(Inputs in) const;
  GraphOp::Operand operand(const Tensor& x) const;
  /** Returns the parameter that x is or is a cast of; null if there is none. */
  const ParameterName* parameter_of(const Tensor& x) const;
  /** Returns true for a floating tensor that no recorded op has computed. */
  bool is_input(const Tensor& x) const;
  /** Sets the model that is executing to the owner of a parameter among the operands. */
  void find_model(Inputs in);

  const ParameterNames& names_;
  const Device device_;
  const bool with_details_;
  amp::trace casts_;
  std::vector<PendingRow> rows_;
  std::vector<GraphOp> graph_;
  std::vector<MemoryPoint> memory_;
  std::unordered_map<const void*, std::int64_t> makers_;  // index of the op that made a tensor
  std::unordered_map<const void*, bool>
      is_input_;  // of views, casts and results; others are inputs
  /** The parameter that a tensor is a cast of. */
  std::unordered_map<const void*, const ParameterName*> cast_of_;
  /** The calls of an op while a module executes, in order; a backward pass takes the last. */
  std::map<std::string, std::vector<Call>> calls_;
  std::map<std::string, std::size_t> counted_;  // calls by name
  std::vector<const OpInfo*> composites_;       // those that are executing
  std::string model_;                           // prefix of the executing model
  int kernels_ = 0;                             // ops with a kernel that are executing
  int backward_ = 0;                            // backward rules that are executing
  double loss_scale_ = 1;
};

}  // namespace mezzo::amp::report
