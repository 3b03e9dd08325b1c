// The rules of levels and of initialize one by one: what levels do to models and optimizers, what
// initialize refuses, what remains unchanged.
#include <thread>

#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/throws.h"
#include "fingerprint.h"
#include "nets.h"

using namespace nets;

namespace {

static_assert(!std::is_copy_constructible_v<amp::Session> &&
              std::is_move_constructible_v<amp::Session>);
static_assert(!std::is_constructible_v<amp::LossScale, bool>);  // a bool is not a scale
static_assert(std::is_constructible_v<amp::KeepBatchNorm, bool> &&
              !std::is_constructible_v<amp::KeepBatchNorm, int>);

amp::Options options_with(const char* level, void (*set)(amp::Options&)) {
  amp::Options options = quiet(level);
  set(options);
  return options;
}

/** Every kind of normalisation, and tensors that levels may not convert. */
struct Zoo : nn::Model<Zoo> {
  nn::BatchNorm1d bn1 = add("bn1", nn::BatchNorm1d{4});
  nn::BatchNorm2d bn2 = add("bn2", nn::BatchNorm2d{4});
  nn::BatchNorm3d bn3 = add("bn3", nn::BatchNorm3d{4});
  nn::BatchNorm2d plain = add("plain", nn::BatchNorm2d{4, {.affine = false}});
  nn::LayerNorm layer = add("layer", nn::LayerNorm{4});
  nn::GroupNorm group = add("group", nn::GroupNorm{2, 4});
  nn::RMSNorm rms = add("rms", nn::RMSNorm{4});
  Zoo() {
    add_parameter("wide", wave({3}, 0, f64));
    add_parameter("exempt", wave({3}, 1));
    add_buffer("index", tensor({1, 2}, {2}, {.dtype = i64}));
    add_buffer("mask", ones({2}, {.dtype = boolean}));
    keep_f32("exempt");
  }
  Tensor forward(const Tensor& x) const { return layer(x); }
};

}  // namespace

// ---- levels -------------------------------------------------------------------------------------

TEST_CASE("levels describe themselves in one line", "[levels]") {
  const std::map<std::string_view, std::string_view> texts{
      {"O0", "Pure FP32 training."},
      {"O1", "Insert automatic casts around operations."},
      {"O2", "FP16 training with FP32 batchnorm and FP32 master weights."},
      {"O3", "Pure FP16 training."},
      {"O4", "As O1 with BF16 and no loss scaling."},
      {"O5", "As O2 with BF16 and no loss scaling."}};
  CHECK(amp::kLevels.size() == texts.size());
  for (const amp::Level& level : amp::kLevels) CHECK(level.text == texts.at(level.name));
}

TEST_CASE("levels that convert the model do not cast ops", "[levels]") {
  for (const char* level : {"O0", "O2", "O3", "O5"}) {
    INFO(level);
    Net net;
    const auto session = amp::initialize(net, quiet(level));
    CHECK(matmul(wave({2, 2}, 0), wave({2, 2}, 1)).dtype() == f32);
    CHECK(exp(wave({2}, 0, f16)).dtype() == f16);
    // Only the model's input, and its output if that is 16-bit.
    CHECK(casts([&] { net(input()); }) == (std::string(level) == "O0" ? 0 : 2));
  }
}

TEST_CASE("verbosity 0 is silent", "[levels]") {
  LogCapture log;
  for (const char* level : kLevels) {
    Net net;
    optim::SGD optimizer(net.parameters());
    amp::Options options = quiet(level);
    options.loss_scale = "dynamic";
    const auto session = amp::initialize(net, optimizer, options);
    train_step(net, optimizer, HUGE_VAL);
  }
  CHECK(log.lines.empty());
}

TEST_CASE("O1 with an f32 model cast casts the model's inputs and outputs", "[levels]") {
  Net net;
  const auto session =
      amp::initialize(net, options_with("O1", [](amp::Options& o) { o.cast_model_type = f32; }));
  CHECK(net(input()).dtype() == f32);
  CHECK(net(input().to(f16)).dtype() == f32);
  CHECK(net.first.weight.dtype() == f32);
  CHECK(linear(input(), net.first.weight).dtype() == f16);  // ops cast too
}

TEST_CASE("O1 without op casts is f32 with dynamic scaling", "[levels]") {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  auto session = amp::initialize(
      net, optimizer, options_with("O1", [](amp::Options& o) { o.patch_functions = false; }));
  CHECK(casts([&] { CHECK(net(input()).dtype() == f32); }) == 0);
  CHECK(session.loss_scaler().loss_scale() == 65536);
  CHECK(train_step(net, optimizer, HUGE_VAL) == amp::StepResult::skipped);
  CHECK(session.loss_scaler().loss_scale() == 32768);
}

TEST_CASE("masters are created for 16-bit parameters: none at O0, all at O3", "[levels]") {
  for (const char* level : {"O0", "O3"}) {
    Net net;
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    const auto session = amp::initialize(
        net, optimizer, options_with(level, [](amp::Options& o) { o.master_weights = true; }));
    for (const optim::Slot& slot : optimizer.slots(0))
      CHECK(slot.master.defined() == (std::string(level) == "O3"));
    CHECK(train_step(net, optimizer) == amp::StepResult::stepped);
  }
}

TEST_CASE("O2 with no_cast keeps a mixture of dtypes, and creates masters for 16-bit parameters",
          "[levels]") {
  Net net;
  net.second.to(f16);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const auto session = amp::initialize(net, optimizer, options_with("O2", [](amp::Options& o) {
                                         o.cast_model_type = amp::no_cast;
                                         o.allow_incoming_model_not_fp32 = true;
                                       }));
  CHECK(net.first.weight.dtype() == f32);
  CHECK(net.second.weight.dtype() == f16);
  for (const optim::Slot& slot : optimizer.slots(0))
    CHECK(slot.master.defined() == (slot.param.dtype() == f16));
  CHECK(net.call_wrapper() !=
        nullptr);  // its session decides about ops inside, but does not cast its input
  CHECK(net.first(input()).dtype() == f32);
}

// ---- initialize ---------------------------------------------------------------------------------

TEST_CASE("16-bit models are refused at every level, buffers too; f64 is accepted", "[levels]") {
  for (const char* level : kLevels)
    for (const DType low : {f16, bf16}) {
      INFO(level << " " << name(low));
      struct OnlyBuffer : nn::Model<OnlyBuffer> {
        explicit OnlyBuffer(DType dtype) { add_buffer("seen", zeros({2}, {.dtype = dtype})); }
        Tensor forward(const Tensor& x) const { return x; }
      };
      const OnlyBuffer refused(low), fine(f64);
      CHECK_THROWS_WITH_AS_TEXT(amp::initialize(refused, quiet(level)), DtypeError,
                                "\"seen\" of OnlyBuffer");
      const auto session = amp::initialize(fine, quiet(level));
      CHECK(fine.buffer("seen").dtype() == f64);
    }
}

TEST_CASE("optimizers with their own masters and parallel wrappers are refused", "[levels]") {
  Net net;
  optim::SGD optimizer(net.parameters());
  optimizer.slots(0)[1].master = ones({8});
  CHECK_THROWS_WITH_AS_TEXT(amp::initialize(net, optimizer, quiet("O2")), StateError,
                            "has its own masters");
  CHECK(net.first.weight.dtype() == f32);
  struct Replicas : nn::Model<Replicas> {
    Replicas() { set_parallel_wrapper(true); }
    Tensor forward(const Tensor& x) const { return inner(x); }
    Net inner = add("inner", Net());
  };
  const Replicas replicas;
  CHECK_THROWS_WITH_AS_TEXT(amp::initialize(replicas, quiet("O1")), ValueError,
                            "wrap after initialize");
  CHECK_NOTHROW(amp::initialize(replicas.inner, quiet("O1")));
}

TEST_CASE("a disabled session checks nothing", "[levels]") {
  Net net;
  net.to(f16);
  optim::SGD optimizer(net.parameters());
  const auto session =
      amp::initialize({net, net}, {optimizer, optimizer}, {.enabled = false, .num_losses = -3});
  CHECK(net.first.weight.dtype() == f16);
  CHECK_FALSE(amp::autocast::is_enabled());
}

TEST_CASE("state from before initialize applies to the masters with all its bits", "[levels]") {
  const std::string level = GENERATE("O1", "O2", "O3", "O5");
  Net net;
  optim::Adam optimizer(net.parameters(), {.lr = 0.01});
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    loss_of(net).backward();
    optimizer.step();
  }
  const auto state_bits = [&] {
    fingerprint::Hash hash;
    optimizer.sync_to_host();
    for (const optim::Slot& slot : optimizer.slots(0)) {
      for (const Tensor& state : slot.state) hash.add(state);
      hash.add(slot.steps);
    }
    return hash.value();
  };
  const auto before = state_bits();
  auto session = amp::initialize(net, optimizer, quiet(level.c_str()));
  CHECK(state_bits() == before);
  CHECK(train_step(net, optimizer) == amp::StepResult::stepped);
  optimizer.sync_to_host();
  CHECK(optimizer.slots(0)[0].steps == 4);
  session.close();
  CHECK(optimizer.slots(0)[0].steps == 4);
}

TEST_CASE("gradients from before initialize are converted, or dropped if there are masters",
          "[levels]") {
  for (const char* level : {"O0", "O2", "O3"}) {
    INFO(level);
    Net net;
    optim::SGD optimizer(net.parameters());
    loss_of(net).backward();
    const auto session = amp::initialize(net, optimizer, quiet(level));
    CHECK(net.norm.weight.grad().defined());
    if (std::string(level) == "O2")
      CHECK_FALSE(net.first.weight.grad().defined());
    else
      CHECK(net.first.weight.grad().dtype() == net.first.weight.dtype());
  }
}

TEST_CASE("the end of a session drops pending skips and cached casts", "[levels]") {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  auto session = amp::initialize(net, optimizer, quiet("O1"));
  amp::scale_loss(loss_of(net) * HUGE_VAL, optimizer, [](const Tensor& loss) { loss.backward(); });
  net(input());
  CHECK(session.cast_cache().report().entries == 4);
  session.close();
  CHECK(session.cast_cache().report().entries == 0);
  CHECK(net.call_wrapper() == nullptr);
  optimizer.zero_grad();
  loss_of(net).backward();
  CHECK(optimizer.step() == amp::StepResult::stepped);
}

TEST_CASE("the free state functions refer to the thread's latest session", "[levels]") {
  const auto first = amp::initialize(amp::ModelList{}, quiet("O1"));
  {
    amp::Options two = quiet("O1");
    two.num_losses = 2;
    const auto second = amp::initialize(amp::ModelList{}, two);
    CHECK(amp::state_dict().size() == 2);
    std::thread([] { CHECK_THROWS_AS(amp::state_dict(), StateError); }).join();
  }
  CHECK(amp::state_dict().size() == 1);
}

// ---- models -------------------------------------------------------------------------------------

TEST_CASE("keep_batchnorm_fp32 applies to affine batch norms only", "[levels]") {
  const bool keeps = GENERATE(true, false);
  const Zoo zoo;
  amp::Options options = quiet("O3");
  options.keep_batchnorm_fp32 = keeps;
  const auto session = amp::initialize(zoo, options);
  for (const char* name : {"bn1.weight", "bn2.bias", "bn3.weight"})
    CHECK(zoo.parameter(name).dtype() == (keeps ? f32 : f16));
  for (const char* name : {"bn1.running_mean", "bn2.running_var"})
    CHECK(zoo.buffer(name).dtype() == (keeps ? f32 : f16));
  for (const char* name : {"plain.running_mean", "plain.running_var"})
    CHECK(zoo.buffer(name).dtype() == f16);
  for (const char* name : {"layer.weight", "group.bias", "rms.weight"})
    CHECK(zoo.parameter(name).dtype() == f16);
  CHECK(zoo.parameter("wide").dtype() == f64);
  CHECK(zoo.parameter("exempt").dtype() == f32);
  CHECK(zoo.buffer("index").dtype() == i64);
  CHECK(zoo.buffer("mask").dtype() == boolean);
  CHECK(zoo.buffer("bn1.num_batches_tracked").dtype() == i64);
}

TEST_CASE("casts of a model's inputs are recorded, and apply to every copy of the handle",
          "[levels]") {
  Net net;
  const auto session = amp::initialize(net, quiet("O2"));
  const Net copy = net;
  const Tensor x = input();
  x.requires_grad_();
  const Tensor y = copy(x);
  CHECK(y.dtype() == f32);
  sum(y).backward();
  CHECK(x.grad().dtype() == f32);
  CHECK(net.first.weight.grad().dtype() == f16);
  // Only for the models given to initialize.
  CHECK_THROWS_WITH_AS_TEXT(
      net.first(input()), DtypeError,
      "use x.to(f16), or amp::autocast around the call; amp::initialize casts "
      "the inputs of the models that it is given, not those of their parts");
  CHECK_THROWS_AS(net.forward(input()), DtypeError);
}

TEST_CASE("f64 inputs and outputs of a model are not cast", "[levels]") {
  struct Same : nn::Model<Same> {
    Tensor forward(const Tensor& x) const { return x; }
  };
  const Same same;
  const auto session = amp::initialize(same, quiet("O2"));
  CHECK(same(ones({2}, {.dtype = f64})).dtype() == f64);
  CHECK(same(ones({2}, {.dtype = i64})).dtype() == i64);
}
