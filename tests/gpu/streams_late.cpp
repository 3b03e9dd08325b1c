// Streams and events on a device that delays its work as long as possible: only explicit
// dependencies are ordered.
#include <mezzo.h>

#include "../emulator/memory.h"
#include "../emulator/streams.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "../support/values.h"
#include "cost.h"
#include "device.h"

using namespace mezzo;
using emulator::LateWork;
using gpu::Event, gpu::Stream, gpu::StreamScope;
using testing::kDevice;
using testing::values;

TEST_CASE("events report completion and time", "[gpu][stream]") {
  Event begin({.enable_timing = true}), end({.enable_timing = true}), plain;
  const std::string op = "Event.elapsed_time: ";
  CHECK((begin.query() && plain.query()));
  plain.synchronize();
  CHECK_THROWS_WITH_AS_TEXT(begin.elapsed_time(end), StateError,
                            op + "an event was never recorded");
  const LateWork late;
  begin.record();
  Tensor x = ones({1000}, {.device = kDevice});
  for (int i = 0; i < 5; ++i) x = x * 2;
  end.record(Stream::current(kDevice));
  plain.record();
  CHECK((!begin.query() && !end.query() && !Stream::main(kDevice).query()));
  CHECK_THROWS_WITH_AS_TEXT(begin.elapsed_time(end), StateError,
                            op + "an event has not been reached yet");
  CHECK_THROWS_WITH_AS_TEXT(begin.elapsed_time(plain), StateError,
                            op + "an event was created without timing");
  begin.synchronize();
  CHECK((begin.query() && !end.query()));
  end.synchronize();
  CHECK((end.query() && !plain.query()));
  CHECK(begin.elapsed_time(end) > 0);
  Event moved = std::move(end);
  CHECK(begin.elapsed_time(moved) > 0);
  moved.record();
  CHECK(!moved.query());
  gpu::synchronize(kDevice);
  CHECK((moved.query() && plain.query() && Stream::main(kDevice).query()));
}

TEST_CASE("a stream sees another's work after wait_stream, without a host synchronisation",
          "[gpu][stream]") {
  const Tensor source = rand({300});
  const LateWork late;
  const Stream side(kDevice), third(kDevice);
  const Tensor x = zeros({300}, {.device = kDevice});
  gpu::synchronize(kDevice);
  Tensor early, y, z;
  const emulator::Counters cost = cost_of([&] {
    x.copy_(source);
    {
      const StreamScope scope(third);
      early = x * 2;  // without wait_stream
    }
    side.wait_stream(Stream::main(kDevice));
    {
      const StreamScope scope(side);
      y = x * 2;
    }
    const Event done = side.record_event();
    done.wait(Stream::main(kDevice));
    z = y * 3;
  });
  CHECK(cost.synchronisations == 0);
  third.synchronize();
  {
    const StreamScope scope(third);
    CHECK(values(early) == std::vector<double>(300, 0));
  }
  CHECK(values(z) == values(source * 2 * 3));
}

TEST_CASE("a freed block is reused in its own stream, after other streams have finished with it",
          "[gpu][stream]") {
  const LateWork late;
  const Stream main = Stream::main(kDevice), side(kDevice);
  const auto address = [](Tensor x) { return x.raw_data(); };
  const auto make = [] { return empty({77777}, {.device = kDevice}); };
  const void* of_main = address(make());
  const void* of_side = nullptr;
  {
    const StreamScope scope(side);
    of_side = address(make());
    CHECK(of_side != of_main);
    CHECK(address(make()) == of_side);
  }
  CHECK(address(make()) == of_main);

  Tensor x = make(), y;
  CHECK(x.raw_data() == of_main);
  x.fill_(3);
  side.wait_stream(main);
  gpu::record_stream(x, side);
  gpu::record_stream(x, main);  // has no effect
  {
    const StreamScope scope(side);
    y = x + 1;
    x = {};  // freed in another stream's scope; it still belongs to main
  }
  Tensor other = make();
  CHECK(other.raw_data() != of_main);
  other.fill_(-1);
  main.synchronize();
  CHECK(address(make()) != of_main);
  side.synchronize();
  CHECK(address(make()) == of_main);
  CHECK(y.to_vector<int>() == std::vector<int>(77777, 4));
}

TEST_CASE("before OutOfMemory, memory that other streams use is synchronised and reused",
          "[gpu][stream][memory]") {
  gpu::synchronize(kDevice);
  empty_cache(kDevice);
  const MemoryStats before = memory_stats(kDevice);
  emulator::set_memory_size(emulator::memory_taken() + 1000000);
  const Stream side(kDevice);
  {
    const LateWork late;
    Tensor x = full({150000}, 2, {.device = kDevice}), y;
    side.wait_stream(Stream::main(kDevice));
    gpu::record_stream(x, side);
    {
      const StreamScope scope(side);
      y = sum(x);
      const Tensor cached = empty({50000}, {.device = kDevice});
    }
    x = {};
    CHECK(full({200000}, 1, {.device = kDevice})[199999].item<int>() == 1);
    CHECK(y.item<int>() == 300000);
    CHECK_THROWS_AS(empty({300000}, {.device = kDevice}), OutOfMemory);
    const StreamScope scope(side);
    CHECK_THROWS_AS(empty({300000}, {.device = kDevice}), OutOfMemory);
  }
  emulator::set_memory_size(std::size_t{16} << 30);
  empty_cache(kDevice);
  CHECK(memory_stats(kDevice).total.current == before.total.current);
  CHECK(memory_stats(kDevice).reserved == before.reserved);
}

TEST_CASE("a bad index is reported when its stream is synchronised, and not lost before",
          "[gpu][stream]") {
  const Tensor x = ones({4}, {.device = kDevice}), other = ones({3}, {.device = kDevice});
  const Tensor bad = full({3}, 9, {.dtype = i64, .device = kDevice});
  gpu::synchronize(kDevice);
  const std::string text = "gather: index out of range; got 9";
  const Stream side(kDevice);
  for (const bool whole_device : {false, true}) {
    const LateWork late;
    side.wait_stream(Stream::main(kDevice));
    {
      const StreamScope scope(side);
      gather(x, 0, bad);
    }
    CHECK(values(other) == std::vector<double>(3, 1));  // synchronises with main only
    if (whole_device)
      CHECK_THROWS_WITH_AS_TEXT((gpu::synchronize(kDevice), 0), IndexError, text);
    else
      CHECK_THROWS_WITH_AS_TEXT((side.synchronize(), 0), IndexError, text);
    gpu::synchronize(kDevice);  // reported only once
  }
}

TEST_CASE("an output of a model that another stream reads first", "[gpu][stream]") {
  const nn::Linear net{16, 500};
  net.to(kDevice);
  const auto session = amp::initialize(net, {.opt_level = "O2", .verbosity = 0});
  const Tensor x = rand({9, 16}).to(kDevice),
               target = zeros({9}, {.dtype = i64, .device = kDevice});
  const std::vector<double> expected = values(net(x).detach() * 6);
  const double loss = cross_entropy(net(x), target).item<double>();
  for (int i = 0; i < 3; ++i) {
    gpu::synchronize(kDevice);
    const LateWork late;
    const Stream main = Stream::main(kDevice), side(kDevice);
    const Tensor y = net(x).detach();
    Tensor on_side, on_main, loss_on_side;
    side.wait_stream(main);
    {
      const StreamScope scope(side);
      loss_on_side = cross_entropy(y, target);
      on_side = y * 6;
    }
    on_main = y * 6;
    main.wait_stream(side);
    gpu::record_stream(on_side, main);
    CHECK(values(on_main) == expected);
    CHECK(values(on_side) == expected);
    CHECK(loss_on_side.item<double>() == loss);
  }
}
