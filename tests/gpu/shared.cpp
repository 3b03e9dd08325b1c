// State that streams share implicitly, on a device that delays its work as long as possible: users
// cannot order it, so the library must.
#include <mezzo.h>

#include <functional>
#include <memory>
#include <thread>

#include "../emulator/streams.h"
#include "../support/catch.h"
#include "../support/values.h"
#include "cost.h"
#include "device.h"

using namespace mezzo;
using emulator::LateWork;
using gpu::Stream, gpu::StreamScope;
using testing::kDevice;
using testing::values;

namespace {

/** Runs `body` on a new thread, which has no cached state. */
void on_fresh_thread(const std::function<void()>& body) { std::thread(body).join(); }

Tensor full_leaf(double value) {
  return full({5}, value, {.dtype = f32, .device = kDevice, .requires_grad = true});
}

}  // namespace

TEST_CASE("the unit gradient is written in the stream of the backward pass",
          "[gpu][stream][shared]") {
  const Stream side(kDevice);
  on_fresh_thread([&] {
    const Tensor here = full_leaf(2), there = full_leaf(3);
    gpu::synchronize(kDevice);
    const LateWork late;
    sum(here).backward();
    const StreamScope scope(side);
    sum(there).backward();
    CHECK(values(there.grad()) == std::vector<double>(5, 1));
  });
}

TEST_CASE("the unit gradient is right in a step captured and replayed in other streams",
          "[gpu][stream][shared][graph]") {
  const Stream side(kDevice), third(kDevice);
  on_fresh_thread([&] {
    const Tensor here = full_leaf(2), there = full_leaf(3);
    there.set_grad(zeros({5}, {.device = kDevice}));
    gpu::synchronize(kDevice);
    const LateWork late;
    sum(here).backward();
    gpu::Graph graph;
    {
      const StreamScope scope(side);
      graph.capture(kDevice, [&] { sum(there).backward(); });
    }
    const StreamScope scope(third);
    graph.replay();
    CHECK(values(there.grad()) == std::vector<double>(5, 1));
  });
}

TEST_CASE("other streams use a cached weight cast once it is written", "[gpu][stream][shared]") {
  const Stream main = Stream::main(kDevice), side(kDevice);
  const Tensor weight = full({307, 3}, 0.5, {.device = kDevice, .requires_grad = true}),
               x = full({2, 307}, 2, {.device = kDevice});
  gpu::synchronize(kDevice);
  Tensor here, there;
  const LateWork late;
  {
    const amp::autocast on({.dtype = f16});
    here = matmul(x, weight);
    const StreamScope scope(side);
    for (int use = 0; use < 2; ++use) there = matmul(x, weight);
  }
  // The cast is freed before the side stream has read it. The next tensor must not reuse its block.
  here = {};
  there = there.detach();
  full({307, 3}, 7, {.dtype = f16, .device = kDevice});
  main.synchronize();
  const StreamScope scope(side);
  CHECK(values(there) == std::vector<double>(6, 307));
}

TEST_CASE("only weights used in the same stream are cast together", "[gpu][stream][shared]") {
  const Stream side(kDevice);
  const Tensor first = full_leaf(1), second = full_leaf(1);
  amp::CastCache cache;
  cache.remember_weights();
  const auto cast = [&](const Tensor& weight) {
    const Tensor found = cache.find(weight, f16);
    return found.defined() ? found : cache.cast(weight, f16);
  };
  gpu::synchronize(kDevice);
  const LateWork late;
  for (const double value : {2, 3}) {
    const NoGrad no_grad;
    second.fill_(value);  // in the main stream, the only one that reads it
    {
      const StreamScope scope(side);
      cast(first);
      side.synchronize();
    }
    CHECK(values(cast(second)) == std::vector<double>(5, value));
    cache.clear();
  }
}

TEST_CASE("a replay in another stream does not overwrite inputs that earlier replays still read",
          "[gpu][stream][shared][graph]") {
  const Stream main = Stream::main(kDevice), side(kDevice);
  const auto numbers = [&](const std::vector<Stream>& streams) {
    manual_seed(3);
    const Tensor sums = zeros({4, 5}, {.device = kDevice});
    const Tensor x = ones({5}, {.device = kDevice});
    gpu::CapturedStep step(
        [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
          return {in[0] * x + rand({5}, {.device = kDevice})};
        },
        {.device = kDevice});
    step({full({5}, -1)});
    step({full({5}, -2)});
    gpu::synchronize(kDevice);
    const LateWork late;
    for (std::int64_t i = 0; i < 4; ++i) {
      const StreamScope scope(streams[static_cast<std::size_t>(i) % streams.size()]);
      sums[i].copy_(step({full({5}, static_cast<double>(10 * i))})[0]);
    }
    gpu::synchronize(kDevice);
    return values(sums);
  };
  CHECK(numbers({main, side}) == numbers({main}));
}
