#include "storage.h"

#include <utility>

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

Storage::Storage(void* data, std::size_t bytes, std::function<void()> release)
    : data_(data ? data : this),  // never null, see data()
      bytes_(bytes),
      device_(cpu),
      is_pinned_(false),
      is_external_(true),
      category_(current_category()),
      release_(std::move(release)) {}

Storage::~Storage() {
  if (!is_external_)
    allocator().deallocate(data_, bytes_, category_);
  else if (release_)
    release_();
}

void Storage::set_category(MemoryCategory category) {
  if (category == category_) return;
  if (!is_external_) allocator().recategorise(bytes_, category_, category);
  category_ = category;
}

}  // namespace mezzo
