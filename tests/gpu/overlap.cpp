// Many asynchronous copies and streams at once, on any device: a missing dependency gives wrong
// numbers in some runs.
#include <mezzo.h>

#include <vector>

#include "../support/catch.h"
#include "device.h"
#include "need_device.h"

using namespace mezzo;
using testing::kAsync;
using testing::kDevice;

namespace {

constexpr std::int64_t kCopySize = 100003;

/** Returns the value of all elements; -1 where they differ. */
double only(const Tensor& x) {
  const double low = amin(x).item<double>(), high = amax(x).item<double>();
  return low == high ? low : -1;
}

}  // namespace

TEST_CASE("pinned blocks that are freed at once are still copied correctly", "[gpu][overlap]") {
  NEED_DEVICE();
  std::vector<Tensor> there, back;
  for (int i = 0; i < 40; ++i)
    there.push_back(full({kCopySize}, i, {.pin_memory = true}).to(kDevice, kAsync) + 1);
  for (const Tensor& x : there) {
    back.push_back(x.to(cpu, kAsync));
    x.to(cpu, kAsync);  // freed before the copy is done
  }
  there.clear();
  gpu::synchronize(kDevice);
  for (int i = 0; i < 40; ++i) CHECK(only(back[static_cast<std::size_t>(i)]) == i + 1);
}

TEST_CASE("streams share memory with wait_stream and record_stream only", "[gpu][overlap]") {
  NEED_DEVICE();
  const gpu::Stream main = gpu::Stream::current(kDevice);
  std::vector<Tensor> results;
  for (int i = 0; i < 40; ++i) {
    const gpu::Stream side(kDevice, {.high_priority = i % 2 == 0});
    Tensor x = full({kCopySize}, i, {.device = kDevice});
    side.wait_stream(main);
    gpu::record_stream(x, side);
    {
      const gpu::StreamScope scope(side);
      Tensor y = x * 2;
      for (int k = 0; k < 5; ++k) y = y + 1;
      results.push_back(y);
    }
    x = {};
    full({kCopySize}, -5, {.device = kDevice});  // may reuse freed memory
    main.wait_stream(side);
  }
  for (int i = 0; i < 40; ++i) CHECK(only(results[static_cast<std::size_t>(i)]) == 2 * i + 5);
}

TEST_CASE("the time between two events is that of the work between them", "[gpu][overlap]") {
  NEED_DEVICE();
  gpu::Event begin({.enable_timing = true}), end({.enable_timing = true});
  begin.record();
  Tensor x = ones({kCopySize}, {.device = kDevice});
  for (int k = 0; k < 5; ++k) x = x * 2;
  end.record();
  end.synchronize();
  CHECK((begin.query() && end.query()));
  CHECK(begin.elapsed_time(end) > 0);
  CHECK(only(x) == 32);
}
