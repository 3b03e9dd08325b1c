#include "kept_panels.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace mezzo::cpu_kernels {

namespace {

/** Most layouts of a weight that are remembered. */
constexpr std::size_t kLayouts = 4;

struct Layout {
  PanelLayout key;
  std::shared_ptr<void> panels;  // null after the first use
};

/** What a storage keeps. */
struct Kept {
  std::uint32_t version = 0;
  std::vector<Layout> layouts;
};

std::mutex& kept_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

std::shared_ptr<void> panel_memory(std::size_t bytes) {
  void* data = allocator_for(cpu).allocate(bytes, MemoryCategory::cast_cache);
  return {data, [bytes](void* block) {
            allocator_for(cpu).deallocate(block, bytes, MemoryCategory::cast_cache);
          }};
}

}  // namespace

std::shared_ptr<void> kept_panels(Storage& weight, const PanelLayout& layout, std::size_t bytes,
                                  const std::function<void(void*)>& pack) {
  std::uint32_t version;
  {
    const std::lock_guard lock(kept_mutex());
    std::shared_ptr<void>& slot = weight.packed();
    if (!slot) slot = std::make_shared<Kept>();
    Kept& kept = *static_cast<Kept*>(slot.get());
    version = weight.version();
    if (kept.version != version) kept = {version, {}};
    const auto found = std::find_if(kept.layouts.begin(), kept.layouts.end(),
                                    [&](const Layout& l) { return l.key == layout; });
    if (found == kept.layouts.end()) {
      if (kept.layouts.size() < kLayouts) kept.layouts.push_back({layout, nullptr});
      return nullptr;
    }
    if (found->panels) return found->panels;
  }
  std::shared_ptr<void> panels = panel_memory(bytes);
  pack(panels.get());
  const std::lock_guard lock(kept_mutex());
  Kept& kept = *static_cast<Kept*>(weight.packed().get());
  if (kept.version == version)
    for (Layout& l : kept.layouts)
      if (l.key == layout) l.panels = panels;
  return panels;
}

}  // namespace mezzo::cpu_kernels
