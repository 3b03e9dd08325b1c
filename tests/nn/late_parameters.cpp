// Parameters that join a net after the optimizer was made are refused if no optimizer holds them.
#include "support.h"

using namespace mezzo;

namespace {

struct HeadNet : nn::Model<HeadNet> {
  nn::Linear body = add("body", nn::Linear{4, 4});
  nn::Linear head = add("head", nn::Linear{4, 2});
  Tensor forward(const Tensor& x) const { return head(body(x)); }
};

void go_backward(const nn::Module& module, const HeadNet& net) {
  module.zero_grad();
  sum(net(randn({3, 4}))).backward();
}

const std::string kReplaced =
    "SGD.step: a parameter has a gradient but is in no optimizer; got \"head.weight\" "
    "f32[3,4]@cpu, "
    "from replace() after the optimizer was made, expected an optimizer over the net as it is "
    "now; make the optimizer later, or call add_param_group() with the new parameters";

}  // namespace

TEST_CASE("a head that is replaced after the optimizer was made is refused by step()") {
  HeadNet net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  net.replace(net.head, nn::Linear{4, 3});
  go_backward(net, net);
  const std::vector<double> before = values(net.body.weight());
  CHECK(error_of<StateError>([&] { optimizer.step(); }) == kReplaced);
  CHECK(values(net.body.weight()) == before);

  optimizer.add_param_group(net.head.parameters(), {.lr = 0.1});
  CHECK(optimizer.step() == optim::StepResult::stepped);
}

TEST_CASE("each way of training a new head is accepted") {
  HeadNet net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  net.replace(net.head, nn::Linear{4, 3});
  SECTION("by another optimizer") {
    optim::Adam of_head(net.head.parameters());
    go_backward(net, net);
    CHECK(optimizer.step() == optim::StepResult::stepped);
    CHECK(of_head.step() == optim::StepResult::stepped);
  }
  SECTION("frozen") {
    net.head.freeze();
    go_backward(net, net);
    CHECK(optimizer.step() == optim::StepResult::stepped);
  }
  SECTION("by an optimizer made later") {
    optim::SGD all(net.parameters(), {.lr = 0.1});
    go_backward(net, net);
    CHECK(all.step() == optim::StepResult::stepped);
    CHECK(optimizer.step() == optim::StepResult::stepped);
  }
}

TEST_CASE("a layer or parameter that is added later, or replaced again, is refused by its name") {
  HeadNet net;
  optim::Adam optimizer(net.parameters());
  SECTION("add") {
    const nn::Linear extra = net.add("extra", nn::Linear{2, 2});
    net.zero_grad();
    sum(extra(net(randn({3, 4})))).backward();
    CHECK_THROWS_WITH_AS_TEXT(optimizer.step(), StateError, "got \"extra.weight\"");
  }
  SECTION("add_parameter") {
    const Tensor scale = net.add_parameter("scale", ones({2}));
    net.zero_grad();
    sum(net(randn({3, 4})) * scale).backward();
    CHECK_THROWS_WITH_AS_TEXT(optimizer.step(), StateError, "got \"scale\"");
  }
  SECTION("replace, twice") {
    net.replace(net.head, nn::Linear{4, 3});
    net.replace(net.head, nn::Linear{4, 5});
    go_backward(net, net);
    CHECK_THROWS_WITH_AS_TEXT(optimizer.step(), StateError, "got \"head.weight\" f32[5,4]");
  }
  SECTION("push_back of a Sequential") {
    nn::Sequential sequence{nn::Linear{4, 4}, nn::ReLU{}};
    optim::SGD other(sequence.parameters(), {.lr = 0.1});
    sequence.push_back(nn::Linear{4, 2});
    sum(sequence(randn({3, 4}))).backward();
    CHECK_THROWS_WITH_AS_TEXT(other.step(), StateError, "got \"2.weight\"");
  }
}

TEST_CASE("LBFGS refuses a replaced head too") {
  HeadNet net;
  optim::LBFGS optimizer(net.parameters());
  net.replace(net.head, nn::Linear{4, 3});
  const auto closure = [&] {
    optimizer.zero_grad();
    const Tensor loss = sum(square(net(ones({3, 4}))));
    loss.backward();
    return loss;
  };
  CHECK_THROWS_WITH_AS_TEXT(optimizer.step(closure), StateError, "got \"head.weight\"");
}

TEST_CASE("parts of nets that no optimizer is meant for are accepted") {
  HeadNet net;
  optim::SGD of_head(net.head.parameters(), {.lr = 0.1});
  net.replace(net.body, nn::Linear{4, 4});  // was in no optimizer before either
  go_backward(net, net);
  CHECK(of_head.step() == optim::StepResult::stepped);

  HeadNet other;  // built beside a live optimizer
  go_backward(other, other);
  go_backward(net, net);
  CHECK(of_head.step() == optim::StepResult::stepped);
}

TEST_CASE("a net and its optimizers release the parameters that were recorded") {
  const auto current = [] { return memory_stats(cpu).total.current; };
  const std::int64_t before = current();
  for (int i = 0; i < 3; ++i) {
    HeadNet net;
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    net.replace(net.head, nn::Linear{4, 1000});
    net.replace(net.head, nn::Linear{4, 2000});
  }
  CHECK(current() == before);
}

TEST_CASE("an optimizer without parameters is refused") {
  using Params = std::vector<Tensor>;
  const std::string expected =
      "SGD: there are no parameters; got an empty list, expected the parameters of a model: "
      "model.parameters(); were its layers added, by add(\"name\", ...)?";
  CHECK(error_of<ValueError>([] { optim::SGD(Params{}, {.lr = 0.1}); }) == expected);
  CHECK_THROWS_AS(optim::AdamW(Params{}), ValueError);
  CHECK_THROWS_AS(optim::FusedLAMB(Params{}), ValueError);
  CHECK_THROWS_AS(optim::LBFGS(Params{}), ValueError);
  using Groups = std::vector<optim::ParamGroup<optim::SgdOptions>>;
  CHECK_THROWS_AS(optim::SGD(Groups{{{}, {.lr = 0.1}}, {{}, {.lr = 0.2}}}), ValueError);
  CHECK_THROWS_AS(optim::SGD(Groups{}), ValueError);
  const Tensor x = ones({2}).requires_grad_();
  optim::SGD some(Groups{{{}, {.lr = 0.1}}, {{x}, {.lr = 0.2}}});  // one group may be empty
  some.add_param_group({}, {.lr = 0.1});
  CHECK(some.num_groups() == 3);
}
