// Streams and events, on a device that does its work as late as it may: only what was asked to come first has come first.
#include <mezzo.h>

#include <functional>
#include <memory>
#include <set>
#include <thread>

#include "../emulator/memory.h"
#include "../emulator/streams.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "cost.h"

using namespace mezzo;
using emulator::LateWork;
using gpu::Event, gpu::Stream, gpu::StreamScope;

namespace {

const Device kDevice{DeviceKind::cuda, 0};

std::vector<double> values(const Tensor& x) { return x.to_vector<double>(); }

/** The bits of a net after some steps with matrix products, a norm and an optimizer. */
std::vector<double> trained() {
  manual_seed(5);
  nn::Linear first{12, 16}, second{16, 3};
  nn::LayerNorm norm{Shape{16}};
  for (nn::Module* m :
       {static_cast<nn::Module*>(&first), static_cast<nn::Module*>(&second), static_cast<nn::Module*>(&norm)})
    m->to(kDevice);
  std::vector<Tensor> parameters = first.parameters();
  for (const Tensor& p : second.parameters()) parameters.push_back(p);
  for (const Tensor& p : norm.parameters()) parameters.push_back(p);
  optim::FusedAdam optimizer(parameters, {.lr = 0.01});
  for (int i = 0; i < 4; ++i) {
    const Tensor x = rand({9, 12}, {.device = kDevice});
    const Tensor y = remainder(arange(9).to(i64), 3).to(kDevice);
    optimizer.zero_grad();
    cross_entropy(second(norm(relu(first(x)))), y).backward();
    optimizer.step();
  }
  std::vector<double> all;
  for (const Tensor& p : parameters)
    for (const double v : values(p)) all.push_back(v);
  return all;
}

}  // namespace

TEST_CASE("streams come from a pool, are current by scope and by thread", "[gpu][stream]") {
  std::set<void*> handles;
  const Stream main = Stream::main(kDevice);
  const Stream first(kDevice);
  for (int i = 1; i < 32; ++i) handles.insert(Stream(kDevice).handle());
  CHECK(handles.size() == 31);
  CHECK(handles.count(first.handle()) == 0);
  CHECK(Stream(kDevice) == first);
  const Stream urgent(kDevice, {.high_priority = true});
  CHECK(handles.count(urgent.handle()) == 0);
  CHECK(!(urgent == first));
  CHECK(first.device() == kDevice);
  CHECK(Stream::current(kDevice) == main);
  {
    const StreamScope outer(first);
    CHECK(Stream::current(kDevice) == first);
    {
      const StreamScope inner(urgent);
      CHECK(Stream::current() == urgent);
      bool is_main = false;
      std::thread([&] { is_main = Stream::current(kDevice) == main; }).join();
      CHECK(is_main);
    }
    CHECK(Stream::current(kDevice) == first);
  }
  CHECK(Stream::current(kDevice) == main);
}

TEST_CASE("streams of what has none are refused, and so is their order within a capture", "[gpu][stream]") {
  const std::string text = "Stream: streams are those of a CUDA device; got ";
  for (const Device absent : {cpu, Device{DeviceKind::cuda, 63}, Device{DeviceKind::cuda, -1}}) {
    CHECK_THROWS_WITH_AS_TEXT(Stream(absent), DeviceError, text + str(absent));
    CHECK_THROWS_WITH_AS_TEXT(Stream::current(absent), DeviceError, text + str(absent));
    CHECK_THROWS_WITH_AS_TEXT(Stream::main(absent), DeviceError, text + str(absent));
  }
  CHECK_THROWS_WITH_AS_TEXT((gpu::synchronize({DeviceKind::cuda, 63}), 0), DeviceError, text + "cuda:63");
  gpu::synchronize(cpu);
  const Stream side(kDevice);
  CHECK_THROWS_WITH_AS_TEXT((gpu::record_stream(ones({2}), side), 0), DeviceError,
                            "f32[2]@cpu and a stream of cuda:0");
  CHECK_THROWS_WITH_AS_TEXT((gpu::record_stream({}, side), 0), ValueError, "undefined");
  const Tensor x = ones({2}, {.device = kDevice});
  Event event;
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"StreamScope", [&] { const StreamScope scope(side); }},
      {"Stream.wait_event", [&] { side.wait_event(event); }},
      {"Stream.wait_stream", [&] { side.wait_stream(Stream::main(kDevice)); }},
      {"Stream.query", [&] { side.query(); }},
      {"Stream.synchronize", [&] { side.synchronize(); }},
      {"Event.record", [&] { event.record(side); }},
      {"Event.synchronize", [&] { event.synchronize(); }},
      {"synchronize", [&] { gpu::synchronize(kDevice); }},
      {"record_stream", [&] { gpu::record_stream(x, side); }},
  };
  for (const auto& call : calls) {
    gpu::Graph graph;
    CHECK_THROWS_WITH_AS_TEXT(
        (graph.capture(kDevice, call.second), 0), StateError,
        std::string(call.first) + ": streams are ordered while a step is being captured");
    CHECK(Stream::current(kDevice) == Stream::main(kDevice));
    CHECK(values(x + 1) == std::vector<double>{2, 2});
  }
}

TEST_CASE("events tell what was reached, and when", "[gpu][stream]") {
  Event begin({.enable_timing = true}), end({.enable_timing = true}), plain;
  const std::string op = "Event.elapsed_time: ";
  CHECK((begin.query() && plain.query()));
  plain.synchronize();
  CHECK_THROWS_WITH_AS_TEXT(begin.elapsed_time(end), StateError, op + "an event was never recorded");
  const LateWork late;
  begin.record();
  Tensor x = ones({1000}, {.device = kDevice});
  for (int i = 0; i < 5; ++i) x = x * 2;
  end.record(Stream::current(kDevice));
  plain.record();
  CHECK((!begin.query() && !end.query() && !Stream::main(kDevice).query()));
  CHECK_THROWS_WITH_AS_TEXT(begin.elapsed_time(end), StateError, op + "an event was not reached yet");
  CHECK_THROWS_WITH_AS_TEXT(begin.elapsed_time(plain), StateError, op + "an event does not keep time");
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

TEST_CASE("a stream sees another's work once it waits for it, which costs the host nothing",
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
      early = x * 2;  // nobody told it to wait
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

TEST_CASE("a freed block serves the stream it was made in, others once they are done with it",
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
  gpu::record_stream(x, main);  // says nothing new
  {
    const StreamScope scope(side);
    y = x + 1;
    x = {};  // let go in another stream's scope: it is main's all the same
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

TEST_CASE("memory that other streams work with is waited for before the device counts as full",
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

TEST_CASE("training gives the same bits in any stream", "[gpu][stream]") {
  const std::vector<double> expected = trained();
  const LateWork late;
  CHECK(trained() == expected);
  const StreamScope scope{Stream(kDevice)};
  CHECK(trained() == expected);
}

TEST_CASE("a bad index is told when its stream's work is waited for, and not lost before", "[gpu][stream]") {
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
    CHECK(values(other) == std::vector<double>(3, 1));  // reads main alone
    if (whole_device)
      CHECK_THROWS_WITH_AS_TEXT((gpu::synchronize(kDevice), 0), IndexError, text);
    else
      CHECK_THROWS_WITH_AS_TEXT((side.synchronize(), 0), IndexError, text);
    gpu::synchronize(kDevice);  // told once
  }
}

TEST_CASE("a step is captured in the current stream and replayed in any", "[gpu][stream][graph]") {
  const Stream side(kDevice), third(kDevice);
  const Tensor x = ones({300}, {.device = kDevice});
  const std::vector<Stream> all{Stream::main(kDevice), side, third};
  for (const Stream& home : all) {
    gpu::synchronize(kDevice);
    const LateWork late;
    Tensor y;
    auto graph = std::make_unique<gpu::Graph>();
    {
      const StreamScope scope(home);
      x.fill_(1);
      graph->capture(kDevice, [&] {
        y = x * 2;
        x.copy_(y);
      });
    }
    // Each replay reads what the last one wrote, wherever that ran.
    for (const Stream& stream : {home, third, side, third, home}) {
      const StreamScope scope(stream);
      graph->replay();
    }
    y = {};
    {
      const StreamScope scope(side);
      graph->replay();
    }
    graph.reset();
    const StreamScope scope(home);
    const Tensor later = full({300}, -1, {.device = kDevice});  // may lie where the graph worked
    gpu::synchronize(kDevice);
    CHECK(values(x) == std::vector<double>(300, 64));
    CHECK(values(later) == std::vector<double>(300, -1));
  }
}
