// ClassTargets: class indices and class weights of classification losses, checked before use.
#pragma once

#include <string_view>

#include "../../core/dispatch.h"
#include "../../cpu/block_io.h"
#include "../../text/text.h"

namespace mezzo::cpu_kernels {

/** Checks the range of the targets. Errors: IndexError naming the first target that is neither
 *  ignore_index nor in 0..classes-1, and its position. If no class is ignored, ignore_index is the
 *  least i64. */
void require_class_range(std::string_view op, const Tensor& target, std::int64_t classes,
                         std::int64_t ignore_index);

/** Returns `target` as row-major i64, detached. */
Tensor class_indices(const Tensor& target);

/** Class indices and class weights in the compute type. */
template <class C> class ClassTargets {
 public:
  /** Checks the range of the targets. Errors: IndexError naming `op`. */
  ClassTargets(std::string_view op, const Tensor& target, const Tensor& weight,
               std::int64_t classes, std::int64_t ignore_index)
      : indices_(class_indices(target)), classes_(classes), ignore_index_(ignore_index) {
    require_class_range(op, indices_, classes, ignore_index);
    if (!weight.defined()) return;
    const CastScope no_casts(nullptr);
    weight_ = weight.detach().to(dtype_of<C>()).contiguous();
  }

  std::int64_t lines() const { return indices_.numel(); }
  std::int64_t classes() const { return classes_; }
  std::int64_t at(std::int64_t line) const { return indices_.template data<std::int64_t>()[line]; }
  bool ignored(std::int64_t line) const { return at(line) == ignore_index_; }
  /** Returns one number per class; nullptr if all weights are 1. */
  const C* weights() const { return weight_.defined() ? weight_.template data<C>() : nullptr; }
  /** Returns the weight of a line's class; the line must not be ignored. */
  C weight_of(std::int64_t line) const { return weight_.defined() ? weights()[at(line)] : C(1); }
  /** Returns the sum over the lines that are not ignored, in an order that depends on their number
   *  alone. */
  C total_weight() const;

 private:
  Tensor indices_, weight_;
  std::int64_t classes_, ignore_index_;
};

extern template class ClassTargets<float>;
extern template class ClassTargets<double>;

}  // namespace mezzo::cpu_kernels
