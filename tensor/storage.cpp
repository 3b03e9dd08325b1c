#include "storage.h"

namespace mezzo {

Storage::Storage(std::size_t bytes, Device device)
    : data_(nullptr), bytes_(bytes), device_(device), category_(current_category()) {
  data_ = allocator_for(device).allocate(bytes, category_);
}

Storage::~Storage() { allocator_for(device_).deallocate(data_, bytes_, category_); }

void Storage::set_category(MemoryCategory category) {
  if (category == category_) return;
  allocator_for(device_).recategorise(bytes_, category_, category);
  category_ = category;
}

}  // namespace mezzo
