#include "unit_gradient.h"

#include <vector>

#include "../core/dispatch.h"
#include "../device/capture.h"
#include "../device/queues.h"
#include "create.h"

namespace mezzo {

namespace {

/** A shared 1 of one queue. Work on that queue is ordered after the write of the 1. */
struct CachedOne {
  Tensor one;
  DeviceQueue queue;
};

/** Returns the cache of this thread, which is freed when the thread ends. */
std::vector<CachedOne>& cache() {
  static thread_local std::vector<CachedOne> all;
  return all;
}

}  // namespace

Tensor unit_gradient(const Shape& shape, DType dtype, Device device) {
  const DeviceQueue queue = current_queue(device);
  for (const CachedOne& c : cache())
    if (c.queue == queue && c.one.dtype() == dtype && c.one.device() == device)
      return shape.rank() == 0 ? c.one : c.one.view(shape);
  const NoGrad no_grad;
  const Tensor one = full({}, 1, {.dtype = dtype, .device = device});
  // A tensor made during a capture belongs to the captured step and is not filled until it runs.
  if (!Capture::current()) cache().push_back({one, queue});
  return shape.rank() == 0 ? one : one.view(shape);
}

bool is_unit_gradient(const Tensor& gradient) {
  for (const CachedOne& c : cache())
    if (gradient.raw_data() == c.one.raw_data() && gradient.device() == c.one.device()) return true;
  return false;
}

}  // namespace mezzo
