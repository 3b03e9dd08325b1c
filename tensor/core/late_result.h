// Late results: what an op computes when it is first read, and never if only kernels read it that
// take its operand instead.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "op.h"

namespace mezzo {

/** What errors say about a late result. */
struct LateTexts {
  std::string_view op;        // the function that made it
  std::string_view read;      // that it is read in a capture, but was made before
  std::string_view modified;  // that its operand was modified before it was read
  std::string_view hint;      // what to do then
};

/** Returns true if an op on x can be late: where work goes to the main queue of the device, no
 *  caller has the address of x, and no hook wants to see each op run. */
bool can_be_late(const Tensor& x);

/** Options of late_result(). */
struct LateOptions {
  std::size_t kept = 1;    // so many of the first operands must stay as they are meanwhile
  std::uint64_t name = 0;  // for write_late_result(); 0: none
  bool traced = true;      // false: trace hooks see the op that it is a part of
};

/** Returns the one result of an op of `info`, contiguous, with its gradient. Its memory is
 * allocated and computed when it is first asked for; until then in[0], or as many operands as the
 * options say, must stay as they are. Results of a captured step that exist at its end are computed
 * there, because replays must write what is read after them. Errors: those of the op's shape rule;
 * when it is read, StateError if an operand was modified, and CapturePostponed in a capture that
 * began after the result was made. */
Tensor late_result(const OpInfo& info, std::vector<Tensor> in, std::shared_ptr<const void> attrs,
                   const LateTexts& texts, const LateOptions& options = {});

/** Returns a name that no late result has. */
std::uint64_t new_late_name();

/** Has write(y) compute the late result with the name, in place of its kernel. Returns false,
 *  without a call, if it is computed, no longer exists, or cannot be computed by this thread now.
 *  Errors: OutOfMemory and those of write(); the result is then still late. */
bool write_late_result(std::uint64_t name, const std::function<void(Tensor& y)>& write);

/** Returns a tensor over memory of a storage, which need not exist yet. */
Tensor tensor_over(Ref<Storage> storage, DType dtype, const Shape& shape, const Strides& strides,
                   std::int64_t offset = 0);

/** Computes the late results that read x as their second operand, before x changes. */
void compute_late_results_of(const Tensor& x);

/** Returns the elements of in[0] that become those of x, which is a late result of `info` or a view
 *  of one, with the shape and strides of x; undefined if x is none, or if this thread's work goes
 *  into another queue than the main one. Errors: StateError if in[0] was modified. */
Tensor late_operand(const OpInfo& info, const Tensor& x);

/** Returns the operands of x, which is a late result of `info` as it was made, for a kernel that
 *  reads them instead; none if it is no such result, or if this thread's work goes into another
 *  queue than the main one. Errors: StateError if one was modified. */
std::vector<Tensor> late_operands(const OpInfo& info, const Tensor& x);

// ---- channels-last memory of row-major results --------------------------------------------------

/** Returns a row-major tensor with the elements of x, which is dense and channels-last: a late
 *  copy, or a view where both formats have one order. */
Tensor late_row_major(const Tensor& x);

/** Returns the channels-last tensor that x is a late copy of; undefined if it is none, or if this
 *  thread's work goes into another queue than the main one. */
Tensor channels_last_source(const Tensor& x);

/** Returns whether one of the tensors, which may be undefined, has a late write. */
inline bool any_is_late(std::span<const Tensor> tensors) {
  for (const Tensor& x : tensors)
    if (x.defined() && x.impl()->storage->is_late()) return true;
  return false;
}

/** Replaces operands that are late copies of channels-last tensors by those tensors, so that
 *  nothing is copied to row-major order and back. Returns whether it replaced one. `result` is the
 *  shape of the op's first result. An elementwise kernel needs all operands of that shape in one
 *  order: if one is row-major only, nothing is replaced. */
bool take_channels_last(const OpInfo& info, std::span<Tensor> operands, const Shape& result);

}  // namespace mezzo
