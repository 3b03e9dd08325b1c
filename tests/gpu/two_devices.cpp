// Copies between two devices that delay their work as long as possible: the streams of both order
// them, and the host does not synchronise.
#include <mezzo.h>

#include "../emulator/streams.h"
#include "../support/catch.h"
#include "../support/values.h"
#include "cost.h"

using namespace mezzo;
using emulator::LateWork;
using gpu::Stream, gpu::StreamScope;
using testing::values;

namespace {

const Device kFirst{DeviceKind::cuda, 0}, kSecond{DeviceKind::cuda, 1};

std::vector<double> all(double value) { return std::vector<double>(5, value); }

Tensor filled(double value, Device device) { return full({5}, value, {.device = device}); }

}  // namespace

TEST_CASE("a copy to another device is ordered after earlier uses of its memory",
          "[gpu][stream][devices]") {
  filled(0, kSecond);  // leaves a block in the cache
  gpu::synchronize(kSecond);
  const Tensor x = filled(3, kFirst);
  const LateWork late;
  const void* block = filled(-1, kSecond).raw_data();
  const Tensor y = x.to(kSecond);
  CHECK(y.raw_data() == block);
  CHECK(values(y) == all(3));
}

TEST_CASE("a copy into another device's tensor is ordered between earlier and later work",
          "[gpu][stream][devices]") {
  const Tensor x = filled(3, kFirst), y = filled(0, kSecond);
  const LateWork late;
  y.fill_(4);
  const Tensor before = y + 1;
  y.copy_(x);
  const Tensor after = y + 1;
  x.fill_(7);
  CHECK(values(after) == all(4));
  CHECK(values(before) == all(5));
  CHECK(values(y) == all(3));
  CHECK(values(x) == all(7));
}

TEST_CASE("source and copy may be freed at once on both devices", "[gpu][stream][devices]") {
  filled(0, kFirst);
  gpu::synchronize(kFirst);
  const LateWork late;
  Tensor x = filled(3, kFirst);
  Tensor y = x.to(kSecond);
  x = {};
  const Tensor instead = filled(-1, kFirst);
  const Tensor z = y * 2;
  y.to(kFirst);
  y = {};
  const Tensor there_instead = filled(-2, kSecond);
  CHECK(values(z) == all(6));
  CHECK(values(instead) == all(-1));
  CHECK(values(there_instead) == all(-2));
}

TEST_CASE("a copy between devices does not synchronise and uses the current streams",
          "[gpu][stream][devices]") {
  const Stream from(kFirst), to(kSecond);
  const LateWork late;
  const StreamScope first(from), second(to);
  Tensor y;
  const emulator::Counters cost = cost_of([&] { y = filled(3, kFirst).to(kSecond) + 1; });
  CHECK(cost.synchronisations == 0);
  CHECK(!from.query());
  CHECK(!to.query());
  gpu::synchronize(kSecond);
  CHECK(to.query());
  CHECK(values(y) == all(4));
}

TEST_CASE("a net split over two devices trains as on one", "[gpu][stream][devices]") {
  const auto trained = [](Device half, Device other) {
    manual_seed(4);
    nn::Linear first{6, 8}, second{8, 3};
    first.to(half);
    second.to(other);
    std::vector<Tensor> parameters = first.parameters();
    for (const Tensor& p : second.parameters()) parameters.push_back(p);
    optim::SGD optimizer(parameters, {.lr = 0.1, .momentum = 0.9});
    for (int i = 0; i < 3; ++i) {
      const Tensor x = rand({4, 6}).to(half);
      optimizer.zero_grad();
      sum(square(second(relu(first(x)).to(other)))).backward();
      optimizer.step();
    }
    std::vector<double> all;
    for (const Tensor& p : parameters)
      for (const double v : values(p)) all.push_back(v);
    return all;
  };
  const std::vector<double> expected = trained(kFirst, kFirst);
  const LateWork late;
  CHECK(trained(kFirst, kSecond) == expected);
  CHECK(trained(kSecond, kFirst) == expected);
}
