#include "storage.h"

#include "../core/error.h"
#include "../text/text.h"

namespace mezzo {

Storage::Storage(std::size_t bytes, Device device, bool pinned)
    : data_(nullptr),
      bytes_(bytes),
      device_(device),
      is_pinned_(pinned),
      category_(current_category()) {
  if (pinned && !(device == cpu))
    fail<DeviceError>(
        "pin_memory",
        {.what = "memory of a device is not pinned", .got = str(device), .expected = str(cpu)});
  data_ = allocator().allocate(bytes, category_);
}

Storage::~Storage() { allocator().deallocate(data_, bytes_, category_); }

void Storage::set_category(MemoryCategory category) {
  if (category == category_) return;
  allocator().recategorise(bytes_, category_, category);
  category_ = category;
}

}  // namespace mezzo
