// A training in which something goes wrong between processes, for ../checks/parallel_faults.py.
//   fault SCENARIO
// Every rank prints "rank N: TEXT" for the error that it sees. Exit status: 9 after an error.
#include <mezzo.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>

using namespace mezzo;
using namespace std::chrono_literals;

namespace {

using Parallel = nn::DistributedDataParallel<nn::Module>;
using Options = nn::DistributedDataParallelOptions;

void say(int rank, const char* text) {
  std::printf("rank %d: %s\n", rank, text);
  std::fflush(stdout);
}

/** Two layers; `wide` is the size of the second, and `reverse` registers it first. */
struct Net : nn::Model<Net> {
  explicit Net(std::int64_t wide = 3, bool reverse = false) {
    const nn::Linear one{2, 3}, two{3, wide};
    if (reverse) add("fc2", two);
    fc1 = add("fc1", one);
    if (!reverse) add("fc2", two);
    fc2 = two;
  }
  Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x))); }

  nn::Linear fc1{1, 1}, fc2{1, 1};
};

// ---- ranks that construct different wrappers ----------------------------------------------------

/** What a rank trains with. */
struct Setup {
  nn::Module model = Net();
  std::string optimizer = "SGD";
  std::optional<amp::Options> amp = {};
  Options options = {};
};

std::optional<amp::Options> level(const char* name) {
  amp::Options options;
  options.opt_level = name;
  options.verbosity = 0;
  return options;
}

void construct(const Setup& setup) {
  std::unique_ptr<optim::Optimizer> optimizer;
  if (setup.optimizer == "SGD")
    optimizer =
        std::make_unique<optim::SGD>(setup.model.parameters(), optim::SgdOptions{.lr = 0.1});
  else
    optimizer =
        std::make_unique<optim::AdamW>(setup.model.parameters(), optim::AdamWOptions{.lr = 0.1});
  std::optional<amp::Session> session;
  if (setup.amp) session.emplace(amp::initialize(setup.model, *optimizer, *setup.amp));
  const Parallel net(setup.model, setup.options);
}

nn::Module with_parameter(nn::Module model, const Tensor& value) {
  model.add_parameter("scale", value);
  return model;
}

nn::Module with_buffer(nn::Module model, const Shape& shape) {
  model.add_buffer("mean", zeros(shape));
  return model;
}

nn::Module with_frozen_bias(const Net& model) {
  model.fc2.bias().requires_grad_(false);
  return model;
}

nn::Module convolution(MemoryFormat format) {
  nn::Conv2d layer{2, 3, 2};
  layer.to(format);
  return layer;
}

std::optional<amp::Options> with_scale(double scale) {
  std::optional<amp::Options> options = level("O2");
  options->loss_scale = scale;
  return options;
}

/** Scenario -> what the second rank has; the first has the same with false. */
const std::map<std::string, std::function<Setup(bool second)>> kSetups = {
    {"shapes", [](bool second) { return Setup{.model = Net(second ? 4 : 3)}; }},
    {"order", [](bool second) { return Setup{.model = Net(3, second)}; }},
    {"number",
     [](bool second) { return Setup{.model = second ? with_parameter(Net(), ones({2})) : Net()}; }},
    {"dtypes",
     [](bool second) {
       return Setup{.model = with_parameter(Net(), ones({2}).to(second ? f64 : f32))};
     }},
    {"frozen",
     [](bool second) { return Setup{.model = second ? with_frozen_bias(Net()) : Net()}; }},
    {"buffers", [](bool second) { return Setup{.model = with_buffer(Net(), {second ? 2 : 3})}; }},
    {"formats",
     [](bool second) {
       return Setup{
           .model = convolution(second ? MemoryFormat::channels_last : MemoryFormat::contiguous)};
     }},
    {"levels", [](bool second) { return Setup{.amp = level(second ? "O1" : "O2")}; }},
    {"sessions", [](bool second) { return Setup{.amp = second ? std::nullopt : level("O2")}; }},
    {"scales", [](bool second) { return Setup{.amp = with_scale(second ? 64 : 128)}; }},
    {"optimizers",
     [](bool second) { return Setup{.optimizer = second ? "AdamW" : "SGD", .amp = level("O1")}; }},
    {"averages", [](bool second) { return Setup{.options = {.average = second}}; }},
    {"reduce_dtypes",
     [](bool second) {
       return Setup{
           .options = {.reduce_dtype = second ? nn::ReduceDtype::f32 : nn::ReduceDtype::automatic}};
     }},
    {"orders",
     [](bool second) {
       return Setup{
           .options = {.order = second ? std::optional(comm::Order::ranks) : std::nullopt}};
     }},
    {"bucket_sizes", [](bool second) { return Setup{.options = {.bucket_mib = second ? 3 : 2}}; }},
};

// ---- a training that goes wrong -----------------------------------------------------------------

/** A net that is trained for five steps. The second rank does something else in the third. */
struct Training {
  int rank;
  Net model{};
  optim::SGD optimizer{model.parameters(), {.lr = 0.1}};
  std::optional<amp::Session> session{};
  std::optional<nn::DistributedDataParallel<Net>> net{};
  int step = 1;

  bool is_turn() const { return rank == 1 && step == 3; }
  Tensor loss() const { return sum(model(ones({4, 2})).to(f32)); }
  void backward() const { loss().backward(); }
};

/** Runs a training whose steps are `body`. */
void train(int rank, const Options& options, const std::function<void(Training&)>& body,
           const char* opt_level = nullptr) {
  Training training{.rank = rank};
  if (opt_level)
    training.session.emplace(
        amp::initialize(training.model, training.optimizer, *level(opt_level)));
  training.net.emplace(training.model, options);
  for (; training.step <= 5; ++training.step) {
    training.optimizer.zero_grad();
    body(training);
    (void)training.optimizer.step();
  }
}

const Options kTwoBuckets{.bucket_mib = 1e-9, .first_bucket_mib = 1e-9};

/** Calls `act` on the second rank in the third backward pass, when a parameter gets its gradient.
 */
std::function<void(int rank)> in_hook(std::function<void()> act, bool first = false) {
  return [act = std::move(act), first](int rank) {
    train(rank, kTwoBuckets, [&](Training& training) {
      HookHandle hook;
      if (training.is_turn())
        hook = register_hook(first ? training.model.fc2.bias() : training.model.fc1.weight(),
                             [&](const Tensor&) { return act(), Tensor(); });
      training.backward();
    });
  };
}

std::function<void(int rank)> in_step(std::function<void(Training&)> body,
                                      const char* opt_level = nullptr) {
  return [=](int rank) { train(rank, {}, body, opt_level); };
}

void hang() { std::this_thread::sleep_for(1h); }

/** Gives the thread that communicates time to send what is ready. */
void after_a_while(void (*act)()) {
  std::this_thread::sleep_for(500ms);
  act();
}

const std::map<std::string, std::function<void(int rank)>> kTrainings = {
    {"none", in_step([](Training& training) { training.backward(); })},
    // a rank that fails in backward
    {"throw_in_hook", in_hook([] { throw ValueError("no such word"); })},
    {"killed", in_hook([] { raise(SIGKILL); })},
    {"left", in_hook([] { _exit(0); })},
    {"ended", in_hook([] { std::exit(0); })},
    {"hung", in_hook(hang)},
    {"hung_first", in_hook(hang, true)},
    {"stopped", in_hook([] { after_a_while([] { raise(SIGSTOP); }); })},
    // a rank that fails elsewhere
    {"throw_in_forward", in_step([](Training& training) {
       if (training.is_turn()) throw ValueError("no such word");
       training.backward();
     })},
    {"throw_in_scope", in_step(
                           [](Training& training) {
                             amp::scale_loss(training.loss(), training.optimizer,
                                             [&](const Tensor& loss) {
                                               loss.backward();
                                               if (training.is_turn())
                                                 throw ValueError("no such word");
                                             });
                           },
                           "O2")},
    // ranks that do different things later
    {"one_step_ahead", in_step([](Training& training) {
       std::optional<nn::NoSync> local;
       if (training.is_turn()) local.emplace(training.net->no_sync());
       training.backward();
       local.reset();
       training.backward();
     })},
    {"one_more", in_step([](Training& training) {
       training.backward();
       if (training.is_turn()) training.backward();
     })},
    {"other_wrapper",
     [](int rank) {
       const Net other;
       const nn::DistributedDataParallel<Net> net(other, {});
       train(rank, {}, [&](Training& training) {
         if (training.is_turn())
           sum(other(ones({4, 2}))).backward();
         else
           training.backward();
       });
     }},
    {"other_buckets",
     [](int rank) {
       const Net model;
       const auto trigger = rank == 1 ? model.fc1.bias() : model.fc2.weight();
       const nn::DistributedDataParallel<Net> net(model, {.triggers = {trigger}});
       sum(model(ones({4, 2}))).backward();
     }},
    {"loss_scales", in_step(
                        [](Training& training) {
                          if (training.is_turn())
                            training.session->loss_scaler().set_loss_scale(1024);
                          amp::scale_loss(training.loss(), training.optimizer,
                                          [](const Tensor& loss) { loss.backward(); });
                        },
                        "O1")},
};

int run(const std::string& name) {
  const char* const launched = std::getenv("OMPI_COMM_WORLD_RANK");
  const int rank = launched ? std::atoi(launched) : 0;
  try {
    const comm::World world = comm::init();
    manual_seed(7);
    if (const auto setup = kSetups.find(name); setup != kSetups.end())
      construct(setup->second(rank == 1));
    else
      kTrainings.at(name)(rank);
    return 0;
  } catch (const std::exception& e) {
    say(rank, e.what());
    return 9;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "none";
  if (!kSetups.contains(name) && !kTrainings.contains(name)) {
    std::fprintf(stderr, "fault: unknown scenario %s\n", name.c_str());
    return 2;
  }
  return run(name);
}
