// Profiler ranges: which are opened and closed, in which order, as the emulated runtime records.
#include <mezzo.h>

#include <algorithm>
#include <utility>

#include "../../tensor/core/dispatch.h"
#include "../emulator/counters.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

using Names = std::vector<std::string>;

/** Returns the ranges of a call: names where they open, "" where they close. */
template <class F> Names ranges_of(F&& call) {
  emulator::ranges().clear();
  call();
  return std::exchange(emulator::ranges(), {});
}

struct ReluNet : nn::Model<ReluNet> {
  nn::Linear fc = add("fc", nn::Linear{3, 2});
  Tensor forward(const Tensor& x) const { return relu(fc(x)); }
};

/** Counts the hooks' calls. */
struct Observer final : NestedTrace {
  int depth = 0, entered = 0, traced = 0, backward = 0;
  void trace(const OpInfo& info, Inputs in, Outputs out) override {
    NestedTrace::trace(info, in, out);
    ++traced;
  }
  void enter_forward(const OpInfo& info) override {
    NestedTrace::enter_forward(info);
    ++depth;
    ++entered;
  }
  void leave_forward(const OpInfo& info) noexcept override {
    --depth;
    NestedTrace::leave_forward(info);
  }
  void enter_backward(const OpInfo& info) override {
    NestedTrace::enter_backward(info);
    ++depth;
  }
  void leave_backward(const OpInfo& info, Inputs gy, Inputs gradients) override {
    --depth;
    ++backward;
    NestedTrace::leave_backward(info, gy, gradients);
  }
};

}  // namespace

TEST_CASE("ranges nest as their scopes do", "[gpu][range]") {
  const Names names = ranges_of([] {
    const gpu::Range outer("epoch 1");
    const gpu::Range inner("step");
  });
  CHECK(names == Names{"epoch 1", "step", "", ""});
}

TEST_CASE("under emit_nvtx every op is a range, named by direction and module", "[gpu][range]") {
  const ReluNet net;
  const Tensor x = rand({4, 3});
  CHECK(ranges_of([&] { sum(net(x)); }).empty());
  const Names names = ranges_of([&] {
    const gpu::emit_nvtx ranges;
    sum(net(x)).backward();
  });
  const auto position = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  const auto end = static_cast<std::ptrdiff_t>(names.size());
  CHECK(position("fwd/fc/linear") < position("fwd/relu"));
  CHECK(position("fwd/relu") < position("fwd/sum"));
  CHECK(position("fwd/sum") < position("bwd/sum"));
  CHECK(position("bwd/sum") < position("bwd/relu"));
  CHECK(position("bwd/relu") < end);
  int depth = 0;
  for (const std::string& name : names) {
    depth += name.empty() ? -1 : 1;
    CHECK(depth >= 0);
  }
  CHECK(depth == 0);
  CHECK(ranges_of([&] { sum(net(x)); }).empty());
}

TEST_CASE("an op that throws closes its range, and those of the ops it calls", "[gpu][range]") {
  const Names names = ranges_of([] {
    const gpu::emit_nvtx ranges;
    CHECK_THROWS_AS(matmul(ones({2, 3}), ones({2, 3})), ShapeError);
    CHECK_THROWS_AS(add_(ones({2}), ones({3})), ShapeError);
    CHECK_THROWS_AS(zeros({2}).copy_(ones({3})), ShapeError);
  });
  CHECK(std::count(names.begin(), names.end(), "") * 2 ==
        static_cast<std::ptrdiff_t>(names.size()));
  CHECK(names.size() >= 6);
}

TEST_CASE("observers inside and outside of emit_nvtx are called as without it", "[gpu][range]") {
  const Tensor x = rand({4, 3});
  const auto work = [&] {
    const ReluNet net;  // new, so that its gradients do not accumulate
    sum(net(x)).backward();
  };
  Observer outside;
  work();
  const int traced = outside.traced, backward = outside.backward;
  CHECK((outside.depth == 0 && traced > 0 && backward > 0 && outside.entered >= traced));
  {
    const gpu::emit_nvtx ranges;
    const amp::detect_nonfinite watch;  // forwards to the ranges, which forward to the observer
    const Observer inside;
    const Names names = ranges_of(work);
    CHECK(std::count(names.begin(), names.end(), "bwd/relu") == 1);
    CHECK(std::count(names.begin(), names.end(), "fwd/relu") == 1);
    CHECK((inside.depth == 0 && inside.traced == traced && inside.backward == backward));
  }
  CHECK(outside.depth == 0);
  CHECK(outside.traced == 2 * traced);
  CHECK(outside.backward == 2 * backward);
  CHECK(thread_hooks().trace == &outside);
}
