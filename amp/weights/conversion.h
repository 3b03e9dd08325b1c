// Conversion of a session's models to the session's dtype, the casts around their calls, and the
// way back to f32.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "../session_core.h"

namespace mezzo::amp {

/** Checks that a model has no 16-bit parameter or buffer. Errors: DtypeError naming the first
 *  one. */
void check_incoming(const nn::Module& model);

/** A plan to convert the parameters and buffers of models. The constructor makes all converted
 *  tensors and changes nothing yet. */
class Conversion {
 public:
  /** Plans the conversion to options.model_dtype(); plans nothing if that is empty. Converts
   *  gradients too. */
  Conversion(std::span<const nn::Module> models, const Options& options);

  /** Rebinds every planned tensor to its converted elements and adds those that became 16-bit to
   *  core.lowered. Changes nothing if it throws. */
  void apply(SessionCore& core) const;
  /** Restores the original elements and gradients of every planned tensor. Does not allocate. */
  void undo() const;
  /** Keeps the f32 values of all tensors that became 16-bit in core.masters. */
  void keep_originals(SessionCore& core) const;
  /** Returns a text that names the tensors that the conversion made infinite, or that lose more
   *  than rounding does; empty if there are none. Waits for the device. */
  std::string losses(std::span<const nn::Module> models) const;

 private:
  struct Change {
    Tensor leaf, original, converted, grad, converted_grad;
  };
  void plan_module(const nn::Module& module, DType dtype, bool keep_batchnorm);
  void plan_tensor(const Tensor& leaf, DType dtype);

  std::vector<Change> changes_;
  std::unordered_set<const TensorImpl*> planned_;
};

/** A plan to turn every tensor that a session made 16-bit back into f32, with the values of its
 *  master if it has one. The constructor allocates and changes nothing yet. */
class Restoration {
 public:
  /** Plans the tensors of core.lowered that are still 16-bit. `core` must outlive the plan. */
  explicit Restoration(SessionCore& core);
  /** Rebinds the tensors to their f32 values and clears core.lowered. Does not allocate. */
  void apply() const;

 private:
  struct Original {
    Tensor leaf, value, grad;
  };
  SessionCore& core_;
  std::vector<Original> originals_;
};

/** Installs the cast wrappers on the session's models, and the rule that saves and loads their
 *  16-bit tensors as f32. */
void attach_models(const std::shared_ptr<SessionCore>& core);
/** Removes what attach_models() installed and empties the session's lists of models. */
void detach_models(SessionCore& core) noexcept;

}  // namespace mezzo::amp
