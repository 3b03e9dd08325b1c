// Members of a net that were not added to it are logged, once; nothing else is.
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

const std::string kText =
    "Forgotten: a member was not added to the net, which does not train, move, save or switch it; "
    "got Linear(4, 1), declared after \"a\", expected a member that is initialised by "
    "add(\"name\", "
    "...); a layer that is to stay outside belongs into a pointer";

template <class F> Texts logged(F&& f) {
  LogCapture log;
  f();
  return log.lines;
}

/** Returns what construction, a first and a second call, parameters() and saving log. */
template <class M> Texts logged_by_use() {
  return logged([] {
    M net;
    const Tensor x = randn({2, 4});
    (void)net(x);
    (void)net(x);
    (void)net.parameters();
    (void)net.state_dict();
  });
}

}  // namespace

TEST_CASE("a member that was not added is logged once, at the first call or parameters()") {
  CHECK(logged_by_use<Forgotten>() == Texts{kText});
  CHECK(logged([] { (void)Forgotten().parameters(); }) == Texts{kText});
  CHECK(logged([] { (void)Forgotten().named_parameters(); }) == Texts{kText});
  CHECK(logged([] {
          const Forgotten net;
          optim::SGD optimizer(net.parameters(), {.lr = 0.1});
          const auto session = amp::initialize(net, optimizer, {.verbosity = 0});
        }) == Texts{kText});
  CHECK(logged([] { const Forgotten net; }).empty());
}

TEST_CASE("copies of a net do not log its forgotten member again") {
  CHECK(logged([] {
          std::vector<Forgotten> nets;
          for (int i = 0; i < 3; ++i) nets.push_back(Forgotten());
          const Forgotten first = nets[0];
          for (const Forgotten& net : nets) (void)net(randn({2, 4}));
          (void)first(randn({2, 4}));
        }) == Texts{kText, kText, kText});
}

namespace {

struct Heads : nn::Model<Heads> {
  struct Pair {
    nn::Linear left{4, 2}, right{4, 3};
  };
  Pair pair;
  std::array<nn::Linear, 2> array{nn::Linear{4, 5}, nn::Linear{4, 6}};
  std::optional<nn::Linear> optional{std::in_place, 4, 7};
  nn::Sequential sequence{nn::Linear{4, 8}, nn::ReLU{}};
  nn::Dropout dropout{0.25};
  nn::RReLU slopes;
  nn::LSTM lstm{4, 3};
  explicit Heads() : taken(nn::Linear{4, 9}) {}
  explicit Heads(nn::Linear from_outside) : taken(from_outside) {}
  nn::Linear taken;
};

}  // namespace

TEST_CASE("forgotten members are found in structs, arrays, optionals and containers") {
  const Texts texts = logged([] { (void)Heads(nn::Linear{4, 9}).parameters(); });
  const std::vector<std::string> members{
      "Linear(4, 2)", "Linear(4, 3)",  "Linear(4, 5)", "Linear(4, 6)", "Linear(4, 7)",
      "Sequential",   "Dropout(0.25)", "RReLU(",       "LSTM(",        "Linear(4, 9)"};
  REQUIRE(texts.size() == members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    INFO(texts[i]);
    CHECK(texts[i].find("got " + members[i]) != std::string::npos);
    CHECK(texts[i].find("declared before added members") != std::string::npos);
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
  };
  Added inner{};
};

}  // namespace

TEST_CASE("a forgotten member of an inner net, and a forgotten net") {
  CHECK(logged_by_use<Outer>() == Texts{kText});
  const Texts texts = logged([] { (void)AroundNet().parameters(); });
  REQUIRE(texts.size() == 1);
  CHECK(texts[0].find("AroundNet: a member was not added") == 0);
  CHECK(texts[0].find("got Added, ") != std::string::npos);
}

namespace {

/** All ways to hold layers that are right. */
struct Right : nn::Model<Right> {
  Right() {
    assigned = add("assigned", nn::Linear{4, 4});
    add("later", later);
    optional = add("optional", nn::Linear{4, 4});
    for (int i = 0; i < 3; ++i) layers.push_back(add(str("layer", i), nn::Linear{4, 4}));
    std::vector<nn::Linear> in_place;
    for (int i = 0; i < 3; ++i) in_place.emplace_back(4, 4);
    for (int i = 0; i < 3; ++i) added_later.push_back(in_place[static_cast<std::size_t>(i)]);
    for (int i = 0; i < 3; ++i) add(str("later", i), added_later[static_cast<std::size_t>(i)]);
    const nn::Linear local{4, 4};
    (void)local(randn({1, 4}));
    shared = add("tied", nn::Linear{4, 4});
    list.push_back(nn::Linear{4, 4});
    add("list", list);
    in_sequence = nn::Sequential{part, nn::ReLU{}};
    add("in_sequence", in_sequence);
  }
  Tensor forward(const Tensor& x) const {
    const nn::Linear temporary{4, 4};
    return assigned(later(layers[0](temporary(act(identity(x))))));
  }
  nn::Linear first = add("first", nn::Linear{4, 4});
  nn::Linear assigned{1, 1}, later{4, 4};
  std::optional<nn::Linear> optional;
  std::vector<nn::Linear> layers, added_later;
  nn::Linear shared{2, 2};
  nn::ModuleList<nn::Linear> list;
  nn::Linear part{4, 4};
  nn::Sequential in_sequence;
  nn::ReLU act;  // without tensors or modes
  nn::Identity identity;
  std::shared_ptr<nn::Linear> outside = std::make_shared<nn::Linear>(4, 4);
  nn::Module untyped = add("untyped", nn::Linear{4, 4});
};

/** Shares the layer of another net, which has added it. */
struct Tied : nn::Model<Tied> {
  explicit Tied(const Forgotten& net) : a(net.a) {}
  nn::Linear a;
  Tensor forward(const Tensor& x) const { return a(x); }
};

Right made() {
  Right net;
  return net.training() ? net : Right();
}

}  // namespace

TEST_CASE("members that were added, locals, shared layers and layers without state log nothing") {
  CHECK(logged_by_use<Right>().empty());
  CHECK(logged([] {
          const Right net = made();
          std::vector<Right> nets{net, made()};
          nets.push_back(net);
          nets[0] = nets[1];
          for (const Right& one : nets) (void)one(randn({1, 4}));
        }).empty());
  CHECK(logged([] {
          const Forgotten net;
          const Tied tied(net);
          (void)tied(randn({1, 4}));
        }).empty());
}

TEST_CASE("layers of one thread are no members of another thread's net") {
  CHECK(logged([] {
          const Right net;
          std::thread([] {
            const nn::Linear layer{4, 4};
            (void)layer(randn({1, 4}));
          }).join();
          (void)net(randn({1, 4}));
        }).empty());
}
