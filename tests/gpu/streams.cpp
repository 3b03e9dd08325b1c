// Streams on any device; an emulated one delays work as long as possible.
#include <mezzo.h>

#include <functional>
#include <memory>
#include <set>
#include <thread>

#include "../emulator/streams.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "../support/values.h"
#include "device.h"
#include "need_device.h"

using namespace mezzo;
using gpu::Event, gpu::Stream, gpu::StreamScope;
using testing::kDevice;
using testing::values;

namespace {

/** Returns the weights of a net after some steps with matrix products, a norm and an optimizer. */
std::vector<double> trained_on_streams() {
  manual_seed(5);
  nn::Linear first{12, 16}, second{16, 3};
  nn::LayerNorm norm{Shape{16}};
  for (nn::Module* m : {static_cast<nn::Module*>(&first), static_cast<nn::Module*>(&second),
                        static_cast<nn::Module*>(&norm)})
    m->to(kDevice);
  std::vector<Tensor> parameters = first.parameters();
  for (const Tensor& p : second.parameters()) parameters.push_back(p);
  for (const Tensor& p : norm.parameters()) parameters.push_back(p);
  optim::FusedAdam optimizer(parameters, {.lr = 0.01});
  for (int i = 0; i < 4; ++i) {
    const Tensor x = rand({9, 12}, {.device = kDevice});
    const Tensor y = remainder(arange(9.0).to(i64), 3).to(kDevice);
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

TEST_CASE("streams come from a pool; the current one is per scope and thread", "[gpu][stream]") {
  NEED_DEVICE();
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

TEST_CASE("streams of the CPU and stream order within a capture are rejected", "[gpu][stream]") {
  NEED_DEVICE();
  const std::string text = "Stream: streams exist on CUDA devices only; got ";
  for (const Device absent : {cpu, Device{DeviceKind::cuda, 63}, Device{DeviceKind::cuda, -1}}) {
    CHECK_THROWS_WITH_AS_TEXT(Stream(absent), DeviceError, text + str(absent));
    CHECK_THROWS_WITH_AS_TEXT(Stream::current(absent), DeviceError, text + str(absent));
    CHECK_THROWS_WITH_AS_TEXT(Stream::main(absent), DeviceError, text + str(absent));
  }
  CHECK_THROWS_WITH_AS_TEXT((gpu::synchronize({DeviceKind::cuda, 63}), 0), DeviceError,
                            text + "cuda:63");
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
        std::string(call.first) + ": not allowed while a step is being captured");
    CHECK(Stream::current(kDevice) == Stream::main(kDevice));
    CHECK(values(x + 1) == std::vector<double>{2, 2});
  }
}

TEST_CASE("training gives the same bits in any stream", "[gpu][stream]") {
  NEED_DEVICE();
  const std::vector<double> expected = trained_on_streams();
  const emulator::LateWork late;
  CHECK(trained_on_streams() == expected);
  const StreamScope scope{Stream(kDevice)};
  CHECK(trained_on_streams() == expected);
}

TEST_CASE("a step is captured in the current stream and replayed in any", "[gpu][stream][graph]") {
  NEED_DEVICE();
  const Stream side(kDevice), third(kDevice);
  const Tensor x = ones({300}, {.device = kDevice});
  const std::vector<Stream> all{Stream::main(kDevice), side, third};
  for (const Stream& home : all) {
    gpu::synchronize(kDevice);
    const emulator::LateWork late;
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
    // Each replay reads what the previous one wrote, in any stream.
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
    const Tensor later = full({300}, -1, {.device = kDevice});  // may reuse the graph's memory
    gpu::synchronize(kDevice);
    CHECK(values(x) == std::vector<double>(300, 64));
    CHECK(values(later) == std::vector<double>(300, -1));
  }
}
