// Weights and buffers without a master keep their f32 values in a session that converts the model.
#include <cmath>

#include "../io/files.h"
#include "../support/catch.h"
#include "nets.h"

using namespace nets;

namespace {

using Values = std::vector<double>;

constexpr double kFine = 1 + 0x1p-20, kHuge = 1e5;  // 1 and infinity in f16

/** A net with a frozen weight, a frozen bias, a trained weight and a constant buffer. */
struct Mixed : nn::Model<Mixed> {
  Mixed() {
    frozen.requires_grad_(false);
    bias.requires_grad_(false);
  }
  Tensor forward(const Tensor& x) const { return x * trained * frozen; }
  static Tensor one(double value) { return tensor({value}, {1}, {.device = test_device()}); }
  Tensor frozen = add_parameter("frozen", one(kFine));
  Tensor bias = add_parameter("bias", one(kHuge));
  Tensor trained = add_parameter("trained", one(1));
  Tensor table = add_buffer("table", one(kHuge));
};

double value(const Tensor& x) { return values(x)[0]; }

std::vector<amp::Options> with_masters() {
  std::vector<amp::Options> all{quiet("O2"), quiet("O5"), quiet("O3")};
  all.back().master_weights = true;
  for (amp::Options& options : all) options.loss_scale = 64.0;
  return all;
}

void train_mixed(const Mixed& net, optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  amp::scale_loss(sum(net(Mixed::one(2))), optimizer, [](const Tensor& s) { s.backward(); });
  optimizer.step();
}

}  // namespace

TEST_CASE("frozen weights and buffers have their f32 values after a session", "[masters]") {
  for (const amp::Options& options : with_masters())
    for (const int holds : {0, 1, 2}) {
      INFO(options.opt_level << ", optimizer holds " << holds);
      const Mixed net;
      optim::SGD all(net.parameters(), {.lr = 0.25}), one({net.trained}, {.lr = 0.25});
      auto session = holds == 0   ? amp::initialize(net, options)
                     : holds == 1 ? amp::initialize(net, one, options)
                                  : amp::initialize(net, all, options);
      CHECK(is_low(net.frozen.dtype()));
      if (holds == 1) train_mixed(net, one);
      if (holds == 2) train_mixed(net, all);
      const nn::StateDict state = net.state_dict();
      CHECK(value(state["frozen"]) == kFine);
      CHECK(value(state["bias"]) == kHuge);
      CHECK(value(state["table"]) == kHuge);
      session.close();
      CHECK(net.frozen.dtype() == f32);
      CHECK(value(net.frozen) == kFine);
      CHECK(value(net.bias) == kHuge);
      CHECK(value(net.table) == kHuge);
      CHECK(value(net.trained) == (holds == 0 ? 1 : 0.5));
    }
}

TEST_CASE("a write to a weight without a master is kept, a load keeps all bits", "[masters]") {
  for (const amp::Options& options : with_masters()) {
    const Mixed net;
    auto session = amp::initialize(net, options);
    net.bias.copy_(Mixed::one(3));
    nn::StateDict state = net.state_dict();
    CHECK(value(state["bias"]) == 3);
    state.set("frozen", Mixed::one(1 + 0x1p-21));
    net.load_state_dict(state);
    CHECK(value(net.state_dict()["frozen"]) == 1 + 0x1p-21);
    session.close();
    CHECK(value(net.frozen) == 1 + 0x1p-21);
    CHECK(value(net.bias) == 3);
    CHECK(value(net.table) == kHuge);
  }
}

TEST_CASE("a master that is made later starts from the f32 value", "[masters]") {
  for (const amp::Options& options : with_masters())
    for (const bool adds : {false, true})
      for (const bool writes : {false, true}) {
        INFO(options.opt_level << ", adds " << adds << ", writes " << writes);
        const Mixed net;
        optim::SGD optimizer({net.trained}, {.lr = 0});
        if (!adds) optimizer.add_param_group({net.frozen}, {.lr = 0});
        auto session = amp::initialize(net, optimizer, options);
        train_mixed(net, optimizer);
        if (writes) net.frozen.detach().copy_(Mixed::one(3));
        net.frozen.requires_grad_();
        if (adds) optimizer.add_param_group({net.frozen}, {.lr = 0});
        const Tensor master = amp::master_params(optimizer)[1];
        CHECK(master.dtype() == f32);
        CHECK(value(master) == (writes ? 3 : kFine));
        train_mixed(net, optimizer);
        session.close();
        CHECK(value(net.frozen) == (writes ? 3 : kFine));
      }
}

TEST_CASE("averages and checkpoints have the f32 values too", "[masters]") {
  for (const amp::Options& options : with_masters()) {
    INFO(options.opt_level);
    const files::Directory folder = files::Directory::fast();
    const Mixed net, resumed;
    optim::SGD optimizer(net.parameters(), {.lr = 0.25}), other(resumed.parameters(), {.lr = 0.25});
    resumed.frozen.fill_(2);
    resumed.table.fill_(2);
    auto session = amp::initialize(net, optimizer, options),
         second = amp::initialize(resumed, other, options);
    nn::ExponentialMovingAverage ema(net, {.decay = 0.5, .use_buffers = true});
    train_mixed(net, optimizer);
    ema.update();
    CHECK(value(ema.averages()["frozen"]) == kFine);
    CHECK(value(ema.averages()["table"]) == kHuge);
    {
      const auto averaged = ema.averaged();
      CHECK(value(net.state_dict()["bias"]) == kHuge);
    }
    CHECK(value(net.state_dict()["frozen"]) == kFine);
    const amp::Training training{.model = net, .optimizer = optimizer, .session = session};
    amp::save_checkpoint(folder.path(), training);
    amp::Training to{.model = resumed, .optimizer = other, .session = second};
    amp::load_checkpoint(folder.path(), to);
    second.close();
    CHECK(value(resumed.frozen) == kFine);
    CHECK(value(resumed.bias) == kHuge);
    CHECK(value(resumed.table) == kHuge);
    CHECK(value(resumed.trained) == 0.5);
  }
}

TEST_CASE("a bf16 weight keeps its value in a model that becomes f16", "[masters]") {
  const Mixed net;
  net.to(bf16);
  net.bias.fill_(0x1p20);
  amp::Options options = quiet("O2");
  options.allow_incoming_model_not_fp32 = true;
  auto session = amp::initialize(net, options);
  CHECK(std::isinf(value(net.bias)));
  session.close();
  CHECK(value(net.bias) == 0x1p20);
}

TEST_CASE("values that do not fit are named in one warning", "[masters]") {
  struct Range : nn::Model<Range> {
    explicit Range(const Values& start)
        : weight(add_parameter("weight",
                               tensor(start, {std::ssize(start)}, {.device = test_device()}))) {}
    Tensor weight;
  };
  const auto warning = [](const char* level, const auto& net) {
    LogCapture log;
    amp::Options options;
    options.opt_level = level;
    const auto session = amp::initialize(net, options);
    std::string found;
    for (const std::string& line : log.lines)
      if (line.find("do not fit") != std::string::npos) found += line + "\n";
    return found;
  };
  CHECK(warning("O2", Mixed()) ==
        "amp::initialize: weights or buffers do not fit f16: bias has values that become infinite, "
        "table has values that become infinite; the session keeps their f32 values\n");
  CHECK(warning("O3", Mixed()).find("at this level the f32 values are lost") != std::string::npos);
  CHECK(warning("O5", Mixed()).empty());
  CHECK(warning("O1", Mixed()).empty());
  CHECK(warning("O2", Net()).empty());
  CHECK(warning("O2", nn::Linear(300, 300)).empty());
  CHECK(warning("O2", Range({1e-5, 1e-5})).find("weight has only values that lose digits") !=
        std::string::npos);
  CHECK(warning("O2", Range({1, 1e-9})).find("weight has values that become zero") !=
        std::string::npos);
  CHECK(warning("O2", Range({1, 0, HUGE_VAL, std::nan("")})).empty());
  CHECK(warning("O5", Range({3.4e38})).find("become infinite") != std::string::npos);
}
