// The contents of a checkpoint.
#include "../support/catch.h"
#include "../support/exact_products.h"
#include "../support/throws.h"
#include "trainings.h"

using namespace trainings;

TEST_CASE("a checkpoint is three files, and latest names it", "[checkpoint]") {
  const files::Directory directory;
  Run run({.net = "conv", .surface = "O2"});
  run.steps(3);
  const std::string runs = directory / "deep/runs";
  const std::string path = amp::save_checkpoint(runs + "/", run.parts());
  CHECK(path == runs + "/step-000003");
  CHECK(names_in(runs) == std::vector<std::string>{"latest", "step-000003"});
  CHECK(names_in(path) ==
        std::vector<std::string>{"model.safetensors", "optim.safetensors", "state.json"});
  CHECK(files::read(runs + "/latest") == "step-000003\n");
  const LoadedTensors weights = load_tensors(path + "/model.safetensors");
  CHECK(weights.tensors.size() == run.net.module.state_dict().size());
  for (const auto& [name, tensor] : weights.tensors) {
    CHECK((tensor.dtype() == f32 || tensor.dtype() == i64));
    CHECK(bytes_of(tensor) == bytes_of(run.net.module.state_dict()[name]));
  }
  CHECK(weights.metadata.at("format") == "pt");
  bool master = false;
  for (const auto& [name, tensor] : load_tensors(path + "/optim.safetensors").tensors) {
    CHECK(tensor.dtype() == f32);
    master = master || name == "conv.weight.master";
  }
  CHECK(master);
  const std::string state = files::read(path + "/state.json");
  for (const char* part :
       {"\"schema\": 1", "\"library\": \"0.1.0\"", "\"opt_level\": \"O2\"", "\"unskipped\": 1998"})
    CHECK(state.find(part) != std::string::npos);
  // The weights alone load like any weights file.
  const AnyNet other = make_net("conv");
  CHECK_NOTHROW(load(path + "/model.safetensors", other.module));
}

TEST_CASE("metadata, step and epoch are restored", "[checkpoint]") {
  const files::Directory directory;
  Run run({.surface = "O0"});
  amp::Training parts = run.parts();
  parts.step = std::int64_t{1} << 60;
  parts.epoch = 12;
  parts.metadata = {{"text", "line\n\"quoted\" \xC3\xA4"},
                    {"", ""},
                    {"tenth", 0.1},
                    {"minus zero", -0.0},
                    {"huge", 1e300},
                    {"whole as number", 0x1p70},
                    {"infinite", HUGE_VAL},
                    {"nan", std::nan("")},
                    {"least", INT64_MIN},
                    {"most", INT64_MAX},
                    {"odd", (std::int64_t{1} << 53) + 1},
                    {"digits", "123"},
                    {"three", std::int64_t{3}}};
  const std::string path = amp::save_checkpoint(directory.path(), parts);
  const amp::LoadedCheckpoint loaded = amp::load_checkpoint(directory.path(), run.parts());
  CHECK(loaded.path == path);
  CHECK(loaded.step == parts.step);
  CHECK(loaded.epoch == 12);
  REQUIRE(loaded.metadata.size() == parts.metadata.size());
  for (const auto& [key, value] : parts.metadata) {
    INFO(key);
    REQUIRE(loaded.metadata.at(key).index() == value.index());
    if (const double* number = std::get_if<double>(&value))
      CHECK(bytes_of(std::get<double>(loaded.metadata.at(key))) == bytes_of(*number));
    else
      CHECK(loaded.metadata.at(key) == value);
  }
}

TEST_CASE("generators keep all 64 bits", "[checkpoint]") {
  const files::Directory directory;
  Run run({.surface = "O0"});
  Generator augment{~std::uint64_t{0}, (std::uint64_t{1} << 53) + 1};
  amp::Training parts = run.parts();
  parts.generator = {{"augment", augment}};
  default_generator() = {(std::uint64_t{1} << 63) + 1, ~std::uint64_t{0}};
  amp::save_checkpoint(directory.path(), parts);
  const Generator before = augment, thread = default_generator();
  augment = {};
  manual_seed(0);
  amp::load_checkpoint(directory.path(), parts);
  CHECK(augment == before);
  CHECK(default_generator() == thread);
}

TEST_CASE("the keys of several models, optimizers and schedules start with their names",
          "[checkpoint]") {
  const files::Directory directory;
  const auto train = [](const nn::Module& a, const nn::Module& b,
                        const std::function<void(amp::Training&)>& then) {
    optim::Adam one(a.parameters(), {.lr = 0.01});
    optim::SGD two(b.parameters(), {.lr = 0.01, .momentum = 0.5});
    auto session = amp::initialize(std::vector{a, b}, {one, two}, [] {
      amp::Options options = nets::quiet("O2");
      options.num_losses = 2;
      return options;
    }());
    optim::Scheduler first(one, optim::StepLR{}), second(two, optim::StepLR{});
    amp::Training parts{.model = {{"generator", a}, {"critic", b}},
                        .optimizer = {{"g", one}, {"c", two}},
                        .session = session,
                        .schedule = {{"g", first}, {"c", second}}};
    then(parts);
  };
  const auto step = [](const Mlp& a, const Mlp& b, amp::Training& parts) {
    const Tensor loss = sum(a(samples().x()) * b(samples().x())) * 1e-3;
    std::vector<optim::Optimizer*> optimizers;
    for (const auto& entry : parts.optimizer) optimizers.push_back(entry.object);
    for (optim::Optimizer* optimizer : optimizers) optimizer->zero_grad();
    amp::scale_loss(loss, optimizers, {.loss_id = 1},
                    [](const Tensor& scaled) { scaled.backward(); });
    for (optim::Optimizer* optimizer : optimizers) (void)optimizer->step();
    return loss.item<double>();
  };
  manual_seed(3);
  const Mlp a, b;
  double expected = 0;
  train(a, b, [&](amp::Training& parts) {
    step(a, b, parts);
    const std::string path = amp::save_checkpoint(directory.path(), parts);
    bool weight = false, moment = false, buffer = false;
    for (const auto& [name, tensor] : load_tensors(path + "/model.safetensors").tensors)
      weight = weight || name == "critic.fc2.weight";
    for (const auto& [name, tensor] : load_tensors(path + "/optim.safetensors").tensors) {
      moment = moment || name == "g.generator.fc1.bias.exp_avg";
      buffer = buffer || name == "c.critic.fc1.bias.momentum_buffer";
    }
    CHECK(weight);
    CHECK(moment);
    CHECK(buffer);
    expected = step(a, b, parts) + step(a, b, parts);
  });
  manual_seed(4);
  const Mlp c, d;
  train(c, d, [&](amp::Training& parts) {
    amp::load_checkpoint(directory.path(), parts);
    const double first = step(c, d, parts);
    CHECK(first + step(c, d, parts) == expected);
  });
  train(c, d, [&](amp::Training& parts) {
    parts.model = {{"generator", c}, {"judge", d}};
    CHECK_THROWS_WITH_AS_TEXT(amp::load_checkpoint(directory.path(), parts), ValueError,
                              "the checkpoint lacks the model \"judge\"");
  });
}

TEST_CASE("a parameter that thawed before the save keeps its master's low bits", "[checkpoint]") {
  const files::Directory directory;
  const auto run_from = [&](bool resume, bool thaw_first) {
    manual_seed(1);
    const Mlp net;
    net.fc1.requires_grad_(false);
    optim::SGD optimizer(net.parameters(), {.lr = 1e-4, .momentum = 0.9});
    auto session = amp::initialize(net, optimizer, nets::quiet("O2"));
    const auto step = [&] {
      optimizer.zero_grad();
      const Tensor loss = cross_entropy(net(samples().x()), samples().y());
      amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
      (void)optimizer.step();
    };
    const amp::Training parts{.model = net, .optimizer = optimizer, .session = session};
    if (resume) {
      if (thaw_first) net.fc1.requires_grad_(true);
      amp::load_checkpoint(directory.path(), parts);
      net.fc1.requires_grad_(true);
    } else {
      net.fc1.requires_grad_(true);
      for (int i = 0; i < 4; ++i) step();
      amp::save_checkpoint(directory.path(), parts);
    }
    for (int i = 0; i < 3; ++i) step();
    std::string bytes;
    for (const auto& [name, tensor] : net.state_dict()) bytes += bytes_of(tensor);
    return bytes;
  };
  const std::string whole = run_from(false, false);
  CHECK(run_from(true, true) == whole);
  CHECK(run_from(true, false) == whole);
}

TEST_CASE("a resumed training reports that products are computed in another way", "[checkpoint]") {
  const files::Directory directory;
  Run run({.surface = "O0"});
  run.steps(1);
  std::string path;
  {
    const ExactProducts scope(true);
    path = amp::save_checkpoint(directory.path(), run.parts());
  }
  CHECK(files::read(path + "/state.json").find("\"cpu_products\": \"f32\"") != std::string::npos);
  const auto reports = [&] {
    nets::LogCapture log;
    amp::load_checkpoint(path, run.parts());
    return std::count_if(log.lines.begin(), log.lines.end(), [](const std::string& line) {
      return line.find("products of 16-bit operands were computed in f32 and are now") !=
             std::string::npos;
    });
  };
  CHECK(reports() == (cpu_multiplies_bf16() ? 1 : 0));
  const ExactProducts scope(true);
  CHECK(reports() == 0);
}
