// Trees of modules that are very deep, and modules with very many names.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>

#include "support.h"

using namespace mezzo;

namespace {

constexpr int kDepth = 100000;

/** Returns a layer inside `depth` containers, each with a name of one letter. */
nn::Sequential nest(int depth) {
  std::optional<nn::Sequential> net(nn::Linear{2, 2});
  for (int i = 0; i < depth; ++i) {
    nn::Sequential around;
    around.push_back(*net);
    net.emplace(around);
  }
  return *net;
}

/** Like nest(), built from the outermost container inwards. */
nn::Sequential nest_from_outside(int depth) {
  const nn::Sequential net;
  std::optional<nn::Sequential> inner(net);
  for (int i = 0; i < depth; ++i) {
    const nn::Sequential next;
    inner->push_back(next);
    inner.emplace(next);
  }
  inner->push_back(nn::Linear{2, 2});
  return net;
}

}  // namespace

TEST_CASE("a tree of modules may be of any depth") {
  for (const nn::Sequential& net : {nest(kDepth), nest_from_outside(kDepth)}) {
    CHECK(net.parameters().size() == 2);
    CHECK(net.num_parameters() == 6);
    const nn::StateDict values = net.state_dict();
    REQUIRE(values.size() == 2);
    const std::string name = values.names()[0];
    CHECK(name.size() == 2 * (kDepth + 1) + std::string("weight").size());
    CHECK(net.parameter(name).is_same(net.parameters()[0]));
    net.load_state_dict(values);
    net.eval().to(f64).freeze();
    CHECK(net.parameters()[1].dtype() == f64);
    int modules = 0;
    net.apply([&](const nn::Module& module) { modules += !module.training(); });
    CHECK(modules == kDepth + 2);
    CHECK(net.modules().size() == kDepth + 2);
    CHECK(net.modules()[0].is_same(net));
    CHECK(str(net).size() < 100000);
  }
  struct Bare : nn::Model<Bare> {};
  const Bare top;
  nn::Module bottom = top;
  for (int i = 0; i < kDepth; ++i) bottom = bottom.add("a", Bare{});
  CHECK_THROWS_AS(bottom.add("top", top), ValueError);
}

TEST_CASE("calling a tree too deep for the stack is an error") {
  const nn::Sequential net = nest(200 * 1000);
  const Tensor x = ones({1, 2});
  CHECK(error_of<StateError>([&] { net(x); }).find("nested too deeply for this thread's stack") !=
        std::string::npos);
  std::thread([&] { CHECK_THROWS_AS(net(x), StateError); }).join();
  CHECK(current_module_path().empty());
  CHECK(nest(100)(x).shape() == Shape{1, 2});
}

TEST_CASE("mixed precision supports a tree of any depth") {
  const nn::Sequential net = nest(kDepth);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  auto session = amp::initialize(net, optimizer, {.opt_level = "O2", .verbosity = 0});
  CHECK(net.parameters()[0].dtype() == f16);
  session.close();
  CHECK(net.parameters()[0].dtype() == f32);
}

TEST_CASE("the time to add a name does not grow with the number of names") {
  const auto now = [] {  // CPU time of this thread: the machine may be busy
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const auto seconds = [&](std::int64_t layers) {
    const double begin = now();
    const nn::LSTM net(1, 1, {.num_layers = layers});
    const nn::StateDict values = net.state_dict();
    Tensor found;
    for (const nn::NamedTensor& entry : net.own_parameters()) {
      found = net.parameter(entry.name);
      found = values[entry.name];
    }
    return now() - begin;
  };
  double few = HUGE_VAL, many = HUGE_VAL;
  for (int i = 0; i < 3; ++i) {
    few = std::min(few, seconds(500));
    many = std::min(many, seconds(16000));
  }
  // 32 times as many names. A linear search would take 1024 times the time.
  INFO(few << " s and " << many << " s");
  CHECK(many < 250 * few);
}

TEST_CASE("entries of a state dict keep their order when others are removed") {
  nn::StateDict values({{"a", ones({1})}, {"b", ones({2})}, {"c", ones({3})}});
  CHECK(values.erase("a"));
  CHECK_FALSE(values.erase("a"));
  CHECK(values["b"].numel() == 2);
  CHECK(values["c"].numel() == 3);
  values.set("a", ones({4}));
  values.set("c", ones({5}));
  CHECK(values.names() == std::vector<std::string>{"b", "c", "a"});
  CHECK(values["c"].numel() == 5);
  CHECK(values.find("d").defined() == false);
}

TEST_CASE("a copy of a state dict has its own names, and a moved-from one is empty") {
  nn::StateDict values({{"a", ones({1})}});
  nn::StateDict copy = values;
  copy.set("b", ones({2}));
  CHECK(values.names() == std::vector<std::string>{"a"});
  CHECK(copy.names() == std::vector<std::string>{"a", "b"});
  const nn::StateDict moved = std::move(copy);
  CHECK(moved["b"].numel() == 2);
  CHECK(copy.empty());  // NOLINT: tests the moved-from dict
  CHECK_FALSE(copy.contains("b"));
  CHECK_FALSE(copy.erase("b"));
  copy.set("c", ones({3}));
  CHECK(copy["c"].numel() == 3);
  copy = values;
  CHECK(copy.names() == values.names());
}
