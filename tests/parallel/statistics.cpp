// What DistributedDataParallel says about the cost of its reductions.
#include "trainees.h"

using namespace trainees;

namespace {

/** A linear layer, which is 16-bit at O2, and batch norm, which stays f32. */
nn::Sequential model() {
  manual_seed(1);
  return nn::Sequential(nn::Linear(6, 8), nn::BatchNorm1d(8));
}

constexpr std::int64_t kLinear = 6 * 8 + 8, kNorm = 2 * 8;

void backward(const nn::Sequential& net, optim::Optimizer& optimizer, bool delay) {
  const Tensor x = seeded(3, [] { return randn({4, 6}); });
  amp::scale_loss(sum(square(net(x).to(f32))), optimizer, {.delay_unscale = delay},
                  [](const Tensor& loss) { loss.backward(); });
}

}  // namespace

TEST_CASE("bytes are the sum over parameters of the item size of their gradient") {
  if (ranks().size() == 1) return;
  struct Case {
    const char* level;
    nn::ReduceDtype reduce_dtype;
    std::int64_t linear_bytes;  // of an element
  };
  using enum nn::ReduceDtype;
  for (const auto& [level, reduce_dtype, linear_bytes] :
       {Case{"O0", automatic, 4}, Case{"O1", automatic, 4}, Case{"O2", automatic, 2},
        Case{"O5", same, 2}, Case{"O2", f32, 4}}) {
    INFO(level << ", " << static_cast<int>(reduce_dtype));
    const nn::Sequential net = model();
    const MadeOptimizer optimizer = make_optimizer("SGD", net);
    const auto session = amp::initialize(net, *optimizer, quiet(level));
    const nn::DistributedDataParallel<nn::Sequential> parallel(
        net, {.comm = ranks(), .first_bucket_mib = 1e-5, .reduce_dtype = reduce_dtype});
    CHECK(parallel.statistics().passes == 0);
    CHECK(parallel.statistics().bytes == 0);
    double seconds = 0, exposed = 0;
    for (int pass = 1; pass <= 3; ++pass) {
      backward(net, *optimizer, false);
      const nn::ReductionStatistics now = parallel.statistics();
      CHECK(now.passes == pass);
      CHECK(now.bytes == pass * (linear_bytes * kLinear + 4 * kNorm));
      CHECK(now.seconds > seconds);
      CHECK(now.exposed_seconds > exposed);
      seconds = now.seconds;
      exposed = now.exposed_seconds;
    }
  }
}

TEST_CASE("passes that reduce nothing do not count") {
  if (ranks().size() == 1) return;
  const nn::Sequential net = model();
  const MadeOptimizer optimizer = make_optimizer("SGD", net);
  const auto session = amp::initialize(net, *optimizer, quiet("O1"));
  nn::DistributedDataParallel<nn::Sequential> parallel(net, {.comm = ranks()});
  {
    const auto local = parallel.no_sync();
    backward(net, *optimizer, true);
  }
  CHECK(parallel.statistics().passes == 0);
  CHECK(parallel.statistics().seconds == 0);
  backward(net, *optimizer, false);
  CHECK(parallel.statistics().passes == 1);
  parallel.close();
  CHECK(parallel.statistics().passes == 0);
}

TEST_CASE("a group of one rank reduces nothing") {
  const nn::Sequential net = model();
  const MadeOptimizer optimizer = make_optimizer("SGD", net);
  const auto session = amp::initialize(net, *optimizer, quiet("O0"));
  const nn::DistributedDataParallel<nn::Sequential> parallel(net, {.comm = comm::Communicator()});
  backward(net, *optimizer, false);
  CHECK(parallel.statistics().passes == 0);
  CHECK(parallel.statistics().bytes == 0);
}

TEST_CASE("an operation knows how long it ran") {
  if (ranks().size() == 1) return;
  const Tensor x = ones({4});
  comm::Pending pending = ranks().all_reduce(x);
  pending.wait();
  const double seconds = pending.seconds();
  CHECK(seconds > 0);
  pending.wait();  // again: returns at once
  CHECK(pending.done());
  CHECK(pending.seconds() == seconds);
  CHECK(comm::Pending().seconds() == 0);
}
