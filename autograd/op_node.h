// OpNode: the node that dispatch records for an op.
// See also: record.cpp (where nodes are made), tensor/ops (the ops' backward functions).
#pragma once

#include <memory>

#include "node.h"

namespace mezzo {

struct TraceHook;
class RecomputedRegion;

/** A tensor saved for the backward pass, with its storage version; or its slot in a region that
 *  recomputes it (recompute.h). */
struct SavedTensor {
  static constexpr std::uint32_t kHere = 0xffffffff;  // no slot: the tensor itself is saved
  Tensor tensor = {};
  std::uint32_t version = 0;
  std::uint32_t slot = kHere;

  bool empty() const { return slot == kHere && !tensor.defined(); }
};

/** A copy of an op's attributes, of any type. */
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

/** The node of one call of an op. */
class OpNode final : public Node {
 public:
  OpNode(const OpInfo& info, Inputs in, Outputs out, const void* attrs);
  ~OpNode() override;

  Grads apply(Grads gy) override;
  void release_saved() override;
  std::string name() const override { return std::string(info_.traits.name); }
  std::optional<DType> converts_to() const override;
  void prefer_gradient(std::size_t operand, DType dtype) override;
  bool adds_gradient() const override;
  bool add_gradient(const Grads& gy, const Tensor& sum) override;
  /** Returns true if the gradient is the incoming one in another shape. */
  bool only_reshapes() const;
  /** Returns true if apply() adds the gradient of the first operand to `rest`, the sum of its other
   *  gradients, where that follows the gradients of the results. */
  bool adds_to(const Tensor& rest) const;
  /** Returns true if apply() adds `last` to `sum`, the gradient of the first result without it,
   *  where `last` follows the gradients of the results. */
  bool adds_terms(const Tensor& sum, const Tensor& last) const;

 private:
  /** Returns the gradients of the op's backward function, fitted to the operands. */
  Grads run_rule(const Saved& saved, const Grads& gy) const;
  /** Does the same and reports the begin and end to the trace hook. */
  Grads run_traced_rule(TraceHook& trace, const Saved& saved, const Grads& gy) const;
  /** Returns x as a saved tensor, or its slot inside a recomputed region. */
  SavedTensor save(const Tensor& x);
  /** Returns the tensor as it was saved. Errors: StateError where it was modified in place
   *  since. */
  Tensor unpack(const SavedTensor& saved) const;
  std::vector<Tensor> unpack_inputs() const;
  std::vector<Tensor> unpack_outputs();
  /** Converts gradients to the shapes, dtypes and devices of the operands. Broadcast dimensions are
   *  summed first, then there is one rounding. */
  void fit_to_operands(Grads& gradients) const;
  bool is_plain_lookup() const;
  /** Resets the gradients' dtypes to those of the operands. */
  void clear_preferences();

  const OpInfo& info_;
  SavedAttrs attrs_;
  std::vector<TensorMeta> metas_;
  std::unique_ptr<bool[]> wanted_;
  std::vector<SavedTensor> inputs_, outputs_;
  Ref<RecomputedRegion> region_;  // recomputes saved tensors
  std::string module_path_;
  bool released_ = false, has_preferences_ = false;
};

}  // namespace mezzo
