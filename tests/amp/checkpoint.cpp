// What a checkpoint holds, when it can be saved, what it can be loaded into, and which one is taken.
#include "../support/catch.h"
#include "../support/throws.h"
#include "trainings.h"

using namespace trainings;

namespace {

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(path)) out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

/** Refuses to load, and goes on with the bits it would have had. */
template <class Error>
void check_refused(Run& run, const std::string& path, const std::string& part,
                   const amp::LoadCheckpointOptions& options = {}) {
  const auto before = snapshot(run);
  const std::string text = files::thrown<Error>([&] { amp::load_checkpoint(path, run.parts(), options); });
  INFO(text);
  CHECK(text.find("load_checkpoint") == 0);
  CHECK(text.find(part) != std::string::npos);
  CHECK(difference(before, snapshot(run)) == "");
}

}  // namespace

// ---- what is in it ----------------------------------------------------------------------------------------------------------

TEST_CASE("a checkpoint is three files, and latest names it", "[checkpoint]") {
  const files::Directory directory;
  Run run({.net = "conv", .surface = "O2"});
  run.steps(3);
  const std::string runs = directory / "deep/runs";
  const std::string path = amp::save_checkpoint(runs + "/", run.parts());
  CHECK(path == runs + "/step-000003");
  CHECK(names_in(runs) == std::vector<std::string>{"latest", "step-000003"});
  CHECK(names_in(path) == std::vector<std::string>{"model.safetensors", "optim.safetensors", "state.json"});
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
  // The weights alone open as any weights file does.
  const Net other = make_net("conv");
  CHECK_NOTHROW(load(path + "/model.safetensors", other.module));
}

TEST_CASE("metadata, step and epoch come back as they were", "[checkpoint]") {
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

TEST_CASE("several models, optimizers and schedules have names before their keys", "[checkpoint]") {
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
    amp::scale_loss(loss, optimizers, {.loss_id = 1}, [](const Tensor& scaled) { scaled.backward(); });
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

// ---- when it can be saved ---------------------------------------------------------------------------------------------------

TEST_CASE("a session amid an iteration is not saved", "[checkpoint]") {
  for (const char* level : {"O0", "O1", "O2", "O3", "O4", "O5"}) {
    INFO(level);
    const files::Directory directory = files::Directory::fast();
    Run run({.surface = level});
    const auto loss = [&] { return cross_entropy(run.net.forward(samples().x()), samples().y()); };
    const auto refused = [&](const char* what, const char* hint) {
      const std::string text =
          files::thrown<StateError>([&] { amp::save_checkpoint(directory.path(), run.parts()); });
      INFO(text);
      CHECK(text.find(what) != std::string::npos);
      CHECK(text.find(hint) != std::string::npos);
      CHECK(directory.count() == 0);
    };
    const auto saved = [&] {
      const files::Directory other = files::Directory::fast();
      CHECK_NOTHROW(amp::save_checkpoint(other.path(), run.parts()));
    };
    const auto backward = [](const Tensor& scaled) { scaled.backward(); };
    saved();
    {
      auto scope = amp::scale_loss(loss(), *run.optimizer);
      refused("a scale_loss scope is open", "close the scope");
      scope.loss().backward();
      refused("a scale_loss scope is open", "close the scope");
      scope.close();
    }
    refused("gradients wait for a step", "call step() first");
    run.optimizer->zero_grad();
    saved();
    amp::scale_loss(loss(), *run.optimizer, backward);
    amp::scale_loss(loss(), *run.optimizer, backward);
    refused("gradients wait for a step", "call step() first");
    CHECK(run.optimizer->step() == optim::StepResult::stepped);
    CHECK(run.net.module.parameters()[0]
              .grad()
              .defined());  // a step leaves gradients, which are nothing unfinished
    saved();
    const std::string delayed = level;
    amp::scale_loss(loss(), *run.optimizer, {.delay_unscale = true}, backward);
    const bool scales = delayed == "O1" || delayed == "O2" || delayed == "O5";
    refused(scales ? "delayed unscaling" : "gradients wait for a step", "step()");
    run.optimizer->zero_grad();
    saved();
    try {
      amp::scale_loss(loss(), *run.optimizer, [](const Tensor& scaled) {
        scaled.backward();
        throw std::runtime_error("body");
      });
    } catch (const std::runtime_error&) {}
    saved();  // the scope's gradients went with it
    if (!run.dynamic()) continue;
    amp::scale_loss(loss() * 1e30, *run.optimizer, backward);
    refused("an overflow waits for the step that it skips", "call step() first");
    run.optimizer->zero_grad();
    refused("an overflow waits for the step that it skips", "call step() first");
    CHECK(run.optimizer->step() == optim::StepResult::skipped);
    saved();
    amp::scale_loss(loss() * 1e30, *run.optimizer, {.delay_overflow_check = true}, backward);
    run.optimizer->zero_grad();
    refused("delay_overflow_check", "call step() first");
  }
}

TEST_CASE("an optimizer that a scope left unstepped is not saved, whoever else stepped", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  const Mlp a, b;
  optim::SGD one(a.parameters()), two(b.parameters());
  auto session = amp::initialize(std::vector<nn::Module>{a, b}, {one, two}, nets::quiet("O1"));
  const amp::Training parts{
      .model = {{"a", a}, {"b", b}}, .optimizer = {{"a", one}, {"b", two}}, .session = session};
  const Tensor loss = sum(a(samples().x()) * b(samples().x())) * 1e-3;
  amp::scale_loss(loss, {one, two}, [](const Tensor& scaled) { scaled.backward(); });
  (void)one.step();
  CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(directory.path(), parts), StateError, "SGD (optimizer 1)");
  (void)two.step();
  CHECK_NOTHROW(amp::save_checkpoint(directory.path(), parts));
}

TEST_CASE("a GradScaler amid an iteration is not saved", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "scaler"});
  const auto refused = [&] {
    CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(directory.path(), run.parts()), StateError,
                              "call update() first");
  };
  const Tensor scaled = run.scaler->scale(cross_entropy(run.net.forward(samples().x()), samples().y()));
  refused();
  scaled.backward();
  refused();
  run.scaler->unscale_(*run.optimizer);
  refused();
  (void)run.scaler->step(*run.optimizer);
  refused();
  run.scaler->update();
  CHECK_NOTHROW(amp::save_checkpoint(directory.path(), run.parts()));
  // A load ends the iteration as well: after a divergence one goes back.
  run.scaler->scale(cross_entropy(run.net.forward(samples().x()), samples().y()) * HUGE_VAL).backward();
  (void)run.scaler->step(*run.optimizer);
  run.resumed(amp::load_checkpoint(directory.path(), run.parts()));
  CHECK_FALSE(run.scaler->amid_iteration());
  for (const Tensor& param : run.optimizer->params()) CHECK_FALSE(param.grad().defined());
  CHECK_NOTHROW(run.steps(2));
}

TEST_CASE("a load drops what waits for a step, but not inside a scope", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "O2"});
  run.steps(2);
  amp::save_checkpoint(directory.path(), run.parts());
  const std::vector<double> expected = run.steps(3);
  const auto loss = [&] { return cross_entropy(run.net.forward(samples().x()), samples().y()) * 1e30; };
  {
    auto scope = amp::scale_loss(loss(), *run.optimizer);
    check_refused<StateError>(run, directory.path(), "a scale_loss scope is open");
    scope.loss().backward();
  }
  run.resumed(amp::load_checkpoint(directory.path(), run.parts()));
  CHECK(run.steps(3) == expected);
}

TEST_CASE("what cannot be saved as asked is refused before anything is written", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "O1"});
  const auto refused = [&](const amp::Training& parts, const char* part,
                           const amp::SaveCheckpointOptions& options = {}) {
    CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(directory.path(), parts, options), ValueError, part);
    CHECK(directory.count() == 0);
  };
  amp::Training parts = run.parts();
  parts.step = -1;
  refused(parts, "not negative");
  parts = run.parts();
  parts.epoch = -1;
  refused(parts, "not negative");
  refused(run.parts(), "keep is negative", {.keep = -1});
  parts = run.parts();
  parts.session = {};
  refused(parts, "belongs to a session that takes no part");
  parts.optimizer = {};
  refused(parts, "a model belongs to a session that takes no part");
  const Mlp other;
  parts = run.parts();
  parts.model = {{"a", run.net.module}, {"a", other}};
  refused(parts, "have one name");
  parts.model = {{"a", run.net.module}, {"", other}};
  refused(parts, "no name for a model");
  parts.model = {{"a", run.net.module}, {"b.c", other}};
  refused(parts, "without a dot");
  parts.model = {{"\xFF", run.net.module}};
  refused(parts, "no name for a model");
  parts = run.parts();
  parts.model = other;
  refused(parts, "has no name");
  parts = run.parts();
  parts.metadata = {{"a", "\xFF"}};
  refused(parts, "not UTF-8");
  parts = run.parts();
  run.session->close();
  CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(directory.path(), parts), StateError, "a session is closed");
  CHECK_THROWS_AS(amp::save_checkpoint("/dev/null/runs", amp::Training{}), IoError);
}

// ---- what it can be loaded into -------------------------------------------------------------------------------------------------

TEST_CASE("a checkpoint of another training is refused with all that differs", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  {
    Run run({.net = "mlp", .surface = "O2", .optimizer = "adam"});
    run.steps(2);
    amp::save_checkpoint(directory.path(), run.parts());
  }
  const auto refused = [&](const Kind& kind, const std::vector<std::string>& all) {
    Run run(kind), twin(kind);
    default_generator() = {1, 20};
    run.steps(2);
    for (const std::string& part : all) check_refused<ValueError>(run, directory.path(), part);
    // It trains on as if nobody had asked.
    default_generator() = {1, 20};
    twin.steps(2);
    const Generator now = default_generator();
    const std::vector<double> expected = twin.steps(3);
    default_generator() = now;
    CHECK(run.steps(3) == expected);
    CHECK(difference(snapshot(twin), snapshot(run)) == "");
  };
  refused({.net = "mlp", .surface = "O1"},
          {"opt_level was \"O2\" and is \"O1\" now", "pass {.allow_other_level = true}"});
  refused({.net = "mlp", .surface = "scaler"},
          {"the checkpoint has a session that this training lacks", "the checkpoint lacks the scaler"});
  refused({.net = "conv", .surface = "O2"}, {"the values do not fit ConvNet", "missing", "fc1.bias.exp_avg"});
  refused({.net = "mlp", .surface = "O2", .optimizer = "sgd"}, {"the optimizer was \"Adam\" and is SGD now"});
  refused(
      {.net = "conv", .surface = "O3", .optimizer = "adamw"},
      {"the optimizer was \"Adam\" and is AdamW now", "opt_level was \"O2\"", "missing: \"conv.weight\""});
}

TEST_CASE("other options, losses, groups, loaders and parts are refused", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  const Mlp net;
  const auto with = [&](const std::function<void(amp::Options&)>& change,
                        const std::function<void(const amp::Training&)>& then) {
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    amp::Options options = nets::quiet("O2");
    change(options);
    auto session = amp::initialize(net, optimizer, options);
    optim::Scheduler schedule(optimizer, optim::StepLR{});
    data::Batches loader = samples().batches({.size = 4});
    then({.model = net, .optimizer = optimizer, .session = session, .schedule = schedule, .loader = loader});
  };
  const auto same = [](amp::Options&) {};
  with(same, [&](const amp::Training& parts) { amp::save_checkpoint(directory.path(), parts); });
  const auto refused = [&](const char* part) {
    return [&directory, part](const amp::Training& parts) {
      CHECK_THROWS_WITH_AS_TEXT(amp::load_checkpoint(directory.path(), parts), ValueError, part);
    };
  };
  with(same,
       [&](const amp::Training& parts) { CHECK_NOTHROW(amp::load_checkpoint(directory.path(), parts)); });
  with([](amp::Options& o) { o.num_losses = 3; }, refused("num_losses was \"1\" and is \"3\" now"));
  with([](amp::Options& o) { o.loss_scale = 128.0; },
       refused("loss_scale was \"dynamic\" and is \"128.0\" now"));
  with([](amp::Options& o) { o.keep_batchnorm_fp32 = false; }, refused("keep_batchnorm_fp32 was \"true\""));
  with([](amp::Options& o) { o.max_loss_scale = 1024; }, refused("max_loss_scale was"));
  with([](amp::Options& o) { o.enabled = false; }, refused("enabled was \"true\" and is \"false\" now"));
  with([](amp::Options& o) { o.max_consecutive_skips = 7; },
       [&](const amp::Training& parts) {
         nets::LogCapture log;
         CHECK_NOTHROW(amp::load_checkpoint(directory.path(), parts));
       });
  with(same, [&](amp::Training parts) {
    parts.schedule = {};
    refused("the checkpoint has a schedule that this training lacks")(parts);
    parts.loader = {};
    refused("the checkpoint has a loader that this training lacks")(parts);
    data::Batches other = samples().batches({.size = 5, .shuffle = false, .drop_last = true});
    parts.loader = other;
    refused(
        "batch size of the loader was 4 and is 5 now; shuffle of the loader was true and is false now; "
        "drop_last")(parts);
    data::Batches fewer = samples().slice(0, 8).batches({.size = 4});
    parts.loader = fewer;
    refused("number of samples of the loader was 22 and is 8 now")(parts);
  });
  const Mlp wide;
  wide.to(f64);
  optim::SGD optimizer(wide.parameters());
  CHECK_THROWS_WITH_AS_TEXT(amp::load_checkpoint(directory.path(), {.model = wide, .optimizer = optimizer}),
                            ValueError, "\"fc1.weight\" of the model was saved in f32 and is f64 now");
}

TEST_CASE("another level is loaded when that is allowed, and the log says what becomes of it",
          "[checkpoint]") {
  for (const char* from : {"O0", "O1", "O2", "O3", "O5", "scaler"})
    for (const char* to : {"O0", "O1", "O2", "O3", "O4", "scaler"}) {
      INFO(from << " to " << to);
      const files::Directory directory = files::Directory::fast();
      Run saved({.surface = from});
      saved.steps(2);
      amp::save_checkpoint(directory.path(), saved.parts());
      const nn::StateDict weights = saved.net.module.state_dict();
      Run run({.surface = to, .seed = 5, .half_seen = false});
      const double scale = run.session ? run.session->loss_scaler().loss_scale() : run.scaler->get_scale();
      nets::LogCapture log;
      run.resumed(amp::load_checkpoint(directory.path(), run.parts(), {.allow_other_level = true}));
      CHECK(log.lines.empty() == (std::string(from) == to));
      std::string all;
      for (const std::string& line : log.lines) all += line + "\n";
      const auto told = [&](const char* part) { return all.find(part) != std::string::npos; };
      const bool had_masters = std::string(from) == "O2" || std::string(from) == "O5";
      if (had_masters && run.session && !run.session->options().masters()) CHECK(told("masters dropped"));
      if (run.session && saved.session && saved.dynamic() && run.dynamic())
        CHECK(run.session->loss_scaler().loss_scale() == 1024);
      else if (run.session && std::string(from) != to)
        CHECK(run.session->loss_scaler().loss_scale() == scale);
      if (run.session && saved.session && saved.dynamic() != run.dynamic())
        CHECK(told("loss scales dropped"));
      const nn::StateDict now = run.net.module.state_dict();
      for (const auto& [name, tensor] : weights)
        if (std::string(to) != "O3") CHECK(bytes_of(now[name]) == bytes_of(tensor));
      CHECK(run.loader->position() == saved.loader->position());
      CHECK_NOTHROW(run.steps(2));
    }
}

// ---- which one is taken -----------------------------------------------------------------------------------------------------------

TEST_CASE("the checkpoint that latest names is taken, or one that is asked for", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "O1"});
  for (int i = 0; i < 3; ++i) {
    run.step();
    amp::save_checkpoint(directory.path(), run.parts());
  }
  const auto loaded = [&](const std::string& path) { return amp::load_checkpoint(path, run.parts()).step; };
  CHECK(loaded(directory.path()) == 3);
  CHECK(loaded(directory.path() + "///") == 3);
  CHECK(loaded(directory / "step-000002") == 2);
  CHECK(loaded(directory / "step-000002/") == 2);
  // Back to the second, and on from there: the third belongs to a run that was left.
  run.done = 2;
  amp::save_checkpoint(directory.path(), run.parts());
  CHECK(loaded(directory.path()) == 2);
  nets::LogCapture log;
  std::filesystem::remove(directory / "step-000002/model.safetensors");
  CHECK(loaded(directory.path()) == 1);
  REQUIRE(log.lines.size() == 1);
  CHECK(log.lines[0] ==
        "load_checkpoint(" + (directory / "step-000002/model.safetensors") +
            "): cannot open the file; got No such file or directory; the next older checkpoint is tried");
  std::filesystem::remove(directory / "step-000001/state.json");
  CHECK(loaded(directory.path()) == 3);
  check_refused<IoError>(run, directory / "step-000001", "step-000001/state.json): cannot open the file");
  std::filesystem::remove(directory / "step-000003/state.json");
  check_refused<FormatError>(run, directory.path(), "every checkpoint is damaged; got load_checkpoint(");
  const files::Directory empty = files::Directory::fast();
  check_refused<IoError>(run, empty.path(), "there is no checkpoint");
  check_refused<IoError>(run, empty / "absent", "cannot read the directory; got No such file or directory");
  check_refused<IoError>(run, empty / "step-000009", "cannot open the file");
  files::write(empty / "file", "");
  check_refused<IoError>(run, empty / "file", "cannot read the directory; got Not a directory");
}

TEST_CASE("latest is a hint and no path", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "O0"});
  amp::save_checkpoint(directory / "elsewhere", run.parts());
  run.steps(1);
  amp::save_checkpoint(directory / "run", run.parts());
  run.steps(1);
  amp::save_checkpoint(directory / "run", run.parts());
  const auto loaded = [&] { return amp::load_checkpoint(directory / "run", run.parts()).step; };
  for (const char* text : {"../elsewhere/step-000000", "/etc", "", "step-1", "step-000001/",
                           "step-000009999999999999999999", "step-000001x", "state.json", "\xFF\xFE"}) {
    INFO(text);
    files::write(directory / "run/latest", text);
    CHECK(loaded() == 2);
  }
  files::write(directory / "run/latest", std::string(1 << 20, 'a'));
  CHECK(loaded() == 2);
  files::write(directory / "run/latest", "step-000001");
  CHECK(loaded() == 1);
  std::filesystem::remove(directory / "run/latest");
  CHECK(loaded() == 2);
}

TEST_CASE("keep removes the oldest checkpoints, and nothing of others", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "O0"});
  const auto save = [&](std::int64_t keep) {
    run.step();
    amp::save_checkpoint(directory.path(), run.parts(), {.keep = keep});
  };
  for (int i = 0; i < 4; ++i) save(0);
  CHECK(names_in(directory.path()).size() == 5);
  files::write(directory / "step-000002/notes.txt", "mine");
  files::write(directory / "step-5", "mine");
  std::filesystem::create_directory(directory / "step-best");
  std::filesystem::create_directory_symlink("step-best", directory / "step-000000");
  nets::LogCapture log;
  save(2);
  CHECK(names_in(directory.path()) == std::vector<std::string>{"latest", "step-000000", "step-000002",
                                                               "step-000004", "step-000005", "step-5",
                                                               "step-best"});
  CHECK(files::read(directory / "step-000002/notes.txt") == "mine");
  CHECK(std::filesystem::exists(directory / "step-000002/state.json"));
  CHECK(log.lines.empty());
  // What is newer than the new one belongs to a run that was left: it goes first.
  run.done = 0;
  save(1);
  CHECK(names_in(directory.path()) == std::vector<std::string>{"latest", "step-000000", "step-000001",
                                                               "step-000002", "step-5", "step-best"});
  CHECK(amp::load_checkpoint(directory.path(), run.parts()).step == 1);
}

TEST_CASE("a step that holds files of others is not replaced", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "O0"});
  const std::string path = amp::save_checkpoint(directory.path(), run.parts());
  files::write(path + "/notes.txt", "mine");
  CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(directory.path(), run.parts()), IoError,
                            "holds other files; move it away");
  std::filesystem::remove(path + "/notes.txt");
  CHECK_NOTHROW(amp::save_checkpoint(directory.path(), run.parts()));
  CHECK(names_in(directory.path()) == std::vector<std::string>{"latest", "step-000000"});
  std::filesystem::remove_all(path);
  files::write(path, "a file");
  CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(directory.path(), run.parts()), IoError, "no directory");
  CHECK(files::read(path) == "a file");
}
