// OpNode: the node that dispatch records for every op: edges, what the rule needs, and the rule's call.
// Sees: node.h.
// Read next: record.cpp (where it is filled), rules/*.cpp (the rules it calls).
#pragma once

#include <memory>

#include "node.h"

namespace mezzo {

struct TraceHook;
class RecomputedRegion;

/** A tensor kept for the backward pass, with the storage version it had; or its number in a region that computes it again (recompute.h). */
struct SavedTensor {
  static constexpr std::uint32_t kHere = 0xffffffff;
  Tensor tensor = {};
  std::uint32_t version = 0;
  std::uint32_t slot = kHere;

  bool empty() const { return slot == kHere && !tensor.defined(); }
};

/** A copy of an op's attributes, of whatever type they are. */
class SavedAttrs {
 public:
  SavedAttrs(const AttrsFacts& facts, const void* attrs);
  ~SavedAttrs();
  SavedAttrs(const SavedAttrs&) = delete;
  SavedAttrs& operator=(const SavedAttrs&) = delete;
  const void* address() const { return address_; }

 private:
  static constexpr std::size_t kInline = 96;
  const AttrsFacts& facts_;
  alignas(16) std::byte inline_[kInline];
  void* address_;
};

class OpNode final : public Node {
 public:
  OpNode(const OpRow& row, Inputs in, Outputs out, const void* attrs);
  ~OpNode() override;

  Grads apply(Grads gy) override;
  void release_saved() override;
  std::string name() const override { return std::string(row_.traits.name); }
  std::optional<DType> converts_to() const override;
  void prefer_gradient(std::size_t operand, DType dtype) override;
  bool add_gradient(const Grads& gy, const Tensor& sum) override;

 private:
  /** The rule's gradients, fitted to the operands; the trace hook is told where it begins and ends. */
  Grads run_rule(const Saved& saved, const Grads& gy) const;
  Grads run_traced_rule(TraceHook& trace, const Saved& saved, const Grads& gy) const;
  SavedTensor kept(const Tensor& x);
  /** The tensor as it was saved. Errors: StateError where it was modified in place since. */
  Tensor unpack(const SavedTensor& saved) const;
  std::vector<Tensor> unpack_inputs() const;
  std::vector<Tensor> unpack_outputs();
  void fit_to_operands(Grads& gradients) const;
  void forget_preferences();

  const OpRow& row_;
  SavedAttrs attrs_;
  std::vector<TensorMeta> metas_;
  std::unique_ptr<bool[]> wanted_;
  std::vector<SavedTensor> inputs_, outputs_;
  Ref<RecomputedRegion> region_;  // where a saved tensor is computed again
  std::string module_path_;
  bool released_ = false, has_preferences_ = false;
};

}  // namespace mezzo
