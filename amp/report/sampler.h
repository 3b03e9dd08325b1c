// Sampler: observes the ops, casts and memory of one training step.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "../../tensor/core/nested_trace.h"
#include "../autocast/casting.h"
#include "../diagnose/trace.h"
#include "histogram.h"
#include "lines.h"
#include "parameter_names.h"

namespace mezzo::amp::report {

/** Observes the calling thread until it is destroyed. Ops without gradient recording (evaluation),
 *  ops inside the kernels of other ops, and captured steps are not recorded. */
class Sampler final : public NestedTrace, public CastLedger {
 public:
  /** `with_details`: record the graph and the memory too. */
  Sampler(const ParameterNames& names, Device device, bool with_details);
  ~Sampler();

  std::vector<PendingRow>& rows() { return rows_; }
  const std::vector<GraphOp>& graph() const { return graph_; }
  const std::vector<MemoryPoint>& memory() const { return memory_; }
  std::vector<CastEntry> casts() const { return casts_.entries(); }
  /** Records the memory in use. */
  void note_memory(const std::string& at, const char* phase);

  void trace(const OpInfo& op, Inputs in, Outputs out) override;
  void enter_forward(const OpInfo& op) override;
  void leave_forward(const OpInfo& op) noexcept override;
  void enter_backward(const OpInfo& op) override;
  void leave_backward(const OpInfo& op, Inputs gy, Inputs gradients) override;

 private:
  void note(const CastReason& reason, const Tensor& from, const Tensor& to, bool cached) override;
  void add_forward(const OpInfo& op, Inputs in, Outputs out);
  void add_to_graph(std::string_view op, std::string_view tag, Inputs in, Inputs out);
  GraphOp::Operand operand(const Tensor& x) const;
  /** Returns the parameter that x is or is a cast of; null if there is none. */
  const ParameterName* parameter_of(const Tensor& x) const;
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
  /** The parameter that a tensor is a cast of. */
  std::unordered_map<const void*, const ParameterName*> cast_of_;
  /** Names of the calls of an op of a module, in order; a backward pass takes the last. */
  std::map<std::string, std::vector<std::string>> calls_;
  std::map<std::string, std::size_t> counted_;
  std::string model_;  // prefix of the executing model
  int kernels_ = 0;    // ops with a kernel that are executing
  int backward_ = 0;   // backward rules that are executing
};

}  // namespace mezzo::amp::report
