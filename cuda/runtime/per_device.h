// per_device: objects that exist once per device, such as a library's handle and plans.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "../../tensor/device/device.h"

namespace mezzo::gpu {

/** Returns the device's T, constructed from the arguments at its first use on any thread. It is
 *  never destroyed, because tensors may outlive main. */
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
