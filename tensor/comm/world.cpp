#include "world.h"

#include <exception>
#include <utility>

#include "../device/backend.h"
#include "../text/log.h"
#include "../text/text.h"
#include "engine.h"

namespace mezzo::comm {

World::World(detail::Engine* engine, bool reports)
    : engine_(engine), exceptions_(std::uncaught_exceptions()), reports_(reports) {}

World::World(World&& other) noexcept
    : engine_(other.engine_),
      exceptions_(other.exceptions_),
      reports_(std::exchange(other.reports_, false)) {}

World::~World() {
  if (reports_ && std::uncaught_exceptions() > exceptions_)
    engine_->progress->leave("left its work: an exception");
}

int World::rank() const { return engine_ ? engine_->all->rank : 0; }
int World::size() const { return engine_ ? engine_->all->size : 1; }
int World::local_rank() const { return engine_ ? engine_->local_rank : 0; }
Communicator World::all() const {
  return engine_ ? Communicator(engine_, engine_->all) : Communicator();
}

Device World::device() const {
  const Backend* const gpu = find_backend(DeviceKind::cuda);
  const int count = gpu ? gpu->device_count() : 0;
  if (local_rank() < count) return {DeviceKind::cuda, local_rank()};
  if (count > 0)
    log_text(Severity::warning, str("comm: no GPU for local rank ", local_rank(), "; there are ",
                                    count, "; it uses the CPU"));
  return cpu;
}

World init() {
  static std::atomic<bool> reported{false};
  detail::Engine* const engine = detail::engine();
  return World(engine, engine && !reported.exchange(true));
}

}  // namespace mezzo::comm
