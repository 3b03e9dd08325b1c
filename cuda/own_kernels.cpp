#include "own_kernels.h"

#include <utility>

namespace mezzo::gpu {

namespace {
thread_local bool in_own_scope = false;
}

OwnKernels::OwnKernels() : outer_(std::exchange(in_own_scope, true)) {}
OwnKernels::~OwnKernels() { in_own_scope = outer_; }
bool OwnKernels::active() { return in_own_scope; }

}  // namespace mezzo::gpu
