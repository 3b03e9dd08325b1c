// kDevice: the device, real or emulated, that the tests run on. Options of copies to it.
#pragma once

#include <mezzo.h>

namespace mezzo::testing {

inline const Device kDevice{DeviceKind::cuda, 0};
inline constexpr CopyOptions kAsync{.non_blocking = true};
inline constexpr TensorOptions kPinned{.pin_memory = true};

}  // namespace mezzo::testing
