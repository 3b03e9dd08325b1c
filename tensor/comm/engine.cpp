#include "engine.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "../core/error.h"
#include "../device/parallel.h"
#include "../text/log.h"
#include "../text/text.h"

namespace mezzo::comm::detail {

namespace {

std::atomic<std::int64_t> count_limit{0};

const char* variable(const char* name) { return std::getenv(name); }

/** Returns MEZZO_COMM_TIMEOUT_S, 300 if it is not set. */
std::chrono::duration<double> timeout() {
  const char* const text = variable("MEZZO_COMM_TIMEOUT_S");
  if (!text) return std::chrono::seconds(300);
  const std::string_view digits = text;
  double seconds = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seconds);
  if (error != std::errc() || end != digits.data() + digits.size() || !(seconds > 0) ||
      !(seconds < 1e9))
    fail<ValueError>("comm::init", {.what = "MEZZO_COMM_TIMEOUT_S is wrong",
                                    .got = str("MEZZO_COMM_TIMEOUT_S=", text),
                                    .expected = "a positive number of seconds"});
  return std::chrono::duration<double>(seconds);
}

/** Throws unless MPI has the rank and size of the launcher: an MPI library that was started by
 *  another launcher than its own sees one process. Errors: CommError. */
void require_launched_size(const Launch& launch, const Transport& transport) {
  const bool fits = launch.size == 0
                        ? transport.size() > 1
                        : transport.size() == launch.size && transport.rank() == launch.rank;
  if (fits) return;
  fail<CommError>("comm::init",
                  {.what = "MPI was not started by its own launcher",
                   .got = str("rank ", transport.rank(), " of ", transport.size(), " from MPI and ",
                              describe(launch)),
                   .hint = "start with the mpirun of Open MPI: mpirun -np N PROGRAM; under Slurm "
                           "srun --mpi=pmix PROGRAM; or set MEZZO_COMM=off"});
}

std::unique_ptr<Engine> connect(const Launch& launch) {
  const auto limit = timeout();
  auto made = std::make_unique<Engine>();
  made->progress = std::make_unique<Progress>(load_mpi(launch), limit);
  try {
    made->progress->open();
  } catch (...) {
    made->progress.release();  // its thread may still use it
    throw;
  }
  const Transport& transport = made->progress->transport();
  made->local_rank = transport.local_rank();
  made->all = std::make_shared<Group>();
  made->all->rank = transport.rank();
  made->all->size = transport.size();
  for (int r = 0; r < transport.size(); ++r) made->all->world_ranks.push_back(r);
  try {
    require_launched_size(launch, transport);
  } catch (...) {
    made->progress->end();
    made->progress.release();
    throw;
  }
  mezzo::detail::set_log_rank(transport.rank());
  mezzo::detail::set_default_threads(transport.threads());
  return made;
}

/** The result of the first call, for all later ones. */
struct State {
  std::mutex mutex;
  bool called = false;
  std::exception_ptr error;
  Engine* engine = nullptr;
};
State& state() {
  static State the_state;
  return the_state;
}

void end_at_exit() { state().engine->progress->end(); }

Engine* make() {
  const Launch launch = detect_launch(variable);
  if (launch.launcher == Launcher::none || launch.size == 1) return nullptr;
  if (launch.launcher == Launcher::torchrun)
    fail<Unsupported>("comm::init",
                      {.what = "processes started by torchrun need NCCL, which this build lacks",
                       .got = describe(launch),
                       .hint = str("mpirun -np ", launch.size, " PROGRAM")});
  return connect(launch).release();
}

}  // namespace

Engine* engine() {
  State& now = state();
  const std::scoped_lock lock(now.mutex);
  if (now.error) std::rethrow_exception(now.error);
  if (now.called) return now.engine;
  try {
    now.engine = make();
    if (now.engine) std::atexit(end_at_exit);
  } catch (...) {
    now.error = std::current_exception();
    throw;
  }
  now.called = true;
  return now.engine;
}

std::int64_t max_count() {
  const std::int64_t limit = count_limit.load(std::memory_order_relaxed);
  return limit > 0 ? limit : std::int64_t{1} << 30;
}

void set_max_count(std::int64_t count) { count_limit = count; }

}  // namespace mezzo::comm::detail
