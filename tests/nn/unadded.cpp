// A module that a net calls and that was not added to a net is logged, once; nothing else is.
#include <array>
#include <memory>
#include <optional>
#include <thread>

#include "../support/log_capture.h"
#include "support.h"

using namespace mezzo;

namespace {

using Texts = std::vector<std::string>;

/** The mistake: b is a member, and no child. */
struct Forgotten : nn::Model<Forgotten> {
  nn::Linear a = add("a", nn::Linear{4, 4});
  nn::Linear b{4, 1};
  Tensor forward(const Tensor& x) const { return b(a(x)); }
};

std::string text_of(const std::string& net, const std::string& layer) {
  return net +
         ": the net calls a module that was not added to it, and does not train, move, save or "
         "switch it; got " +
         layer +
         ", expected a member that is initialised by add(\"name\", ...), or a ModuleList; a module "
         "that is to stay outside is frozen and in evaluation mode";
}

const std::string kText = text_of("Forgotten", "Linear(4, 1)");

template <class F> Texts logged(F&& f) {
  LogCapture log;
  f();
  return log.lines;
}

/** Returns what two calls log. */
template <class M> Texts logged_by_calls(const M& net) {
  return logged([&] {
    const Tensor x = randn({2, 4});
    (void)net(x);
    (void)net(x);
  });
}

}  // namespace

TEST_CASE("a called module that was not added is logged once, at the first call") {
  CHECK(logged_by_calls(Forgotten()) == Texts{kText});
  CHECK(logged([] {
          const Forgotten net;
          (void)net.parameters();
        }).empty());
  CHECK(logged([] {
          const Forgotten net;
          optim::SGD optimizer(net.parameters(), {.lr = 0.1});
          const auto session = amp::initialize(net, optimizer, {.verbosity = 0});
          (void)net(randn({2, 4}));
          const NoGrad no_grad;
          (void)net.eval();
          (void)net(randn({2, 4}));
        }) == Texts{kText});
}

TEST_CASE("copies of a net do not log its forgotten member again, and other nets do") {
  CHECK(logged([] {
          std::vector<Forgotten> nets;
          for (int i = 0; i < 3; ++i) nets.push_back(Forgotten());
          const Forgotten first = nets[0];
          for (const Forgotten& net : nets) (void)net(randn({2, 4}));
          (void)first(randn({2, 4}));
        }) == Texts{kText, kText, kText});
}

namespace {

/** Layers that are not added, in each way of holding them. */
struct Heads : nn::Model<Heads> {
  struct Pair {
    nn::Linear left{4, 2}, right{4, 3};
  };
  Heads() {
    for (std::int64_t i = 5; i < 7; ++i) list.emplace_back(4, i);
  }
  Tensor forward(const Tensor& x) const {
    Tensor y = sum(pair.left(x)) + sum(pair.right(x));
    for (const nn::Linear& layer : list) y = y + sum(layer(x));
    y = y + sum((*optional)(x)) + sum(sequence(x)) + sum((*pointer)(x)) + sum(closure(x));
    y = y + sum(norm(x)) + sum(normalised(x)) + sum(joined(x));
    return y + sum(dropout(x)) + sum(slopes(x)) + sum(lstm(x.unsqueeze(0)).output);
  }
  static Tensor joined(const Tensor& x) {
    return nn::mlp(x, {nn::Linear{4, 11}, nn::Linear{11, 1}});
  }
  Tensor normalised(const Tensor& x) const { return nn::batch_norm_relu(fused, x, Tensor{}); }

  Pair pair;
  std::vector<nn::Linear> list;
  std::optional<nn::Linear> optional{std::in_place, 4, 7};
  nn::Sequential sequence{nn::Linear{4, 8}, nn::ReLU{}};
  std::shared_ptr<nn::Linear> pointer = std::make_shared<nn::Linear>(4, 9);
  nn::Lambda closure{[layer = nn::Linear{4, 10}](const Tensor& x) { return layer(x); }};
  nn::BatchNorm1d norm{4, {.affine = false}}, fused{4};
  nn::Dropout dropout{0.25};
  nn::RReLU slopes;
  nn::LSTM lstm{4, 3};
};

}  // namespace

TEST_CASE("forgotten layers are found wherever they are held, and in fused calls") {
  const Texts texts = logged_by_calls(Heads());
  const std::vector<std::string> layers{
      "Linear(4, 2)",  "Linear(4, 3)",  "Linear(4, 5)",  "Linear(4, 6)",  "Linear(4, 7)",
      "Sequential",    "Linear(4, 9)",  "Linear(4, 10)", "BatchNorm1d(4", "BatchNorm1d(4",
      "Linear(4, 11)", "Linear(11, 1)", "Dropout(0.25)", "RReLU(",        "LSTM("};
  REQUIRE(texts.size() + 1 >= layers.size());
  for (const std::string& layer : layers) {
    INFO(layer);
    CHECK(std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
      return text.find("got " + layer) != std::string::npos;
    }));
  }
}

namespace {

struct Outer : nn::Model<Outer> {
  Forgotten inner = add("inner", Forgotten{});
  nn::Linear last = add("last", nn::Linear{1, 1});
  Tensor forward(const Tensor& x) const { return last(inner(x)); }
};

struct AroundNet : nn::Model<AroundNet> {
  struct Added : nn::Model<Added> {
    nn::Linear layer = add("layer", nn::Linear{4, 4});
    Tensor forward(const Tensor& x) const { return layer(x); }
  };
  Added inner{};
  Tensor forward(const Tensor& x) const { return inner(x); }
};

}  // namespace

TEST_CASE("a forgotten member of an inner net, and a forgotten net") {
  CHECK(logged_by_calls(Outer()) == Texts{text_of("Forgotten(inner)", "Linear(4, 1)")});
  CHECK(logged_by_calls(AroundNet()) == Texts{text_of("AroundNet", "Added")});
}

namespace {

/** All ways to hold layers that are right. */
struct Right : nn::Model<Right> {
  Right() {
    add("later", later);
    optional.emplace(add("optional", nn::Linear{4, 4}));
    for (int i = 0; i < 3; ++i) layers.push_back(add(str("layer", i), nn::Linear{4, 4}));
    list.push_back(nn::Linear{4, 4});
    add("list", list);
    add("in_sequence", in_sequence);
    teacher.freeze().eval();
  }
  Tensor forward(const Tensor& x) const {
    const Tensor y = first(later((*optional)(layers[0](act(identity(x))))));
    return in_sequence(list[0](y)) + teacher(x);
  }
  nn::Linear first = add("first", nn::Linear{4, 4});
  nn::Linear later{4, 4};
  std::optional<nn::Linear> optional;
  std::vector<nn::Linear> layers;
  nn::ModuleList<nn::Linear> list;
  nn::Sequential in_sequence{nn::Linear{4, 4}, nn::ReLU{}};
  nn::ReLU act;  // without tensors or modes
  nn::Identity identity;
  nn::Sequential teacher{nn::Linear{4, 4}, nn::BatchNorm1d{4}, nn::Dropout{0.5}};
};

/** Shares the layer of another net, which has added it. */
struct Tied : nn::Model<Tied> {
  explicit Tied(const Right& net) : a(net.first) {}
  nn::Linear a;
  Tensor forward(const Tensor& x) const { return a(x); }
};

/** Calls itself. */
struct Recursive : nn::Model<Recursive> {
  nn::Linear layer = add("layer", nn::Linear{4, 4});
  Tensor forward(const Tensor& x, int depth = 2) const {
    return depth == 0 ? layer(x) : (*this)(x, depth - 1);
  }
};

}  // namespace

TEST_CASE("added members, shared layers and frozen modules in evaluation mode log nothing") {
  const Right net;
  CHECK(logged_by_calls(net).empty());
  CHECK(logged_by_calls(Tied(net)).empty());
  CHECK(logged_by_calls(Recursive()).empty());
  CHECK(logged([] {
          const nn::Linear layer{4, 4};
          (void)layer(randn({1, 4}));
        }).empty());
}

TEST_CASE("modules that are called by no module, but during a backward pass, log nothing") {
  CHECK(logged([] {
          const nn::Linear net{4, 4};
          const Tensor x = randn({2, 4}, {.requires_grad = true});
          sum(nn::checkpoint([&](const Tensor& t) { return net(t); }, x)).backward();
        }).empty());
}

TEST_CASE("calls of other threads do not count as calls by the net") {
  CHECK(logged([] {
          struct Waiting : nn::Model<Waiting> {
            Tensor forward(const Tensor& x) const {
              std::thread([&] { (void)nn::Linear{4, 4}(x); }).join();
              return x;
            }
          };
          (void)Waiting()(randn({1, 4}));
        }).empty());
}

TEST_CASE("nets whose forward constructs layers log a limited number of them") {
  struct Growing : nn::Model<Growing> {
    Tensor forward(const Tensor& x) const {
      for (std::int64_t i = 1; i < 100; ++i) (void)nn::Linear{4, i}(x);
      return x;
    }
  };
  CHECK(logged_by_calls(Growing()).size() == 64);
}
