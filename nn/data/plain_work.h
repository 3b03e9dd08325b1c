// PlainWork: the scope in which data sets work. Private to nn/data/.
#pragma once

#include "../../tensor/core/dispatch.h"
#include "../../tensor/memory/allocator.h"

namespace mezzo::data {

/** Scope for gathering batches: turns off recording and casts, and does not count memory as
 *  activations. */
struct PlainWork {
  NoGrad no_grad;
  CastScope no_casts{nullptr};
  CategoryScope not_activations{MemoryCategory::other};
};

}  // namespace mezzo::data
