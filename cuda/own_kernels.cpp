#include "own_kernels.h"

#include <utility>

namespace mezzo::gpu {

namespace {
thread_local bool in_scope = false;
}

OwnKernels::OwnKernels() : outer_(std::exchange(in_scope, true)) {}
OwnKernels::~OwnKernels() { in_scope = outer_; }
bool OwnKernels::active() { return in_scope; }

}  // namespace mezzo::gpu
