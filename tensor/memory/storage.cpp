#include "storage.h"

#include <mutex>
#include <utility>

#include "../core/error.h"
#include "../device/backend.h"
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

Storage::Storage(std::size_t bytes, Device device, std::shared_ptr<LateWrite> late)
    : data_(nullptr),
      bytes_(bytes),
      device_(device),
      is_pinned_(false),
      category_(current_category()) {
  (void)allocator();  // throws if the device is absent
  set_late_write(std::move(late));
}

Storage::~Storage() {
  if (!is_external_ && data_)
    allocator().deallocate(data_, bytes_, category_);
  else if (release_)
    release_();
}

void Storage::set_category(MemoryCategory category) {
  if (category == category_) return;
  if (!is_external_ && data_) allocator().recategorise(bytes_, category_, category);
  category_ = category;
}

// ---- late writes --------------------------------------------------------------------------------

LateWrite::~LateWrite() = default;

namespace {

// Guards all late writes. Recursive: a write may read other storages that have one.
std::recursive_mutex& late_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/** Puts this thread's work for a device into its main queue. */
class MainQueueScope {
 public:
  explicit MainQueueScope(Device device) : device_(device), outer_(current_queue(device)) {
    if (outer_) queues().set_current(device_, nullptr);
  }
  ~MainQueueScope() {
    if (outer_) queues().set_current(device_, outer_);
  }
  MainQueueScope(const MainQueueScope&) = delete;
  MainQueueScope& operator=(const MainQueueScope&) = delete;

  /** Lets the queue that was current use a block that the main queue has written. */
  void share(Allocator& allocator, void* block) const {
    if (!outer_) return;
    put_behind(queues(), {device_, outer_}, {device_, nullptr});
    allocator.record_use(block, device_, outer_);
  }

 private:
  const Queues& queues() const { return find_backend(device_.kind)->queues(); }

  Device device_;
  DeviceQueue outer_;
};

}  // namespace

void Storage::set_late_write(std::shared_ptr<LateWrite> late) {
  const std::lock_guard lock(late_mutex());
  late_ = std::move(late);
  is_late_.store(late_ != nullptr, std::memory_order_release);
}

std::shared_ptr<LateWrite> Storage::late_write() const {
  const std::lock_guard lock(late_mutex());
  return late_;
}

void Storage::run_late_write() const {
  const std::lock_guard lock(late_mutex());
  if (!late_) return;  // it has run meanwhile, or runs in this call of data()
  Storage& self = const_cast<Storage&>(*this);
  const MainQueueScope main_queue(device_);
  if (!data_) self.data_ = allocator().allocate(bytes_, category_);
  const std::shared_ptr<LateWrite> late = std::exchange(self.late_, nullptr);
  try {
    late->run(self);
    main_queue.share(allocator(), data_);
  } catch (...) {
    self.late_ = late;
    throw;
  }
  self.is_late_.store(late_ != nullptr, std::memory_order_release);
}

}  // namespace mezzo
