// with_temporary(): temporary storage for functions of CUB.
#pragma once

#include "../../tensor/text/text.h"
#include "host_lines.h"
#include "kernel.h"

namespace mezzo::gpu {

/** Calls call(storage, bytes) twice, as CUB's functions want: without storage, which sets the
 * bytes, and with as much workspace. The result of a call is 0 where it succeeded. Errors:
 * CudaError, OutOfMemory. */
template <class Call>
void with_temporary(const Call& call, Device device,
                    runtime::Place place = runtime::Place::current()) {
  std::size_t bytes = 0;
  auto status = static_cast<int>(call(nullptr, bytes));
  const Tensor room = workspace(static_cast<std::int64_t>(std::max<std::size_t>(bytes, 1)), device);
  if (status == 0) status = static_cast<int>(call(room.raw_data(), bytes));
  runtime::check_launch(place);
  if (status != 0) fail<CudaError>("CUB", {.what = "a call failed", .got = str("status ", status)});
}

}  // namespace mezzo::gpu
