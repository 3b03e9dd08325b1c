// Members of nets: adding to containers, assigning over members, replacing them.
#include <array>
#include <optional>
#include <thread>

#include "support.h"

using namespace mezzo;

namespace {

struct ReluNet : nn::Model<ReluNet> {
  nn::Linear body = add("body", nn::Linear{4, 16});
  nn::Linear head = add("head", nn::Linear{16, 2});
  Tensor forward(const Tensor& x) const { return head(relu(body(x))); }
};

struct OuterNet : nn::Model<OuterNet> {
  ReluNet inner = add("inner", ReluNet{});
  nn::Linear last = add("last", nn::Linear{2, 2});
  Tensor forward(const Tensor& x) const { return last(inner(x)); }
};

/** A net that registers its layers in each of the ways that the README and the samples use. */
struct Registered : nn::Model<Registered> {
  Registered() {
    by_name.push_back(nn::ReLU{});
    add("by_name", by_name);
    assigned = add("assigned", nn::Linear{3, 3});
    optional = add("optional", nn::Linear{3, 3});
  }
  nn::Sequential by_name;
  nn::Linear assigned{1, 1};
  std::optional<nn::Linear> optional;
  std::array<nn::Linear, 2> array = {add("array0", nn::Linear{3, 3}),
                                     add("array1", nn::Linear{3, 3})};
  nn::Module untyped = add("untyped", nn::Linear{3, 3});
};

struct Layers : nn::Model<Layers> {
  Layers() {
    for (int i = 0; i < 3; ++i) layers.push_back(add(str(i), nn::Linear{2, 2}));
  }
  Tensor forward(Tensor x) const {
    for (const nn::Linear& layer : layers) x = layer(x);
    return x;
  }
  std::vector<nn::Linear> layers;
};

/** Returns whether parameters() lists exactly the parameters that a forward pass uses. */
template <class M> bool consistent(const M& net, const Tensor& x) {
  net.zero_grad();
  sum(square(net(x))).backward();
  for (const Tensor& p : net.parameters())
    if (!p.grad().defined()) return false;
  return true;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kCure = "use replace(\"head\", ...)";

}  // namespace

TEST_CASE("a container calls members appended with add()") {
  nn::Sequential net{nn::Linear{4, 4}};
  net.add("act", nn::ReLU{});
  net.push_back(nn::Linear{4, 3});
  REQUIRE(net.size() == 3);
  CHECK(net[1].is<nn::ReLU>());
  CHECK(net.child("act").is_same(net[1]));
  const Tensor x = randn({2, 4});
  const Tensor w0 = net.parameter("0.weight"), b0 = net.parameter("0.bias");
  const Tensor w2 = net.parameter("2.weight"), b2 = net.parameter("2.bias");
  CHECK(equal(net(x), linear(relu(linear(x, w0, b0)), w2, b2)));
  CHECK_THROWS_AS(net.add("act", nn::ReLU{}), ValueError);
  CHECK_THROWS_AS(net.add("", nn::ReLU{}), ValueError);
  CHECK(net.size() == 3);

  nn::ModuleList<nn::Linear> list;
  list.add("first", nn::Linear{1, 1});
  list.push_back(nn::Linear{2, 2});
  REQUIRE(list.size() == 2);
  CHECK(list[0].is_same(list.child("first")));
  CHECK_THROWS_AS(list.add("first", nn::Linear{1, 1}), ValueError);
  CHECK(list.size() == 2);

  nn::ModuleDict<nn::Linear> dict;
  dict.add("only", nn::Linear{1, 1});
  CHECK(dict.contains("only"));
  CHECK_THROWS_AS(dict.add("only", nn::Linear{1, 1}), ValueError);
  CHECK(dict.size() == 1);
}

TEST_CASE("adding to or replacing in a container needs a handle of the container's own type") {
  const nn::Sequential sequential{nn::Linear{4, 4}, nn::ReLU{}};
  const nn::ModuleList<nn::Linear> list({nn::Linear{1, 1}});
  const nn::ModuleDict<nn::Linear> dict({{"0", nn::Linear{1, 1}}});
  for (nn::Module module : std::vector<nn::Module>{sequential, list, dict}) {
    CHECK(says(error_of<StateError>([&] { module.add("x", nn::ReLU{}); }), "call add() of the"));
    CHECK(says(error_of<StateError>([&] { module.replace("0", nn::Linear{1, 1}); }),
               "call replace() of the"));
  }
  CHECK(sequential.children().size() == 2);
}

TEST_CASE("assigning over a registered member is an error with a hint") {
  ReluNet net;
  const Tensor x = randn({3, 4});
  const Tensor before = net(x);
  CHECK(says(error_of<StateError>([&] { net.head = nn::Linear{16, 3}; }), kCure));
  const nn::Linear other{16, 3};
  CHECK(says(error_of<StateError>([&] { net.head = other; }), kCure));
  const ReluNet another;
  CHECK(says(error_of<StateError>([&] { net.head = another.head; }), kCure));
  CHECK(says(error_of<StateError>([&] { net.head = net.body; }), kCure));
  nn::Module& untyped = net.head;
  CHECK(says(error_of<StateError>([&] { untyped = nn::Linear{16, 3}; }), kCure));
  CHECK(equal(net(x), before));  // unchanged
  CHECK(consistent(net, x));
}

TEST_CASE(
    "members are registered in copies of a net, in nested nets, after moves and in containers of "
    "nets") {
  const Tensor x = randn({3, 4});
  const auto refuses = [&](ReluNet& net) {
    CHECK(says(error_of<StateError>([&] { net.head = nn::Linear{16, 3}; }), kCure));
    CHECK(consistent(net, x));
  };
  ReluNet net;
  ReluNet copy = net;
  refuses(copy);
  ReluNet moved = std::move(copy);
  refuses(moved);
  ReluNet assigned;
  assigned = net;
  refuses(assigned);
  auto on_heap = std::make_unique<ReluNet>(net);
  refuses(*on_heap);
  std::vector<ReluNet> nets;
  for (int i = 0; i < 5; ++i) nets.emplace_back();
  nets.erase(nets.begin());
  for (ReluNet& each : nets) refuses(each);
  OuterNet outer;
  refuses(outer.inner);
  OuterNet outer_copy = outer;
  refuses(outer_copy.inner);
  CHECK_THROWS_AS((outer.inner = ReluNet{}), StateError);
  CHECK_THROWS_AS((outer.inner = net), StateError);
}

TEST_CASE("members are found with every way of registration") {
  Registered net;
  CHECK_THROWS_AS((net.by_name = nn::Sequential{nn::ReLU{}, nn::ReLU{}}), StateError);
  CHECK_THROWS_AS((net.assigned = nn::Linear{3, 3}), StateError);
  CHECK_THROWS_AS((*net.optional = nn::Linear{3, 3}), StateError);
  CHECK_THROWS_AS((net.array[0] = nn::Linear{3, 3}), StateError);
  CHECK_THROWS_AS((net.untyped = nn::Linear{3, 3}), StateError);

  nn::ModuleList<nn::Linear> list({nn::Linear{2, 2}, nn::Linear{2, 2}});
  const nn::Linear held = list[1];
  CHECK_THROWS_AS((list[1] = nn::Linear{2, 2}), StateError);
  nn::ModuleDict<nn::Linear> dict({{"a", nn::Linear{2, 2}}});
  CHECK_THROWS_AS((dict["a"] = nn::Linear{2, 2}), StateError);

  Layers layers;  // in a vector: detected while no other handle holds the layer
  CHECK(says(error_of<StateError>([&] { layers.layers[1] = nn::Linear{2, 2}; }),
             "use replace(\"1\", ...)"));
}

TEST_CASE("assigning a whole net works") {
  const Tensor x = randn({3, 4});
  ReluNet net;
  const ReluNet other;
  net = other;
  CHECK(net.is_same(other));
  CHECK(net.head.is_same(other.head));
  CHECK(equal(net(x), other(x)));
  net = ReluNet{};
  CHECK_FALSE(net.is_same(other));
  CHECK(consistent(net, x));
  OuterNet outer;
  outer = OuterNet{};
  CHECK(consistent(outer, x));
  ReluNet a, b;
  const Tensor ya = a(x), yb = b(x);
  std::swap(a, b);
  CHECK(equal(a(x), yb));
  CHECK(equal(b(x), ya));
  CHECK(consistent(a, x));
  CHECK_THROWS_AS((a.head = nn::Linear{16, 3}), StateError);
  ReluNet& self = a;
  a = self;
  a.head = self.head;
  CHECK(consistent(a, x));
  Registered registered;
  registered = Registered{};
  CHECK_THROWS_AS((registered.assigned = nn::Linear{3, 3}), StateError);
}

TEST_CASE("assigning to a handle that is not a member rebinds it") {
  ReluNet net;
  nn::Linear handle = net.head;
  handle = nn::Linear{16, 3};
  CHECK_FALSE(handle.is_same(net.head));
  handle = net.body;
  CHECK(handle.is_same(net.body));
  nn::Module untyped = net.child("head");
  untyped = nn::ReLU{};
  struct Bare : nn::Model<Bare> {};
  Bare bare;
  nn::Linear added = bare.add("fc", nn::Linear{2, 2});
  added = nn::Linear{3, 3};
  nn::Linear before{2, 2};
  bare.add("before", before);
  before = nn::Linear{3, 3};
  CHECK(bare.child("before").parameter("weight").size(0) == 2);
  nn::Module nest = nn::ReLU{};  // nested modules, built from the innermost one
  for (int i = 0; i < 3; ++i) {
    Bare around;
    around.add("inner", nest);
    nest = around;
  }
  CHECK(nest.child("inner.inner.inner").is<nn::ReLU>());
  CHECK(consistent(net, randn({3, 4})));
}

TEST_CASE("elements of containers are swapped and moved") {
  const Tensor x = randn({3, 2});
  Layers net;
  const nn::Linear first = net.layers[0], second = net.layers[1], third = net.layers[2];
  std::swap(net.layers[0], net.layers[1]);
  CHECK(net.layers[0].is_same(second));
  std::reverse(net.layers.begin(), net.layers.end());
  CHECK(net.layers[0].is_same(third));
  std::rotate(net.layers.begin(), net.layers.begin() + 1, net.layers.end());
  CHECK(consistent(net, x));
  net.layers.erase(net.layers.begin());
  CHECK(net.layers.size() == 2);
  std::vector<nn::Linear> moved = std::move(net.layers);
  net.layers = moved;
  Layers alone;  // no other handles to these layers
  alone.layers.erase(alone.layers.begin());
  std::swap(alone.layers[0], alone.layers[1]);
  alone.layers.insert(alone.layers.begin(), alone.layers.back());

  nn::ModuleList<nn::Linear> list({nn::Linear{2, 2}, nn::Linear{2, 2}});
  const nn::Linear zero = list[0];
  std::swap(list[0], list[1]);
  CHECK(list[1].is_same(zero));
  Registered registered;
  std::swap(registered.array[0], registered.array[1]);
  CHECK(registered.array[0].is_same(registered.child("array1")));
}

TEST_CASE("replace() exchanges a member for another layer") {
  const Tensor x = randn({3, 4});
  ReluNet net;
  ReluNet copy = net;
  OuterNet outer;
  const nn::Linear old = net.head;
  const nn::Linear added = net.replace("head", nn::Linear{16, 3});
  CHECK(net.head.is_same(added));
  CHECK(added.name() == "head");
  CHECK(net(x).shape() == Shape{3, 3});
  CHECK(consistent(net, x));
  CHECK(net.parameters().size() == 4);
  CHECK(keys(net) == "body.weight [16,4], body.bias [16], head.weight [3,16], head.bias [3]");
  CHECK(copy.head.is_same(added));  // copies share the net
  CHECK(equal(copy(x), net(x)));
  CHECK(old(ones({1, 16})).shape() == Shape{1, 2});  // the old layer still works
  CHECK_THROWS_AS((net.head = nn::Linear{16, 3}), StateError);
  net.head = net.replace("head", nn::Linear{16, 5});
  CHECK(net(x).shape() == Shape{3, 5});
  nn::Module(net).replace("head", nn::Linear{16, 6});
  CHECK(net(x).shape() == Shape{3, 6});
  outer.inner.replace("head", nn::Linear{16, 2});
  outer.replace("inner", ReluNet{});
  CHECK(consistent(outer, x));
}

TEST_CASE("replace in containers") {
  const Tensor x = randn({3, 2});
  nn::Sequential net{nn::Linear{2, 2}, nn::ReLU{}, nn::Linear{2, 2}};
  const nn::Sequential copy = net;
  net.replace("1", nn::Sequential{nn::Tanh{}});
  const auto layer = [&](const char* name, const Tensor& input) {
    return linear(input, net.child(name).parameter("weight"), net.child(name).parameter("bias"));
  };
  CHECK(equal(copy(x), layer("2", tanh(layer("0", x)))));
  net.replace("2", nn::Linear{2, 5});
  CHECK(net(x).shape() == Shape{3, 5});
  CHECK(consistent(net, x));
  nn::ModuleList<nn::Linear> list({nn::Linear{2, 2}, nn::Linear{2, 2}});
  list.replace("1", nn::Linear{2, 7});
  CHECK(list[1].weight().size(0) == 7);
  CHECK(list.parameter("1.weight").size(0) == 7);
  nn::ModuleDict<nn::Linear> dict({{"a", nn::Linear{2, 2}}});
  dict.replace("a", nn::Linear{2, 7});
  CHECK(dict["a"].is_same(dict.child("a")));
  Layers layers;
  layers.layers[1] = layers.replace("1", nn::Linear{2, 2});
  CHECK(consistent(layers, x));
}

TEST_CASE("calling a replaced layer is an error") {
  Layers net;
  const Tensor x = randn({3, 2});
  net.replace("1", nn::Linear{2, 2});
  const std::string text = error_of<StateError>([&] { net(x); });
  CHECK(says(text, "a net calls a module that replace() removed from it"));
  struct Joined : nn::Model<Joined> {
    Joined() {
      for (int i = 0; i < 2; ++i) layers.push_back(add(str(i), nn::Linear{2, 2}));
    }
    Tensor forward(const Tensor& input) const { return nn::mlp(input, layers); }
    std::vector<nn::Linear> layers;
  } joined;
  joined.replace("1", nn::Linear{2, 2});
  CHECK_THROWS_AS(joined(x), StateError);
  net.add("old", net.layers[1]);  // registered again, it is a regular member
  CHECK(net(x).shape() == Shape{3, 2});
}

TEST_CASE("replace does not affect other registrations of a module") {
  struct Tied : nn::Model<Tied> {
    nn::Linear a = add("a", nn::Linear{2, 2});
    nn::Linear b = add("b", a);
  };
  Tied net;
  const nn::Linear old = net.a;
  net.replace("a", nn::Linear{2, 3});
  CHECK(net.b.is_same(old));
  CHECK(net.child("b").is_same(old));
  CHECK(net.a.is_same(net.child("a")));
  CHECK_FALSE(net.a.is_same(old));
}

TEST_CASE("replace refuses invalid calls without changes") {
  ReluNet net;
  const nn::Linear head = net.head;
  CHECK(says(error_of<ValueError>([&] { net.replace("haed", nn::Linear{16, 3}); }), "\"head\""));
  CHECK(says(error_of<ValueError>([&] { net.replace("head", nn::ReLU{}); }),
             "a handle of another type"));
  OuterNet outer;
  CHECK_THROWS_AS(outer.inner.replace("head", outer), ValueError);
  CHECK(net.head.is_same(head));
  CHECK(net.child("head").is_same(head));
  Registered registered;
  registered.replace("untyped", nn::ReLU{});  // a handle of type Module takes any
  CHECK(registered.untyped.is<nn::ReLU>());
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  auto session = amp::initialize(net, optimizer, {.opt_level = "O2", .verbosity = 0});
  CHECK(says(error_of<StateError>([&] { net.replace("head", nn::Linear{16, 3}); }),
             "amp::initialize"));
  session.close();
  net.replace("head", nn::Linear{16, 3});
}

TEST_CASE("a handle outlives the net that registered it") {
  struct Bare : nn::Model<Bare> {};
  std::optional<Bare> net(std::in_place);
  nn::Linear result = net->add("fc", nn::Linear{2, 2});
  const nn::Linear copy = result;
  net.reset();
  nn::Linear again = result;
  again = nn::Linear{1, 1};
  result = copy;
  struct Holder : nn::Model<Holder> {
    nn::Linear fc{1, 1};
  } holder;
  holder.fc = result;
  holder.fc = nn::Linear{1, 1};
  CHECK(copy(ones({1, 2})).shape() == Shape{1, 2});
}

TEST_CASE("nets are copied by several threads") {
  const OuterNet net;
  const Tensor x = randn({3, 4});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        OuterNet copy = net;
        OuterNet other;
        other = copy;
        wrong += !other.inner.head.is_same(net.inner.head);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}
