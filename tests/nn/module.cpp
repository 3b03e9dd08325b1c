// The module itself: registration, handles, modes, conversion, printing.
#include <sstream>

#include "support.h"

using namespace mezzo;

namespace {

struct Scale : nn::Model<Scale> {
  Tensor factor = add_parameter("factor", tensor({1., 2, 3}));
  Tensor calls = add_buffer("calls", tensor(0, {.dtype = i64}));
  Tensor forward(const Tensor& x) const { return x * factor; }
};

struct Shift : nn::Model<Shift> {
  explicit Shift(double by) { set_summary(str(by)); }
  Tensor offset = add_parameter("offset", tensor({0.5, 0.5, 0.5}));
  Tensor forward(const Tensor& x) const { return x + offset; }
};

struct Block : nn::Model<Block> {
  Scale scale = add("scale", Scale{});
  Shift shift = add("shift", Shift{0.5});
  Tensor forward(const Tensor& x) const { return shift(scale(x)); }
};

struct Net : nn::Model<Net> {
  Block first = add("first", Block{});
  Scale last = add("last", Scale{});
  Tensor forward(const Tensor& x) const { return last(relu(first(x))); }
};

std::vector<std::string> names(const std::vector<nn::NamedTensor>& entries) {
  std::vector<std::string> out;
  for (const nn::NamedTensor& entry : entries) out.push_back(entry.name);
  return out;
}

}  // namespace

TEST_CASE("a net registers its members by name, in order") {
  const Net net;
  CHECK(net.kind() == "Net");
  CHECK(net.is<Net>());
  CHECK_FALSE(net.is<Block>());
  CHECK(names(net.named_parameters()) ==
        std::vector<std::string>{"first.scale.factor", "first.shift.offset", "last.factor"});
  CHECK(names(net.named_buffers()) == std::vector<std::string>{"first.scale.calls", "last.calls"});
  CHECK(net.parameters().size() == 3);
  CHECK(net.num_parameters() == 9);
  CHECK(net.parameter("first.shift.offset").is_same(net.first.shift.offset));
  CHECK(net.buffer("last.calls").is_same(net.last.calls));
  CHECK(net.child("first.shift").is_same(net.first.shift));
  CHECK(net.child("").is_same(net));
  CHECK(net.children().size() == 2);
  std::vector<std::string> paths;
  for (const nn::NamedModule& entry : net.named_modules()) paths.push_back(entry.name);
  CHECK(paths == std::vector<std::string>{"", "first", "first.scale", "first.shift", "last"});
}

TEST_CASE("parameters are marked as such and require gradients") {
  const Net net;
  for (const Tensor& p : net.parameters()) {
    CHECK(p.requires_grad());
    CHECK(p.impl()->is_parameter);
    CHECK(p.impl()->storage->category() == MemoryCategory::weights);
  }
  CHECK_FALSE(net.last.calls.requires_grad());
  CHECK(net.last.calls.impl()->storage->category() == MemoryCategory::weights);
}

TEST_CASE("calling a net runs forward, and gradients reach its parameters") {
  const Net net;
  const Tensor x = tensor({1., -2, 1});
  const Tensor y = net(x);
  CHECK(y.to_vector<double>() == std::vector<double>{1.5, 0, 10.5});
  sum(y).backward();
  CHECK(net.first.scale.factor.grad().to_vector<double>() == std::vector<double>{1, 0, 3});
  CHECK(net.last.factor.grad().to_vector<double>() == std::vector<double>{1.5, 0, 3.5});
  net.zero_grad(false);
  CHECK(net.last.factor.grad().to_vector<double>() == std::vector<double>{0, 0, 0});
  net.zero_grad();
  for (const Tensor& p : net.parameters()) CHECK_FALSE(p.grad().defined());
}

TEST_CASE("copies and moves of a model are the same module and outlive the original") {
  auto net = std::make_unique<Net>();
  const Net copy = *net;
  Net moved = std::move(*net);
  CHECK(copy.is_same(moved));
  CHECK(copy.parameter("last.factor").is_same(moved.last.factor));
  net.reset();
  const Tensor x = tensor({1., 1, 1});
  CHECK(copy(x).to_vector<double>() == moved(x).to_vector<double>());
  moved.eval();
  CHECK_FALSE(copy.training());
  CHECK_FALSE(copy.first.shift.training());
  std::vector<Net> nets;
  for (int i = 0; i < 10; ++i) nets.emplace_back();
  CHECK_FALSE(nets[0].is_same(nets[9]));
  for (const Net& n : nets) CHECK(n(x).to_vector<double>() == copy(x).to_vector<double>());
  Net braces{};
  CHECK(braces.num_parameters() == 9);
}

TEST_CASE("training mode applies to all submodules") {
  const Net net;
  CHECK(net.first.scale.training());
  net.eval();
  for (const nn::NamedModule& entry : net.named_modules()) CHECK_FALSE(entry.module.training());
  net.first.train();
  CHECK(net.first.shift.training());
  CHECK_FALSE(net.training());
  CHECK_FALSE(net.last.training());
}

TEST_CASE("conversion keeps the identity of parameters and converts their gradients") {
  const Net net;
  sum(net(tensor({1., 1, 1}))).backward();
  const Tensor factor = net.last.factor, view = factor.view({3, 1}).detach();
  const std::vector<double> grad = factor.grad().to_vector<double>();
  net.to(f16);
  CHECK(factor.is_same(net.last.factor));
  CHECK(factor.dtype() == f16);
  CHECK(factor.grad().dtype() == f16);
  CHECK(factor.grad().to_vector<double>() == grad);
  CHECK(factor.is_leaf());
  CHECK(factor.requires_grad());
  CHECK(factor.impl()->is_parameter);
  CHECK(factor.impl()->storage->category() == MemoryCategory::weights);
  CHECK(net.last.calls.dtype() == i64);
  CHECK(view.dtype() == f32);  // a view made before keeps the old memory
  CHECK(net(tensor({1, 1, 1}, {.dtype = f16})).dtype() == f16);
  net.to(f64).to(cpu);
  CHECK(factor.dtype() == f64);
  CHECK_THROWS_AS(net.to(i64), DtypeError);
  CHECK(factor.dtype() == f64);
}

TEST_CASE("a graph detects the conversion of a saved parameter") {
  const Scale scale;
  const Tensor y = sum(scale(tensor({1., 1, 1}, {.requires_grad = true})));
  scale.to(f64);
  scale.to(f32);
  CHECK_THROWS_AS(y.backward(), StateError);
}

TEST_CASE("freezing, and applying a function to all submodules") {
  const Net net;
  net.first.freeze();
  CHECK_FALSE(net.first.scale.factor.requires_grad());
  CHECK(net.last.factor.requires_grad());
  net.requires_grad_();
  CHECK(net.first.scale.factor.requires_grad());
  std::vector<std::string> order;
  net.apply([&](const nn::Module& module) { order.emplace_back(module.kind()); });
  CHECK(order == std::vector<std::string>{"Scale", "Shift", "Block", "Scale", "Net"});
}

TEST_CASE("a shared module or parameter counts once") {
  struct Tied : nn::Model<Tied> {
    Scale a = add("a", Scale{});
    Scale b = add("b", a);
    Tensor again = add_parameter("again", a.factor);
    Tensor forward(const Tensor& x) const { return b(a(x)); }
  };
  const Tied net;
  CHECK(names(net.named_parameters()) == std::vector<std::string>{"again"});
  CHECK(net.named_modules().size() == 2);
  CHECK(net.num_parameters() == 3);
}

TEST_CASE("errors name the executing module") {
  const Net net;
  CHECK(error_of<ShapeError>([&] { net(ones({2})); }).find("(first.scale)") != std::string::npos);
  CHECK(error_of<ShapeError>([&] { net.first(ones({2})); }).find("(first.scale)") !=
        std::string::npos);
  CHECK(error_of<ShapeError>([&] { net.last(ones({2})); }).find("(last)") != std::string::npos);
  CHECK(current_module_path().empty());
}

TEST_CASE("invalid names and tensors are refused") {
  Net net;
  CHECK_THROWS_AS(net.add("first", Scale{}), ValueError);
  CHECK_THROWS_AS(net.add("", Scale{}), ValueError);
  CHECK_THROWS_AS(net.add("a.b", Scale{}), ValueError);
  CHECK_THROWS_AS(net.add_parameter("last", ones({1})), ValueError);
  CHECK_THROWS_AS(net.add_parameter("x", Tensor{}), ValueError);
  CHECK_THROWS_AS(net.add_parameter("x", ones({1}, {.dtype = i64})), DtypeError);
  CHECK_THROWS_AS(net.add_parameter("x", net.last.factor * 2), StateError);
  CHECK_THROWS_AS(net.add_buffer("first", ones({1})), ValueError);
  CHECK_THROWS_AS(net.first.add("net", net), ValueError);
  CHECK(net.num_parameters() == 9);
  const std::string text = error_of<ValueError>([&] { net.parameter("first.shift.offest"); });
  CHECK(text ==
        "parameter: Net has no tensor of this name; got \"first.shift.offest\"; did you mean "
        "\"first.shift.offset\"?");
  CHECK(error_of<ValueError>([&] { net.child("frist"); }).find("\"first\"") != std::string::npos);
}

TEST_CASE("forward may have any signature") {
  struct Free : nn::Model<Free> {
    int calls = 0;
    std::pair<Tensor, int> forward(const Tensor& a, double b, std::vector<Tensor>& log) {
      ++calls;
      log.push_back(a);
      return {a * b, calls};
    }
  };
  struct Nothing : nn::Model<Nothing> {
    void forward() const {}
  };
  Free free;
  std::vector<Tensor> log;
  CHECK(free(ones({2}), 3, log).second == 1);
  CHECK(free(ones({2}), 3, log).first.to_vector<double>() == std::vector<double>{3, 3});
  CHECK(log.size() == 2);
  const Nothing nothing;
  nothing();
}

TEST_CASE("a printed model shows its tree with shapes and counts") {
  const Net net;
  net.last.freeze();
  net.first.to(bf16);
  std::ostringstream out;
  out << net;
  CHECK(out.str() ==
        "Net                                                       9 parameters\n"
        "  first: Block                                            6\n"
        "    scale: Scale()  factor [3] bf16, calls [] i64 buffer  3\n"
        "    shift: Shift(0.5)  offset [3] bf16                    3\n"
        "  last: Scale()  factor [3] frozen, calls [] i64 buffer   3\n");
  CHECK(str(net) == out.str());
}

TEST_CASE("type names omit namespaces and template arguments") {
  using nn::detail::short_name;
  CHECK(short_name("mezzo::nn::Linear") == "Linear");
  CHECK(short_name("Net") == "Net");
  CHECK(short_name("main()::Net") == "Net");
  CHECK(short_name("a::List<b::C<int>, d::E>") == "List");
  CHECK(short_name("{anonymous}::Net") == "Net");
}
