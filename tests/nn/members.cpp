// Members of nets: adding to containers, replacing members.
#include <array>
#include <optional>

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
    optional.emplace(add("optional", nn::Linear{3, 3}));
  }
  nn::Sequential by_name;
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
    nn::Linear member{1, 1};
    CHECK(says(error_of<StateError>([&] { module.replace(member, nn::Linear{1, 1}); }),
               "call replace() of the"));
  }
  CHECK(sequential.children().size() == 2);
}

TEST_CASE("layers are assigned until they are members of a net") {
  struct Built : nn::Model<Built> {
    Built() {
      fc = add("fc", nn::Linear{4, 3});
      optional = add("optional", nn::Linear{3, 3});
      for (std::size_t i = 0; i < stages.size(); ++i)
        stages[i] = add(str("stage", i), nn::Sequential{nn::Linear{3, 3}, nn::ReLU{}});
    }
    Tensor forward(const Tensor& x) const {
      Tensor y = (*optional)(fc(x));
      for (const nn::Sequential& stage : stages) y = stage(y);
      return y;
    }
    nn::Linear fc{1, 1};
    std::optional<nn::Linear> optional;
    std::array<nn::Sequential, 2> stages;
  };
  Built net;
  CHECK(consistent(net, randn({2, 4})));
  nn::Sequential free{nn::ReLU{}};
  free = net.stages[0];
  CHECK(free.is_same(net.stages[0]));
  nn::Module any = net;
  any = net.child("fc");
  CHECK(any.is_same(net.fc));

  const nn::Linear before = net.fc;
  CHECK(
      says(error_of<StateError>([&] { net.fc = nn::Linear{4, 5}; }),
           "operator=: a layer of a net is not assigned: parameters() and save() would not "
           "change; got another Linear for \"fc\" Linear(4, 3); use net.replace(net.layer, ...)"));
  CHECK_THROWS_AS((net.fc = ReluNet().head), StateError);
  CHECK_THROWS_AS((*net.optional = net.fc), StateError);
  CHECK_THROWS_AS((net.stages[0] = nn::Sequential{nn::Tanh{}}), StateError);
  CHECK_THROWS_AS(std::swap(net.stages[0], net.stages[1]), StateError);
  nn::Linear copy = net.fc;
  CHECK_THROWS_AS((copy = nn::Linear{4, 3}), StateError);
  net.fc = before;  // the same layer
  CHECK(net.fc.is_same(before));
  CHECK(consistent(net, randn({2, 4})));
  nn::ModuleList<nn::Linear> list({nn::Linear{2, 2}, nn::Linear{2, 2}});
  CHECK_THROWS_AS((list[1] = nn::Linear{2, 2}), StateError);
  nn::MultiheadAttention attention{8, 2};
  CHECK(says(error_of<StateError>([&] { attention = nn::MultiheadAttention{8, 2}; }),
             "a layer with children is not assigned"));
}

TEST_CASE("handles are pointers: copies, and elements of standard containers, share the net") {
  STATIC_REQUIRE(sizeof(nn::Module) == sizeof(void*));
  STATIC_REQUIRE(std::is_nothrow_copy_constructible_v<nn::Module>);
  const Tensor x = randn({3, 4});
  const ReluNet net;
  const ReluNet copy = net;
  std::vector<ReluNet> nets;
  for (int i = 0; i < 5; ++i) nets.push_back(net);
  nets.emplace_back();
  nets.pop_back();
  for (const ReluNet& each : nets) CHECK(each.head.is_same(copy.head));
  CHECK(equal(nets[3](x), net(x)));
}

TEST_CASE("replace() exchanges a member for another layer") {
  const Tensor x = randn({3, 4});
  ReluNet net;
  const nn::Linear old = net.head;
  const nn::Linear added = net.replace(net.head, nn::Linear{16, 3});
  CHECK(net.head.is_same(added));
  CHECK(net.child("head").is_same(added));
  CHECK(added.name() == "head");
  CHECK(net(x).shape() == Shape{3, 3});
  CHECK(consistent(net, x));
  CHECK(net.parameters().size() == 4);
  CHECK(keys(net) == "body.weight [16,4], body.bias [16], head.weight [3,16], head.bias [3]");
  CHECK(old(ones({1, 16})).shape() == Shape{1, 2});  // the old layer still works
  nn::Module(net).replace(net.head, nn::Linear{16, 6});
  CHECK(net(x).shape() == Shape{3, 6});
  OuterNet outer;
  outer.inner.replace(outer.inner.head, nn::Linear{16, 2});
  CHECK(consistent(outer, x));
  outer.replace(outer.inner, ReluNet{});
  CHECK(consistent(outer, x));
  net.replace(net.head, net.head);  // changes nothing
  CHECK(net(x).shape() == Shape{3, 6});
}

TEST_CASE("replace() takes members of each kind, and a part of what the member holds") {
  Registered net;
  net.replace(net.by_name, nn::Sequential{nn::Tanh{}});
  net.replace(*net.optional, nn::Linear{3, 4});
  net.replace(net.array[1], nn::Linear{3, 5});
  CHECK(net.child("by_name.0").is<nn::Tanh>());
  CHECK(net.parameter("optional.weight").size(0) == 4);
  CHECK(net.optional->weight().size(0) == 4);
  CHECK(net.parameter("array1.weight").size(0) == 5);
  struct Tree : nn::Model<Tree> {
    std::vector<Tree> below;
    std::string text = std::string(100, 'x');
  };
  struct Root : nn::Model<Root> {
    Tree tree = add("tree", Tree{});
  } root;
  Tree inner;
  root.tree.below.push_back(inner);
  root.replace(root.tree, root.tree.below[0]);
  CHECK(root.tree.is_same(inner));
  CHECK(root.tree.below.empty());
  CHECK(root.tree.text.size() == 100);
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
  const nn::ModuleList<nn::Linear> other = list;
  const nn::Linear& element = list[1];
  list.replace("1", nn::Linear{2, 7});
  list.push_back(nn::Linear{2, 2});
  CHECK(element.weight().size(0) == 7);  // references to elements stay valid
  CHECK(other[1].weight().size(0) == 7);
  CHECK(list.parameter("1.weight").size(0) == 7);
  CHECK_THROWS_AS(list.replace("5", nn::Linear{2, 2}), ValueError);
  nn::ModuleDict<nn::Linear> dict({{"a", nn::Linear{2, 2}}});
  dict.replace("a", nn::Linear{2, 7});
  CHECK(dict["a"].is_same(dict.child("a")));
  CHECK(dict["a"].weight().size(0) == 7);
  CHECK_THROWS_AS(dict.replace("b", nn::Linear{2, 2}), ValueError);
  Layers layers;
  layers.replace(layers.layers[1], nn::Linear{2, 2});
  CHECK(consistent(layers, x));
}

TEST_CASE("a net that calls a replaced layer throws, until its handle is replaced, too") {
  ReluNet net;
  ReluNet copy = net;
  const Tensor x = randn({3, 4});
  net.replace(net.head, nn::Linear{16, 3});
  const std::string text = error_of<StateError>([&] { copy(x); });
  CHECK(says(text, "a net calls a module that replace() removed from it"));
  CHECK(says(text, "net.replace(handle, module)"));
  copy.replace(copy.head, net.head);
  CHECK(equal(copy(x), net(x)));
  struct Joined : nn::Model<Joined> {
    Joined() {
      for (int i = 0; i < 2; ++i) layers.push_back(add(str(i), nn::Linear{2, 2}));
    }
    Tensor forward(const Tensor& input) const { return nn::mlp(input, layers); }
    std::vector<nn::Linear> layers;
  } joined;
  nn::Linear handle = joined.layers[1];
  const nn::Linear old = handle;
  joined.replace(handle, nn::Linear{2, 2});
  CHECK_THROWS_AS(joined(ones({3, 2})), StateError);
  joined.add("old", old);  // registered again, it is a regular member
  CHECK(joined(ones({3, 2})).shape() == Shape{3, 2});
}

TEST_CASE("replace() changes all names of a module in one net, and none in others") {
  struct Tied : nn::Model<Tied> {
    nn::Linear a = add("a", nn::Linear{2, 2});
    nn::Linear b = add("b", a);
    Tensor forward(const Tensor& x) const { return b(a(x)); }
  };
  Tied net;
  struct Other : nn::Model<Other> {
    explicit Other(const nn::Linear& layer) : shared(add("shared", layer)) {}
    nn::Linear shared;
    Tensor forward(const Tensor& x) const { return shared(x); }
  };
  const Other other(net.a);
  net.replace(net.a, nn::Linear{2, 2});
  net.replace(net.b, net.a);
  CHECK(net.b.is_same(net.a));
  CHECK(net.child("b").is_same(net.a));
  CHECK(consistent(net, ones({3, 2})));
  CHECK_FALSE(other.shared.is_same(net.a));
  CHECK(consistent(other, ones({3, 2})));
}

TEST_CASE("replace refuses invalid calls without changes") {
  ReluNet net;
  const nn::Linear head = net.head;
  OuterNet outer;
  CHECK(says(error_of<ValueError>([&] { outer.replace(outer.inner.head, nn::Linear{16, 3}); }),
             "the layer is no child of this OuterNet; got Linear(16, 2); call replace() of the "
             "module that has added it"));
  nn::Linear stranger{1, 1};
  CHECK_THROWS_AS(net.replace(stranger, nn::Linear{16, 3}), ValueError);
  struct Ring : nn::Model<Ring> {
    std::vector<Ring> below;
  } ring;
  ring.below.push_back(ring.add("below", Ring{}));
  CHECK(says(error_of<ValueError>([&] { ring.replace(ring.below[0], ring); }),
             "cannot be part of itself"));
  CHECK(net.head.is_same(head));
  CHECK(net.child("head").is_same(head));
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  auto session = amp::initialize(net, optimizer, {.opt_level = "O2", .verbosity = 0});
  CHECK(says(error_of<StateError>([&] { net.replace(net.head, nn::Linear{16, 3}); }),
             "amp::initialize"));
  CHECK(net.head.is_same(head));
  session.close();
  net.replace(net.head, nn::Linear{16, 3});
  CHECK(net(randn({3, 4})).shape() == Shape{3, 3});
}

TEST_CASE("a handle outlives the net that registered it") {
  std::optional<ReluNet> net(std::in_place);
  const nn::Linear result = net->head;
  net.reset();
  CHECK(result(ones({1, 16})).shape() == Shape{1, 2});
}
