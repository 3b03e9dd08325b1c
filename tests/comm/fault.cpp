// A program in which something goes wrong between processes, for ../checks/comm_faults.py.
//   fault SCENARIO
// Every rank prints "rank N: TEXT" for each error that it sees. Exit status: 9 after an error.
#include <mezzo.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <thread>

using namespace mezzo;
using namespace std::chrono_literals;
using comm::Communicator;

namespace {

using Scenario = std::function<void(const Communicator& c, bool second)>;  // second: rank 1

void say(int rank, const char* text) {
  std::printf("rank %d: %s\n", rank, text);
  std::fflush(stdout);
}

std::shared_ptr<const std::string> lines(const std::string& text) {
  return std::make_shared<const std::string>(text);
}

comm::Pending begin(const Communicator& c, const char* kind, const std::string& text) {
  return c.begin_round({kind, comm::signature_of(text), lines(text)});
}

/** A backward pass with one bucket. */
void backward(const Communicator& c) {
  begin(c, "backward", "fc1.weight f32[3,4]\nlevel O2\n");
  const Tensor bucket = full({1000}, 1.0);
  c.all_reduce(bucket, {.checked = false, .label = "bucket 3 of 7 (fc1.weight ... conv2.weight)"})
      .wait();
  c.end_round();
}

void reduce(const Communicator& c, const Shape& shape, DType dtype = f32,
            const comm::ReduceOptions& options = {}) {
  c.all_reduce(full(shape, 1.0).to(dtype), options).wait();
}

/** Runs backward passes; the second rank does something else in the third. */
Scenario in_third_backward(std::function<void(const Communicator&)> act) {
  return [act = std::move(act)](const Communicator& c, bool second) {
    for (int step = 1; step <= 5; ++step) {
      if (second && step == 3) act(c);
      backward(c);
    }
  };
}

void throw_in_round(const Communicator& c) {
  begin(c, "backward", "fc1.weight f32[3,4]\nlevel O2\n");
  try {
    throw OutOfMemory("relu: no memory; got 4 GiB");
  } catch (...) {
    c.leave_round(std::current_exception());
    throw;
  }
}

const std::map<std::string, Scenario> kScenarios = {
    // ranks that disagree
    {"counts", [](auto& c, bool second) { reduce(c, {second ? 8 : 4}); }},
    {"large_counts", [](auto& c, bool second) { reduce(c, {second ? 80000 : 40000}); }},
    {"dtypes", [](auto& c, bool second) { reduce(c, {4}, second ? f16 : f32); }},
    {"orders",
     [](auto& c, bool second) {
       reduce(c, {4}, f32, {.order = second ? comm::Order::fast : comm::Order::ranks});
     }},
    {"kinds", [](auto& c, bool second) { second ? c.barrier() : reduce(c, {4}); }},
    {"roots", [](auto& c, bool second) { c.broadcast(full({9}, 1.0), second).wait(); }},
    {"unchecked_counts",
     [](auto& c, bool second) {
       const Tensor x = full({40}, 1.0), out = full({second ? 400 : 40}, 1.0);
       const Tensor mine = second ? full({200}, 1.0) : full({20}, 1.0);
       c.all_gather(mine, out, {.checked = false}).wait();
       c.barrier();
     }},
    {"signatures",
     [](auto& c, bool second) {
       begin(c, "backward", second ? "a f32[3]\nb f16[4]\nc\n" : "a f32[3]\nb f32[4]\nc\n");
       reduce(c, {100000}, f32, {.checked = false});
     }},
    {"more_lines",
     [](auto& c, bool second) { begin(c, "backward", second ? "a\nb\n" : "a\n").wait(); }},
    {"round_kinds",
     [](auto& c, bool second) { begin(c, second ? "checkpoint" : "backward", "a").wait(); }},
    {"other_signature",
     [](auto& c, bool second) { c.begin_round({"backward", second ? 7u : 8u}).wait(); }},
    // rank 1 leaves a round and goes on without a word
    {"frame_meets_data",
     [](auto& c, bool second) {
       begin(c, "backward", "a").wait();
       if (second) c.barrier();
       const Tensor x = full({8}, 1.0);
       c.all_reduce(x, {.checked = false}).wait();
       say(c.rank(), "mixed");
     }},
    // a rank that fails
    {"throw_in_round", in_third_backward(throw_in_round)},
    {"throw_outside", in_third_backward([](auto&) { throw ValueError("data: no such file"); })},
    {"uncaught",
     in_third_backward([](auto&) { std::thread([] { throw ValueError("lost"); }).join(); })},
    {"killed", in_third_backward([](auto&) { raise(SIGKILL); })},
    {"crashed", in_third_backward([](auto&) { raise(SIGSEGV); })},
    {"left_at_once", in_third_backward([](auto&) { _exit(0); })},
    {"ended_early", in_third_backward([](auto&) { std::exit(0); })},
    {"ended_in_bucket", in_third_backward([](auto& c) {
       begin(c, "backward", "fc1.weight f32[3,4]\nlevel O2\n").wait();
       std::exit(0);
     })},
    {"ended_with_3", in_third_backward([](auto&) { std::exit(3); })},
    {"hung_in_bucket", in_third_backward([](auto& c) {
       begin(c, "backward", "fc1.weight f32[3,4]\nlevel O2\n");
       std::this_thread::sleep_for(1h);
     })},
    {"hung", in_third_backward([](auto&) { std::this_thread::sleep_for(1h); })},
    {"stopped", in_third_backward([](auto&) { raise(SIGSTOP); })},
    // no fault
    {"none", in_third_backward([](auto&) {})},
    {"slow_end",
     [](auto& c, bool second) {
       backward(c);
       if (!second) std::this_thread::sleep_for(4s);
     }},
};

/** Runs the scenario; after an error, shows that a later call throws as well. */
int run(const std::string& name) {
  const char* const launched = std::getenv("OMPI_COMM_WORLD_RANK");
  int rank = launched ? std::atoi(launched) : 0;
  const comm::Communicator* survivor = nullptr;
  static comm::Communicator c;
  try {
    const comm::World world = comm::init();
    rank = world.rank();
    c = world.all();
    survivor = &c;
    kScenarios.at(name)(c, rank == 1);
    return 0;
  } catch (const std::exception& e) {
    say(rank, e.what());
  }
  try {
    if (survivor) survivor->barrier();
  } catch (const CommError& e) {
    say(rank, (std::string("again ") + e.what()).c_str());
  }
  return 9;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "none";
  if (name == "no_init") {
    // The launcher's rank: only the first connects.
    const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
    if (rank && rank[0] == '1') std::this_thread::sleep_for(1h);
    return run("none");
  }
  if (!kScenarios.contains(name)) {
    std::fprintf(stderr, "fault: unknown scenario %s\n", name.c_str());
    return 2;
  }
  return run(name);
}
