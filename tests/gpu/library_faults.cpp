// Failing libraries: the next algorithm is used, then our own kernels. The log reports each problem
// once; only a broken device is an error.
#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "../emulator/counters.h"
#include "../emulator/faults.h"
#include "../support/log_capture.h"
#include "../support/throws.h"
#include "alike.h"
#include "convolution.h"
#include "unverified.h"

using namespace alike;
using convolution::whole;
using emulator::LibraryFault, emulator::LibraryStage;

namespace {

using Work = std::function<Tensor()>;

/** A call of a library with a problem unique to its `size`, and its name in the log. */
struct FaultyCall {
  const char* library;
  const char* problem;
  const char* launch;  // name in the launch log
  double tolerance;
  bool plans,
      is_layer;  // whether the library plans first; whether the call is a recurrent layer
  std::function<Work(std::int64_t size, Device device)> prepared;
};

std::vector<FaultyCall> faulty_calls() {
  return {
      {"cuBLASLt", "the product of f32 ", "cuBLASLt", 0, false, false,
       [](std::int64_t size, Device device) -> Work {
         const Tensor x = whole({size, 7}).to(device), w = whole({7, 5}).to(device);
         return [=] { return matmul(x, w); };
       }},
      {"cuBLASLt", " with a bias, then relu", "cuBLASLt", 0, false, false,
       [](std::int64_t size, Device device) -> Work {
         const Tensor x = whole({size, 7}).to(device), a = whole({8}).to(device),
                      b = whole({3}).to(device), v = whole({8, 7}).to(device),
                      w = whole({3, 8}).to(device).requires_grad_();
         return [=] { return mlp(x, {v, w}, {a, b}).detach(); };
       }},
      {"cuDNN", "the convolution of f32 ", "cuDNN", 0, true, false,
       [](std::int64_t size, Device device) -> Work {
         const Tensor x = whole({2, 3, 5, size}).to(device), w = whole({4, 3, 3, 2}).to(device);
         return [=] { return conv2d(x, w); };
       }},
      {"cuDNN", "the weight gradient of the convolution of f32 ", "cuDNN", 0, true, false,
       [](std::int64_t size, Device device) -> Work {
         const Tensor w = whole({4, 3, 3, 2}).to(device).requires_grad_();
         const Tensor y = sum(conv2d(whole({1, 3, 6, size}).to(device), w));
         return [=] { return grad(TensorList(y), TensorList(w), {.retain_graph = true})[0]; };
       }},
      {"cuDNN", "attention of bf16 ", "cuDNN attention", 0.05, true, false,
       [](std::int64_t size, Device device) -> Work {
         const Tensor q = whole({2, size, 16}, bf16).to(device),
                      k = whole({2, 9, 16}, bf16).to(device);
         return [=] { return scaled_dot_product_attention(q, k, k).to(f32); };
       }},
      {"cuDNN", "a recurrent layer of f32 ", "cuDNN", 1e-4, true, true,
       [](std::int64_t size, Device device) -> Work {
         const Tensor x = whole({4, size, 5}).to(device);
         const auto parameter = [&](const Shape& shape) { return (whole(shape) * 0.1).to(device); };
         const std::vector<RecurrentWeights> weights{
             {parameter({24, 5}), parameter({24, 6}), parameter({24}), parameter({24})}};
         return [=] { return lstm(x, {}, weights).output; };
       }},
  };
}

std::int64_t next_size = 40;

/** The log and the launches of a call. */
struct LibraryOutcome {
  std::vector<std::string> lines;
  std::int64_t launches = 0;  // launches of the library
};

LibraryOutcome checked(const FaultyCall& call, const Work& work, const Tensor& expected) {
  const LogCapture log;
  const emulator::LaunchLog launches;
  const Tensor got = work();
  const std::int64_t count = std::count(launches.names.begin(), launches.names.end(), call.launch);
  CHECK(distance(got.to(cpu), expected) <= call.tolerance);
  return {log.lines, count};
}

/** Returns whether the log reports the problem exactly once. */
bool tells(const LibraryOutcome& outcome, const FaultyCall& call, const std::string& what) {
  return std::count_if(outcome.lines.begin(), outcome.lines.end(), [&](const std::string& line) {
           return line.find(call.library) == 0 && line.find(call.problem) != std::string::npos &&
                  line.find(what) != std::string::npos;
         }) == 1;
}

constexpr const char* kFailed = "the library failed; got an internal error";

/** A call that was not made before, and its result. */
struct Fresh {
  const FaultyCall& call;
  std::int64_t size = ++next_size;
  Tensor expected = call.prepared(size, cpu)();
  Work work = call.prepared(size, kDevice);

  LibraryOutcome run() const { return checked(call, work, expected); }
};

}  // namespace

TEST_CASE("where a library always fails in one stage our own kernels are used", "[gpu][fallback]") {
  const AnyBits any;
  for (const FaultyCall& call : faulty_calls())
    for (const LibraryStage stage :
         {LibraryStage::heuristics, LibraryStage::planning, LibraryStage::execution}) {
      if (stage == LibraryStage::planning && !call.plans) continue;
      if (stage == LibraryStage::heuristics && call.is_layer) continue;
      INFO(call.problem << "in stage " << static_cast<int>(stage));
      const Fresh fresh{call};
      {
        const LibraryFault fault(stage);
        const LibraryOutcome outcome = fresh.run();
        CHECK(fault.failed() > 0);
        CHECK(tells(outcome, call, kFailed));
        CHECK(outcome.launches == 0);
      }
      const LibraryOutcome later = fresh.run();
      CHECK(later.lines.empty());
      CHECK(later.launches == 0);
    }
}

TEST_CASE("where a library fails once its next algorithm is used", "[gpu][fallback]") {
  for (const FaultyCall& call : faulty_calls())
    for (const LibraryStage stage : {LibraryStage::planning, LibraryStage::execution}) {
      if ((stage == LibraryStage::planning && !call.plans) || call.is_layer)
        continue;  // a layer has a single algorithm
      INFO(call.problem << "in stage " << static_cast<int>(stage));
      const Fresh fresh{call};
      const LibraryFault fault(stage, 1, 1);
      const LibraryOutcome outcome = fresh.run();
      CHECK(fault.failed() == 1);
      CHECK(tells(outcome, call, kFailed));
      CHECK(outcome.lines.size() == 1);
      CHECK(outcome.launches > 0);
      const LibraryOutcome later = fresh.run();
      CHECK(later.lines.empty());
      CHECK(later.launches > 0);
    }
}

TEST_CASE("a library may fail at any later call too", "[gpu][fallback]") {
  const AnyBits any;
  for (const FaultyCall& call : faulty_calls()) {
    INFO(call.problem);
    const Fresh fresh{call};
    for (int i = 0; i < 3; ++i) {
      const LibraryOutcome outcome = fresh.run();
      CHECK(outcome.lines.empty());
      CHECK(outcome.launches > 0);
    }
    const LibraryFault fault(LibraryStage::execution, 1, 1);
    CHECK(tells(fresh.run(), call, kFailed));
    CHECK(fault.failed() == 1);
    const LibraryOutcome later = fresh.run();
    CHECK(later.lines.empty());
    CHECK((later.launches > 0) == !call.is_layer);
  }
}

TEST_CASE("problems without a library algorithm are reported once and run on our own kernels",
          "[gpu][fallback]") {
  for (const FaultyCall& call : faulty_calls()) {
    if (call.is_layer) continue;  // its verification fails instead
    INFO(call.problem);
    const Fresh fresh{call};
    {
      const LibraryFault fault(LibraryStage::support);
      CHECK(tells(fresh.run(), call, " does not support "));
    }
    const LibraryOutcome later = fresh.run();
    CHECK(later.lines.empty());
    CHECK(later.launches == 0);
  }
}

TEST_CASE("where the library fails in a recurrent layer's gradient our own kernels are used",
          "[gpu][fallback][recurrent]") {
  const AnyBits any;
  for (const bool biases : {true, false}) {
    INFO(biases);
    const std::int64_t batch = ++next_size;
    const auto run = [&](Device device, bool fails) {
      std::vector<Tensor> t{whole({4, batch, 5}), whole({24, 5}) * 0.1, whole({24, 6}) * 0.1};
      if (biases) t.insert(t.end(), {whole({24}) * 0.1, whole({24}) * 0.2});
      for (Tensor& x : t) x = x.to(device).requires_grad_();
      const auto bias = [&](std::size_t i) { return biases ? t[i] : Tensor{}; };
      const Tensor y =
          lstm(t[0], {}, std::vector<RecurrentWeights>{{t[1], t[2], bias(3), bias(4)}}).output;
      const LibraryFault fault(LibraryStage::execution, 1, fails ? 1 : 0);
      return grad(TensorList(sum(y * y)), t);
    };
    const std::vector<Tensor> expected = run(cpu, false);
    (void)run(kDevice, false);  // runs the verification
    const LogCapture log;
    for (const bool fails : {false, true, false}) {
      const std::vector<Tensor> got = run(kDevice, fails);
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(distance(got[i].to(cpu), expected[i]) < 1e-4);
    }
    for (const std::string& line : log.lines) UNSCOPED_INFO(line);
    REQUIRE(log.lines.size() == 1);
    CHECK(log.lines[0].find("cuDNN: a recurrent layer of f32 [4,") == 0);
  }
}

TEST_CASE("a library failure during a capture postpones the capture", "[gpu][fallback][graph]") {
  const AnyBits any;
  for (const FaultyCall& call : faulty_calls()) {
    INFO(call.problem);
    const Fresh fresh{call};
    (void)fresh.run();
    gpu::CapturedStep step([&](const std::vector<Tensor>&) { return std::vector{fresh.work()}; },
                           {kDevice});
    const auto run = [&] { return checked(call, [&] { return step({})[0]; }, fresh.expected); };
    CHECK(run().lines.empty());
    {
      const LibraryFault fault(LibraryStage::execution, 1, 1);
      CHECK(tells(run(), call, kFailed));
      CHECK(fault.failed() == 1);
      CHECK(step.captures() == 0);
    }
    for (int i = 0; i < 2; ++i) CHECK(run().lines.empty());
    CHECK(step.captures() == 1);
  }
}

TEST_CASE("only a broken device is an error, and later errors repeat its cause",
          "[gpu][fallback]") {
  const AnyBits any;
  const Tensor x = ones({3}, {.device = kDevice});
  for (const FaultyCall& call : faulty_calls()) {
    INFO(call.problem);
    const Fresh fresh{call};
    (void)fresh.run();
    const LogCapture log;
    std::string first = "nothing was thrown";
    {
      const LibraryFault fault(LibraryStage::execution, 1, LibraryFault::kAll, true);
      try {
        (void)fresh.work();
      } catch (const CudaError& e) {
        first = e.what();
      }
    }
    const std::string cause =
        std::string(call.library) + ": an illegal memory access was encountered";
    INFO(first);
    CHECK(first.find(cause) == 0);
    CHECK(log.lines.empty());
    const std::string words = "device unusable since: " + cause;
    CHECK_THROWS_WITH_AS_TEXT(x + x, CudaError, words);
    CHECK_THROWS_WITH_AS_TEXT(x.to_vector<double>(), CudaError, words);
    CHECK_THROWS_WITH_AS_TEXT(ones({3}).to(kDevice), CudaError, words);
    CHECK_THROWS_WITH_AS_TEXT((gpu::synchronize(kDevice), 0), CudaError, words);
    CHECK_THROWS_WITH_AS_TEXT(fresh.work(), CudaError, words);
    emulator::mend_devices();
    CHECK((x + x).to_vector<int>() == std::vector<int>(3, 2));
  }
}

TEST_CASE("a search for the fastest algorithm skips failing ones", "[gpu][fallback]") {
  const std::vector<FaultyCall> all = faulty_calls();
  for (const std::size_t which : {0, 2, 3}) {  // a product, a convolution, its weight gradient
    const FaultyCall& call = all[which];
    INFO(call.problem);
    set_search_products(true);
    const Fresh fresh{call};
    {
      const LibraryFault fault(LibraryStage::execution, 1, 1);
      const LibraryOutcome outcome = fresh.run();
      CHECK(outcome.lines.empty());
      CHECK(outcome.launches > 1);
      CHECK(fault.failed() == 1);
    }
    CHECK(fresh.run().launches == 1);  // it searches once
    {
      const LibraryFault fault(LibraryStage::execution);
      const LibraryOutcome outcome = Fresh{call}.run();
      CHECK(tells(outcome, call, kFailed));
      CHECK(outcome.launches == 0);
    }
    set_search_products(false);
    CHECK(fresh.run().launches == 1);
  }
}
