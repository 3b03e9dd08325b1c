// The ops on matrices with tensors on a device: they run on the CPU, and the log says so once.
#include <mezzo.h>

#include "../support/catch.h"
#include "../support/throws.h"
#include "device.h"
#include "need_device.h"

using namespace mezzo;
using testing::kDevice;

TEST_CASE("an op on matrices runs on the CPU and logs that once", "[gpu][linalg]") {
  NEED_DEVICE();
  const Tensor x = tensor({{2, 1}, {1, 3}}, {.dtype = f64}), there = x.to(kDevice);
  std::vector<std::string> lines;
  const LogSink outer =
      set_log_sink([&](Severity, std::string_view line) { lines.emplace_back(line); });
  const Tensor first = linalg::inv(there), second = linalg::inv(there.t());
  set_log_sink(outer);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("inv runs on the CPU") == 0);
  CHECK(first.device() == kDevice);
  CHECK(equal(first.to(cpu), linalg::inv(x)));
  CHECK(equal(second.to(cpu), linalg::inv(x.t())));
}

TEST_CASE("the gradient of an op on matrices is on the device of its operand", "[gpu][linalg]") {
  NEED_DEVICE();
  const Tensor x = tensor({{2, 1}, {1, 3}}, {.dtype = f64}).requires_grad_();
  const Tensor there = x.detach().to(kDevice).requires_grad_();
  const Tensor g = grad({sum(linalg::svd(there).U)}, {there})[0];
  CHECK(g.device() == kDevice);
  CHECK(allclose(g.to(cpu), grad({sum(linalg::svd(x).U)}, {x})[0]));
}

TEST_CASE("a captured step refuses ops on matrices", "[gpu][linalg]") {
  NEED_DEVICE();
  const Tensor x = eye(3, {.device = kDevice});
  gpu::Graph graph;
  CHECK_THROWS_WITH_AS_TEXT(graph.capture(kDevice, [&] { linalg::cholesky(x); }), StateError,
                            "cholesky: the device is read while a step is being captured");
}
