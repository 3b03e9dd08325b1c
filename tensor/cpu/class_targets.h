// ClassTargets: class indices and class weights as kernels of classification losses read them, checked before any work.
// Sees: block_io.h, ../dispatch.h, ../text.h.
// Read next: cross_entropy.cpp.
#pragma once

#include <string_view>

#include "../dispatch.h"
#include "../text.h"
#include "block_io.h"

namespace mezzo::cpu_kernels {

/** Throws IndexError naming the first target that is neither ignore_index nor in 0..classes-1, and its place. Where nothing is
 *  ignored, ignore_index is the least i64. */
void require_class_range(std::string_view op, const Tensor& target, std::int64_t classes,
                         std::int64_t ignore_index);

/** `target` as row-major i64, outside the graph. */
Tensor class_indices(const Tensor& target);

template <class C> class ClassTargets {
 public:
  /** Errors: IndexError naming `op`. */
  ClassTargets(std::string_view op, const Tensor& target, const Tensor& weight, std::int64_t classes,
               std::int64_t ignore_index)
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
  /** One number per class; nullptr where all weigh 1. */
  const C* weights() const { return weight_.defined() ? weight_.template data<C>() : nullptr; }
  /** Weight of a line's class; the line is not an ignored one. */
  C weight_of(std::int64_t line) const { return weight_.defined() ? weights()[at(line)] : C(1); }
  /** Sum over the lines that count, in an order that their number alone decides. */
  C total_weight() const;

 private:
  Tensor indices_, weight_;
  std::int64_t classes_, ignore_index_;
};

extern template class ClassTargets<float>;
extern template class ClassTargets<double>;

}  // namespace mezzo::cpu_kernels
