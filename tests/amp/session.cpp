#include "nets.h"

#include <thread>

#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/throws.h"

using namespace nets;

namespace {

DType dtype_of_parameter(const Net& net, const char* path) { return net.parameter(path).dtype(); }

}  // namespace

TEST_CASE("levels convert models as defined") {
  const std::string level = GENERATE(from_range(levels::names()));
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const auto session = amp::initialize(net, optimizer, quiet(level.c_str()));
  const DType body = level == "O2" || level == "O3" ? f16 : level == "O5" ? bf16 : f32;
  CHECK(dtype_of_parameter(net, "first.weight") == body);
  CHECK(dtype_of_parameter(net, "second.bias") == body);
  CHECK(net.buffer("mean").dtype() == body);
  CHECK(net.buffer("count").dtype() == i64);
  CHECK(dtype_of_parameter(net, "norm.weight") == (level == "O3" ? f16 : f32));
  CHECK(net.buffer("norm.seen").dtype() == (level == "O3" ? f16 : f32));
  const Tensor y = net(input());
  CHECK(y.dtype() == (level == "O1" ? f16 : level == "O4" ? bf16 : f32));
  CHECK(loss_of(net).dtype() == f32);
}

TEST_CASE("every level trains, and closing it leaves an ordinary f32 model") {
  const std::string level = GENERATE(from_range(levels::names()));
  Net net;
  optim::Adam optimizer(net.parameters(), {.lr = 0.02});
  const double before = loss_of(net).item<double>();
  {
    const auto session = amp::initialize(net, optimizer, quiet(level.c_str()));
    for (int i = 0; i < 30; ++i) REQUIRE(train_step(net, optimizer) == amp::StepResult::stepped);
    CHECK(loss_of(net).item<double>() < 0.5 * before);
  }
  for (const Tensor& p : net.parameters()) CHECK(p.dtype() == f32);
  CHECK(net.buffer("mean").dtype() == f32);
  CHECK(optimizer.hooks() == nullptr);
  CHECK(optimizer.params()[0].is_same(net.parameters()[0]));
  CHECK(net(input()).dtype() == f32);
  optimizer.zero_grad();
  loss_of(net).backward();
  CHECK(optimizer.step() == optim::StepResult::stepped);
  const auto again = amp::initialize(net, optimizer, quiet("O2"));
  CHECK(train_step(net, optimizer) == amp::StepResult::stepped);
}

TEST_CASE("O0 is plain f32 training, bit for bit") {
  Net plain, net;
  optim::Adam plain_optimizer(plain.parameters()), optimizer(net.parameters());
  const auto session = amp::initialize(net, optimizer, quiet("O0"));
  for (int i = 0; i < 5; ++i) {
    train_step(net, optimizer);
    plain_optimizer.zero_grad();
    loss_of(plain).backward();
    plain_optimizer.step();
  }
  CHECK(weights(net) == weights(plain));
}

TEST_CASE("O1 gives the bits of the corresponding explicit casts") {
  Net automatic, by_hand;
  optim::SGD optimizer(automatic.parameters(), {.lr = 0.1}),
      plain(by_hand.parameters(), {.lr = 0.1});
  amp::Options options = quiet("O1");
  options.loss_scale = 1024;
  const auto session = amp::initialize(automatic, optimizer, options);
  for (int i = 0; i < 5; ++i) {
    train_step(automatic, optimizer);
    const amp::disable_casts off;
    const auto affine = [](const Affine& layer, const Tensor& x) {
      return linear(x.to(f16), layer.weight.to(f16), layer.bias.to(f16));
    };
    const Tensor h = tanh((affine(by_hand.first, input()) * by_hand.norm.weight).to(f16));
    const Tensor y = affine(by_hand.second, h);
    const Tensor square = y * y;
    plain.zero_grad();
    (sum(square.to(f32)) * 0x1p-9 * 1024).backward();
    for (const Tensor& p : by_hand.parameters()) p.set_grad(p.grad() * (1.0 / 1024));
    plain.step();
  }
  CHECK(weights(automatic) == weights(by_hand));
}

TEST_CASE("ops cast only while their session lives and only on its thread") {
  const Tensor a = wave({2, 2}, 0);
  Net net;
  {
    auto session = amp::initialize(net, quiet("O1"));
    CHECK(matmul(a, a).dtype() == f16);
    DType elsewhere = f16, opted_in = f32, afterwards = f16;
    std::thread([&] {
      elsewhere = matmul(a, a).dtype();
      {
        const auto on = session.activate();
        opted_in = matmul(a, a).dtype();
      }
      afterwards = matmul(a, a).dtype();
    }).join();
    CHECK(elsewhere == f32);
    CHECK(opted_in == f16);
    CHECK(afterwards == f32);
  }
  CHECK(matmul(a, a).dtype() == f32);
}

TEST_CASE("the innermost executing model's session decides, but guards take precedence") {
  Net one, two;
  auto o1 = amp::initialize(one, quiet("O1"));
  auto o0 = amp::initialize(two, quiet("O0"));
  CHECK(linear(input(), one.first.weight).dtype() ==
        f16);  // the most recent session that casts ops
  CHECK(two(input()).dtype() == f32);
  const amp::CastStats before = amp::cast_stats();
  two(input());
  CHECK((amp::cast_stats() - before).casts == 0);
  const amp::autocast brain({.dtype = bf16});
  CHECK(one(input()).dtype() == bf16);
  CHECK(linear(input(), two.first.weight).dtype() == bf16);
}

TEST_CASE("casts are counted") {
  Net net;
  const auto session = amp::initialize(net, quiet("O1"));
  const amp::CastStats before = amp::cast_stats();
  net(input());
  const amp::CastStats first = amp::cast_stats() - before;
  CHECK(first.casts == 5);  // the input, weights and biases of two layers
  CHECK(first.bytes == 2 * (30 + 48 + 8 + 24 + 3));
  net(input());
  const amp::CastStats second = amp::cast_stats() - before - first;
  CHECK(second.casts == 1);
  CHECK(second.cache_hits == 4);
}

TEST_CASE("16-bit models are refused by name and stay unchanged") {
  Net net, other;
  net.second.weight.detach();
  net.second.to(f16);
  optim::SGD optimizer(net.parameters());
  const std::string level = GENERATE("O0", "O1", "O2");
  CHECK_THROWS_WITH_AS_TEXT(
      amp::initialize({other, net}, optimizer, quiet(level.c_str())), DtypeError,
      "amp::initialize: \"second.weight\" of Net is 16-bit already; got f16[3,8]@cpu, expected "
      "f32 or f64");
  CHECK(optimizer.hooks() == nullptr);
  CHECK(net.attached_to() == nullptr);
  CHECK(other.first.weight.dtype() == f32);
  amp::Options options = quiet("O2");
  options.allow_incoming_model_not_fp32 = true;
  {
    const auto session = amp::initialize(net, optimizer, options);
    CHECK(optimizer.params()[0].dtype() == f32);
  }
  CHECK(net.second.weight.dtype() == f16);
  CHECK(net.first.weight.dtype() == f32);
}

TEST_CASE("an object belongs to one session at a time") {
  Net net, other;
  optim::SGD optimizer(net.parameters()), second(other.parameters());
  CHECK_THROWS_AS(amp::initialize({net, net}, optimizer, quiet("O1")), ValueError);
  CHECK_THROWS_AS(amp::initialize(net, {optimizer, optimizer}, quiet("O1")), ValueError);
  auto session = amp::initialize(net, optimizer, quiet("O2"));
  CHECK_THROWS_WITH_AS_TEXT(amp::initialize(other, optimizer, quiet("O1")), StateError,
                            "A given optimizer should only be passed through amp::initialize once");
  CHECK_THROWS_AS(amp::initialize(net, second, quiet("O1")), StateError);
  CHECK_THROWS_AS(amp::initialize(net.first, second, quiet("O1")), StateError);
  const auto beside = amp::initialize(other, second, quiet("O0"));
  CHECK(train_step(net, optimizer) == amp::StepResult::stepped);
  CHECK(train_step(other, second) == amp::StepResult::stepped);
}

TEST_CASE("models and optimizers are passed singly or in lists of any kind") {
  Net a, b;
  optim::SGD p(a.parameters()), q(b.parameters());
  const auto accepted = [&](const amp::ModelList& models, const amp::OptimizerList& optimizers) {
    const auto session = amp::initialize(models, optimizers, quiet("O0"));
    CHECK(p.hooks() != nullptr);
  };
  accepted(a, p);
  accepted({a, b}, {p, q});
  accepted(std::tie(a, b), std::tie(p, q));
  const std::vector<Net> nets{a, b};
  const std::vector<optim::Optimizer*> pointers{&p, &q};
  accepted(nets, pointers);
  const std::vector<std::reference_wrapper<optim::SGD>> references{p, q};
  accepted(nets, references);
  CHECK_NOTHROW(amp::initialize(a, quiet("O0")));
}

TEST_CASE("a disabled session changes nothing") {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  auto session = amp::initialize(net, optimizer, {.enabled = false, .opt_level = "whatever"});
  CHECK(net.call_wrapper() == nullptr);
  CHECK(session.state_dict().empty());
  CHECK(amp::state_dict().empty());
  const Tensor loss = loss_of(net);
  amp::scale_loss(loss, optimizer, [&](const Tensor& scaled) {
    CHECK(scaled.is_same(loss));
    scaled.backward();
  });
  CHECK(optimizer.step() == amp::StepResult::stepped);
  session.close();
  CHECK(optimizer.hooks() == nullptr);
}

TEST_CASE("initialize prints its decisions") {
  LogCapture log;
  Net net;
  const auto session = amp::initialize(net, {.opt_level = "O3"});
  REQUIRE(log.lines.size() == 1);
  CHECK(log.lines[0].find(str("amp O3 on ", test_device(), ": Pure FP16 training.")) == 0);
  log.lines.clear();
  Net other;
  const auto second = amp::initialize(other, {.opt_level = "O3", .verbosity = 2});
  REQUIRE(log.lines.size() == 9);
  CHECK(log.lines[1] == "Selected optimization level O3:  Pure FP16 training.");
  CHECK(log.lines[4] == "cast_model_type        : f16");
}

TEST_CASE("every cast is printed on request") {
  LogCapture log;
  Net net;
  amp::Options options = quiet("O1");
  options.verbosity = 2;
  const auto session = amp::initialize(net, options);
  log.lines.clear();
  linear(input(), net.first.weight);
  CHECK(log.lines == std::vector<std::string>{"f32->f16 (linear)", "f32->f16 (linear)"});
}

TEST_CASE("model outputs are cast as requested") {
  Net net;
  amp::Options options = quiet("O2");
  options.cast_model_outputs = f16;
  {
    const auto session = amp::initialize(net, options);
    CHECK(net(input()).dtype() == f16);
  }
  options = quiet("O1");
  options.cast_model_outputs = f32;
  const auto session = amp::initialize(net, options);
  CHECK(net(input()).dtype() == f32);
}

TEST_CASE("Session::explain describes the session") {
  Net net;
  const auto session = amp::initialize(net, quiet("O2"));
  const std::string text = session.explain();
  CHECK(text.find("Net: 4 parameters in f16 (83 elements) 1 parameters in f32 (8 elements)") !=
        std::string::npos);
  CHECK(text.find("low: runs in the dtype given:") != std::string::npos);
}

TEST_CASE(
    "an explanation lists overrides, tensors with the reason they were kept, and overridden tags") {
  const auto says = [](const amp::Session& session, const std::string& part) {
    INFO(part << " in\n" << session.explain());
    CHECK(session.explain().find(part) != std::string::npos);
  };
  Net net;
  optim::SGD optimizer(net.parameters());
  {
    amp::Options options = quiet("O2");
    options.loss_scale = 128.0;
    const auto session = amp::initialize(net, optimizer, options);
    says(session, "\nOverrides: loss_scale = 128.0, level says dynamic\n");
    says(session, "\n  first.weight: parameter f16[8,6]@cpu, with an f32 master\n");
    says(session, "\n  norm.weight: parameter f32[8]@cpu, kept: keep_batchnorm_fp32\n");
    says(session, "\n  mean: buffer f16[4]@cpu, with its f32 value\n");
    says(session, "\n  count: buffer i64[]@cpu, kept: f64, integers and bool are never cast\n");
    says(session, " conv2d ");
    CHECK(session.explain().find("overridden tags") == std::string::npos);
  }
  const auto session = amp::initialize(net, optimizer, quiet("O1"));
  says(session, "\nOverrides: none\n");
  says(session, "\n  norm.weight: parameter f32[8]@cpu\n");
  says(session, "\nlow: inputs are cast to the 16-bit type: ");
  says(session, "\nf32: inputs are cast to f32: ");
  says(session, "\nbanned: is refused: binary_cross_entropy\n");
  const amp::policy_override changed{{"relu", Precision::low}};
  says(session, "\noverridden tags: relu (match -> low)\n");
}

TEST_CASE("sessions can be moved and replaced") {
  Net net;
  optim::SGD optimizer(net.parameters());
  auto session = amp::initialize(net, optimizer, quiet("O2"));
  auto moved = std::move(session);
  CHECK(train_step(net, optimizer) == amp::StepResult::stepped);
  moved.close();
  moved.close();
  moved = amp::initialize(net, optimizer, quiet("O1"));
  CHECK(net.first.weight.dtype() == f32);
  CHECK(train_step(net, optimizer) == amp::StepResult::stepped);
}

TEST_CASE("a session that ends inside a scope logs an error and leaves no casts active") {
  LogCapture log;
  Net net;
  optim::SGD optimizer(net.parameters());
  std::optional<amp::Session> session(amp::initialize(net, optimizer, quiet("O1")));
  auto scope = amp::scale_loss(loss_of(net), optimizer);
  scope.loss().backward();
  session.reset();
  REQUIRE(log.lines.size() == 1);
  CHECK(log.lines[0].find("Session.close: a scale_loss scope is open") == 0);
  CHECK_FALSE(amp::autocast::is_enabled());
  CHECK(optimizer.hooks() == nullptr);
  scope.close();
  optimizer.zero_grad();
  const auto again = amp::initialize(net, optimizer, quiet("O2"));
  CHECK(train_step(net, optimizer) == amp::StepResult::stepped);
}

TEST_CASE("an optimizer may be destroyed before its session") {
  Net net;
  auto optimizer = std::make_unique<optim::SGD>(net.parameters());
  auto session = amp::initialize(net, *optimizer, quiet("O2"));
  train_step(net, *optimizer);
  optimizer.reset();
  CHECK(net.state_dict()["first.weight"].dtype() == f32);
  session.close();
  CHECK(net.first.weight.dtype() == f32);
}
