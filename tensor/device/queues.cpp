#include "queues.h"

#include "../core/tensor.h"
#include "../memory/allocator.h"
#include "../memory/storage.h"
#include "backend.h"

namespace mezzo {

DeviceQueue current_queue(Device device) {
  return device == cpu ? nullptr : find_backend(device.kind)->queues().current(device);
}

void put_behind(const Queues& queues, const QueueOf& later, const QueueOf& earlier) {
  const QueueMark mark = queues.make_mark(earlier.device, false);
  try {
    queues.place(mark, earlier.device, earlier.queue);
    queues.hold(later.device, later.queue, mark);
  } catch (...) {
    queues.drop_mark(mark);
    throw;
  }
  queues.drop_mark(mark);
}

void share_with_current(const Tensor& x, DeviceQueue writer) {
  const Device device = x.device();
  const DeviceQueue reader = current_queue(device);
  if (reader == writer) return;
  put_behind(find_backend(device.kind)->queues(), {device, reader}, {device, writer});
  allocator_for(device).record_use(x.impl()->storage->data(), device, reader);
}

}  // namespace mezzo
