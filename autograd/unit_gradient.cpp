#include "unit_gradient.h"

#include <vector>

#include "../tensor/capture.h"
#include "../tensor/queue_order.h"
#include "grad_mode.h"
#include "ops/create.h"

namespace mezzo {

namespace {

/** One for each queue that has asked: a queue's work comes behind its own writing of it. */
struct Known {
  Tensor one;
  Queue queue;
};

/** Those of one thread, which take their memory with them when it ends. */
std::vector<Known>& known() {
  static thread_local std::vector<Known> all;
  return all;
}

}  // namespace

Tensor unit_gradient(const Shape& shape, DType dtype, Device device) {
  const Queue queue = current_queue(device);
  for (const Known& k : known())
    if (k.queue == queue && k.one.dtype() == dtype && k.one.device() == device)
      return shape.rank() == 0 ? k.one : k.one.view(shape);
  const NoGrad no_grad;
  const Tensor one = full({}, 1, {.dtype = dtype, .device = device});
  // What is made within a captured step is that step's, and empty until it runs.
  if (!Capture::current()) known().push_back({one, queue});
  return shape.rank() == 0 ? one : one.view(shape);
}

bool is_unit_gradient(const Tensor& gradient) {
  for (const Known& k : known())
    if (gradient.raw_data() == k.one.raw_data() && gradient.device() == k.one.device()) return true;
  return false;
}

}  // namespace mezzo
