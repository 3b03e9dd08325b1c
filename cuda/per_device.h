// per_device: what the room keeps once for each device, such as a library's handle and plans.
// Sees: ../tensor/device.h.
// Read next: blas.cpp, dnn.cpp, dnn_recurrent.cpp (who keep something).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "../tensor/device.h"

namespace mezzo::gpu {

/** The device's T, made of the arguments at its first use, by whichever thread; never destroyed: tensors may outlive main. */
template <class T, class... Arguments> T& per_device(Device device, const Arguments&... arguments) {
  static std::mutex mutex;
  static auto& all = *new std::vector<std::unique_ptr<T>>;
  const std::lock_guard lock(mutex);
  const auto index = static_cast<std::size_t>(device.index);
  if (all.size() <= index) all.resize(index + 1);
  if (!all[index]) all[index] = std::make_unique<T>(arguments...);
  return *all[index];
}

}  // namespace mezzo::gpu
