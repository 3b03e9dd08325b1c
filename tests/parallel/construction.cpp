// Construction: all ranks get the model of rank 0, whatever they started with; invalid uses are
// refused.
#include "../support/levels.h"
#include "weighted.h"

using namespace trainees;
using optim::StepResult;

TEST_CASE("ranks that start from different seeds are equal from the construction on") {
  for (const char* level : levels::names()) {
    INFO(level);
    const Trainee trainee = make("mlp", 10 + static_cast<std::uint64_t>(rank()));
    const MadeOptimizer optimizer = make_optimizer("AdamW", trainee.module);
    auto session = amp::initialize(trainee.module, *optimizer, quiet(level));
    const auto state = [&] {
      states::State all;
      add_state(all, trainee.module, *optimizer, session);
      return all;
    };
    const states::State before = state();
    if (size() > 1) CHECK(difference_between_ranks(before) != "");
    const nn::DistributedDataParallel<nn::Module> net(trainee.module, {.comm = ranks()});
    CHECK(difference_between_ranks(state()) == "");
    // Masters keep the values that rank 0 had, which are not rounded.
    if (rank() == 0) CHECK(states::difference(before, state()) == "");
    int stepped = 0;
    for (std::uint64_t step = 0; step < 40; ++step) {
      optimizer->zero_grad();
      const auto batch = step * 8 + static_cast<std::uint64_t>(rank());
      amp::scale_loss(trainee.loss(batch), *optimizer, [](const Tensor& loss) { loss.backward(); });
      stepped += optimizer->step() == StepResult::stepped;
    }
    CHECK(stepped > 30);
    CHECK(difference_between_ranks(state()) == "");
    session.close();
    CHECK(difference_between_ranks(state()) == "");
    for (const Tensor& p : trainee.module.parameters()) CHECK(p.dtype() == f32);
  }
}

namespace {

/** A model with buffers of several dtypes, which its call changes. */
struct Counting : nn::Model<Counting> {
  explicit Counting(int number)
      : weight(add_parameter("weight", full({2, 3}, number))),
        average(add_buffer("average", full({4}, number))),
        count(add_buffer("count", full({}, number).to(i64))),
        mask(add_buffer("mask", full({3}, number).to(boolean))),
        bytes(add_buffer("bytes", full({2}, number).to(u8))),
        wide(add_buffer("wide", full({2}, number + 0.25).to(f64))) {}

  Tensor forward(const Tensor& x) const { return sum(weight) * x + sum(average.detach()); }

  /** Gives the buffers values of this rank. */
  void set_buffers(double number) const {
    for (const nn::NamedTensor& buffer : named_buffers()) buffer.tensor.fill_(number);
  }
  std::string buffers_text() const {
    std::string text;
    for (const nn::NamedTensor& buffer : named_buffers())
      for (const double x : buffer.tensor.to_vector<double>()) text += str(x, " ");
    return text;
  }

  Tensor weight, average, count, mask, bytes, wide;
};

using WrappedCounting = nn::DistributedDataParallel<Counting>;

}  // namespace

TEST_CASE("all ranks get the buffers of rank 0, of every dtype") {
  const Counting model(rank());
  const WrappedCounting net(model, {.comm = ranks()});
  CHECK(model.buffers_text() == Counting(0).buffers_text());
  CHECK(all_are(model.weight, 0));
}

TEST_CASE("buffers can be those of rank 0 at each call in training mode") {
  if (size() == 1) return;
  using nn::BroadcastBuffers;
  for (const auto when : {BroadcastBuffers::at_construction, BroadcastBuffers::each_forward}) {
    const Counting model(1);
    const WrappedCounting net(model, {.comm = ranks(), .broadcast_buffers = when});
    const double mine = 3 + rank();
    const auto buffers_after_call = [&] {
      model.set_buffers(mine);
      const double y = net(ones({})).item<double>();
      CHECK(y == 6 + sum(model.average).item<double>());
      return model.average.to_vector<double>()[0];
    };
    const bool each = when == BroadcastBuffers::each_forward;
    CHECK(buffers_after_call() == (each ? 3 : mine));
    net.eval();
    CHECK(buffers_after_call() == mine);
    net.train();
    {
      const auto local = net.no_sync();
      CHECK(buffers_after_call() == mine);
    }
    CHECK(buffers_after_call() == (each ? 3 : mine));
    model.set_buffers(mine);
    (void)model(ones({}));  // the model itself
    CHECK(all_are(model.average, mine));
  }
}

TEST_CASE("a wrapper in a group reduces over that group") {
  const comm::Communicator half = ranks().split(rank() % 2);
  const Weighted model(std::vector<Tensor>{full({3}, rank()), full({300'000}, rank())});
  const Wrapped net(model, {.comm = half});
  CHECK(all_are(model.params[0], rank() % 2));
  CHECK(all_are(model.params[1], rank() % 2));
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    const double n = half.size() * (rank() + 1);
    model.loss({n, n}).backward();
    double expected = 0;
    for (int r = rank() % 2; r < size(); r += 2) expected += r + 1;
    CHECK(wrong_gradients(model, {expected, expected}) == "");
  }
}

TEST_CASE("each rank draws its own random numbers, if it is to") {
  for (const bool own : {true, false}) {
    manual_seed(5);
    const Generator before = default_generator();
    const Weighted model(std::vector<Shape>{{3}});
    const Wrapped net(model, {.comm = ranks(), .own_random_streams = own});
    const Generator expected =
        own && size() > 1 ? split(5, (std::uint64_t{1} << 32) + static_cast<std::uint64_t>(rank()))
                          : before;
    CHECK(default_generator() == expected);
    const std::vector<double> drawn = ranks().gather(std::vector{randn({}).item<double>()});
    for (int r = 1; r < size(); ++r)
      CHECK((drawn[static_cast<std::size_t>(r)] == drawn[0]) == !own);
  }
}

// ---- refused ------------------------------------------------------------------------------------

TEST_CASE("a model is initialized before it is wrapped") {
  nn::Linear model{2, 2};
  optim::SGD optimizer(model.parameters(), {.lr = 1});
  constexpr auto kText =
      "amp::initialize: a model is a parallel wrapper; got Linear; wrap after "
      "initialize: pass the model inside, then wrap it";
  nn::DistributedDataParallel<nn::Linear> net(model, {.comm = ranks()});
  CHECK_THROWS_WITH_AS_TEXT(amp::initialize(net, optimizer, quiet("O1")), ValueError, kText);
  CHECK_THROWS_WITH_AS_TEXT(amp::initialize(model, optimizer, quiet("O1")), ValueError, kText);
  net.close();
  const auto session = amp::initialize(model, optimizer, quiet("O1"));
}

TEST_CASE("a model is wrapped once at a time") {
  const Weighted model(std::vector<Shape>{{3}, {4}});
  Wrapped net(model, {.comm = ranks()});
  if (size() > 1) {
    CHECK_THROWS_WITH_AS_TEXT(Wrapped(model, {.comm = ranks()}), StateError,
                              "DistributedDataParallel: another wrapper reduces a gradient of this "
                              "model; got p0; close() the other wrapper first");
    struct Around : nn::Model<Around> {
      explicit Around(const Weighted& part) : inner(add("inner", part)) {}
      Weighted inner;
    };
    CHECK_THROWS_WITH_AS_TEXT(nn::DistributedDataParallel<Around>(Around(model), {.comm = ranks()}),
                              StateError, "got inner.p0");
  }
  const double n = size();
  model.loss({n, n}).backward();
  CHECK(wrong_gradients(model, {n, n}) == "");
  net.close();
  const Wrapped next(model, {.comm = ranks()});
  model.zero_grad();
  model.loss({n, n * (rank() + 1)}).backward();
  CHECK(wrong_gradients(model, {n, total_over_ranks([](int r) { return r + 1; })}) == "");
  optim::SGD optimizer(model.parameters(), {.lr = 1});
  net.close();
  CHECK_THROWS_AS(amp::initialize(model, optimizer, quiet("O1")), ValueError);
}

TEST_CASE("invalid options are refused") {
  const Weighted model(std::vector<Shape>{{3}});
  const Tensor other = ones({3}).requires_grad_();
  const auto refused = [&](Options options) {
    options.comm = ranks();
    return thrown_by([&] { const Wrapped net(model, options); });
  };
  const std::string start = "DistributedDataParallel: ", number = ", expected a finite number > 0";
  for (const auto& [value, text] : std::vector<std::pair<double, std::string>>{
           {0, "0"}, {-1, "-1"}, {HUGE_VAL, "inf"}, {std::nan(""), "nan"}}) {
    const std::string wrong = " is out of range; got " + text + number;
    CHECK(refused({.bucket_mib = value}) == start + "bucket_mib" + wrong);
    CHECK(refused({.first_bucket_mib = value}) == start + "first_bucket_mib" + wrong);
    CHECK(refused({.predivide_factor = value}) == start + "predivide_factor" + wrong);
  }
  CHECK(refused({.bucket_mib = 1, .triggers = {model.params[0]}}) ==
        start + "triggers and bucket_mib are both given; triggers decide the buckets alone");
  CHECK(refused({.overlap = false, .triggers = {model.params[0]}}) ==
        start + "triggers need overlap; got overlap = false");
  if (size() > 1)
    CHECK(refused({.triggers = {other}}) ==
          start + "a trigger is no trained parameter of the model; got f32[3]@cpu");
  CHECK(refused({.bucket_mib = 1e300, .first_bucket_mib = 1e300}).empty());
}

TEST_CASE("parameters may not change while the model is wrapped") {
  if (size() == 1) return;
  nn::Linear model{2, 3};
  model.bias().requires_grad_(false);
  const auto backward = [&] {
    sum(model(ones({1, 2}, {.dtype = model.weight().dtype()}))).backward();
  };
  constexpr auto kHint = "; construct the wrapper anew after such changes";
  {
    const nn::DistributedDataParallel<nn::Linear> net(model, {.comm = ranks()});
    backward();
    model.bias().requires_grad_();
    CHECK(thrown_by(backward) ==
          str("DistributedDataParallel: bias was frozen when the model was wrapped", kHint));
    model.bias().requires_grad_(false);
    backward();
    model.to(f64);
    CHECK(thrown_by(backward) ==
          str("DistributedDataParallel: weight has changed since the model was wrapped; got "
              "f64[3,2]@cpu, expected f32 with gradient",
              kHint));
    model.to(f32);
    backward();
  }
  model.bias().requires_grad_();
  const nn::DistributedDataParallel<nn::Linear> net(model, {.comm = ranks()});
  backward();
  CHECK(all_are(model.bias().grad(), 1));
  model.weight().requires_grad_(false);
  CHECK(thrown_by(backward) ==
        str("DistributedDataParallel: weight has changed since the model was wrapped; got "
            "f32[3,2]@cpu, frozen, expected f32 with gradient",
            kHint));
}

// ---- the wrapper as a model ---------------------------------------------------------------------

TEST_CASE("a wrapper is a handle to its model") {
  manual_seed(1);
  const samples::Mlp model(8);
  const nn::DistributedDataParallel<samples::Mlp> net(model, {.comm = ranks()});
  CHECK(net.is_same(model));
  std::string names;
  for (const auto& [name, tensor] : net.state_dict()) names += name + " ";
  CHECK(names == "fc1.weight fc1.bias fc2.weight fc2.bias fc3.weight fc3.bias ");
  const Tensor x = images(1, 2);
  CHECK(net(x).to_vector<float>() == model(x).to_vector<float>());
}

TEST_CASE("gradients stay when the wrapper goes, and later ones are local") {
  for (const bool closes : {true, false}) {
    const Weighted model(std::vector<Shape>{{3}, {4}, {300'000}});
    auto net = std::make_unique<Wrapped>(model, Options{.comm = ranks()});
    const double n = size();
    const Factors mean{n, 2 * n, 3 * n};
    model.loss(mean).backward();
    closes ? net->close() : net.reset();
    CHECK(wrong_gradients(model, mean) == "");
    for (const Tensor& p : model.params) CHECK(p.grad().impl()->storage->owners() == 1);
    model.zero_grad();
    const double mine = rank() + 1;
    model.loss({mine, mine, mine}).backward();
    CHECK(wrong_gradients(model, {mine, mine, mine}) == "");
  }
}
