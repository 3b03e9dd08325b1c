// Which trainings a checkpoint can be loaded into.
#include "../support/catch.h"
#include "../support/throws.h"
#include "trainings.h"

using namespace trainings;

TEST_CASE("a checkpoint of another training is refused with a list of the differences",
          "[checkpoint]") {
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
    // Training continues as if nothing had been loaded.
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
  refused(
      {.net = "mlp", .surface = "scaler"},
      {"the checkpoint has a session that this training lacks", "the checkpoint lacks the scaler"});
  refused({.net = "conv", .surface = "O2"},
          {"the values do not fit ConvClassifier", "missing", "fc1.bias.exp_avg"});
  refused({.net = "mlp", .surface = "O2", .optimizer = "sgd"},
          {"the optimizer was \"Adam\" and is SGD now"});
  refused({.net = "conv", .surface = "O3", .optimizer = "adamw"},
          {"the optimizer was \"Adam\" and is AdamW now", "opt_level was \"O2\"",
           "missing: \"conv.weight\""});
}

TEST_CASE("averages of weights are loaded only where they were saved", "[checkpoint]") {
  const files::Directory with = files::Directory::fast(), without = files::Directory::fast();
  const Kind averaged{.averages = true}, plain{};
  {
    Run run(averaged);
    run.steps(2);
    {
      const auto held = run.average->averaged();
      CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(with.path(), run.parts()), StateError,
                                "call swap() first");
    }
    amp::save_checkpoint(with.path(), run.parts());
    Run other(plain);
    amp::save_checkpoint(without.path(), other.parts());
  }
  Run run(averaged), other(plain);
  run.steps(3);
  check_refused<ValueError>(other, with.path(),
                            "the checkpoint has a moving average that this training lacks");
  check_refused<ValueError>(run, without.path(), "the checkpoint lacks the moving average");
  Run conv({.net = "conv", .averages = true});
  check_refused<ValueError>(conv, with.path(), "the saved averages do not fit the model");
  const std::string step = with.path() + "/step-000002", file = step + "/average.safetensors";
  const std::string bytes = files::read(file);
  files::write(file, bytes.substr(0, bytes.size() - 1));
  check_refused<FormatError>(run, step, "the file is damaged");
  std::filesystem::remove(file);
  check_refused<IoError>(run, step, "average.safetensors");
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
    then({.model = net,
          .optimizer = optimizer,
          .session = session,
          .schedule = schedule,
          .loader = loader});
  };
  const auto same = [](amp::Options&) {};
  with(same, [&](const amp::Training& parts) { amp::save_checkpoint(directory.path(), parts); });
  const auto refused = [&](const char* part) {
    return [&directory, part](const amp::Training& parts) {
      CHECK_THROWS_WITH_AS_TEXT(amp::load_checkpoint(directory.path(), parts), ValueError, part);
    };
  };
  with(same, [&](const amp::Training& parts) {
    CHECK_NOTHROW(amp::load_checkpoint(directory.path(), parts));
  });
  with([](amp::Options& o) { o.num_losses = 3; }, refused("num_losses was \"1\" and is \"3\" now"));
  with([](amp::Options& o) { o.loss_scale = 128.0; },
       refused("loss_scale was \"dynamic\" and is \"128.0\" now"));
  with([](amp::Options& o) { o.keep_batchnorm_fp32 = false; },
       refused("keep_batchnorm_fp32 was \"true\""));
  with([](amp::Options& o) { o.max_loss_scale = 1024; }, refused("max_loss_scale was"));
  with([](amp::Options& o) { o.enabled = false; },
       refused("enabled was \"true\" and is \"false\" now"));
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
        "batch size of the loader was 4 and is 5 now; shuffle of the loader was true and is false "
        "now; "
        "drop_last")(parts);
    data::Batches fewer = samples().slice(0, 8).batches({.size = 4});
    parts.loader = fewer;
    refused("number of samples of the loader was 22 and is 8 now")(parts);
  });
  const Mlp wide;
  wide.to(f64);
  optim::SGD optimizer(wide.parameters());
  CHECK_THROWS_WITH_AS_TEXT(
      amp::load_checkpoint(directory.path(), {.model = wide, .optimizer = optimizer}), ValueError,
      "\"fc1.weight\" of the model was saved in f32 and is f64 now");
}

TEST_CASE("a loader of other processes is loaded if their batches are as large", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  const Mlp net;
  data::Batches shard =
      samples().batches({.size = 3, .seed = 1, .drop_last = true, .shard = {1, 2}});
  auto at = shard.begin();
  ++at;
  amp::save_checkpoint(directory.path(), {.model = net, .loader = shard});

  const auto position_in = [&](const data::BatchOptions& options) {
    data::Batches loader = samples().batches(options);
    amp::load_checkpoint(directory.path(), {.model = net, .loader = loader});
    return loader.position();
  };
  const data::Position saved{.seed = 1, .sample = 12};
  // as large for each process
  CHECK(position_in({.size = 3, .drop_last = true, .shard = {0, 2}}) == saved);
  CHECK(position_in({.size = 3, .drop_last = true, .shard = {2, 4}}) == saved);
  CHECK(position_in({.size = 3, .drop_last = true}) == saved);
  // as large for all together
  CHECK(position_in({.size = 6, .drop_last = true}) == saved);
  CHECK(position_in({.size = 2, .drop_last = true, .shard = {2, 3}}) == saved);

  CHECK_THROWS_WITH_AS_TEXT(
      position_in({.size = 4, .drop_last = true, .shard = {0, 2}}), ValueError,
      "batch size of the loader was 3 in each of 2 processes and is 4 in each of 2 processes now");
  CHECK_THROWS_WITH_AS_TEXT(position_in({.size = 4, .drop_last = true}), ValueError,
                            "batch size of the loader was 3 in each of 2 processes and is 4 now");
}

TEST_CASE("another level is loaded if allowed, and the log lists the conversions", "[checkpoint]") {
  for (const char* from : surfaces())
    for (const char* to : surfaces()) {
      INFO(from << " to " << to);
      const files::Directory directory = files::Directory::fast();
      Run saved({.surface = from});
      saved.steps(2);
      amp::save_checkpoint(directory.path(), saved.parts());
      const nn::StateDict weights = saved.net.module.state_dict();
      Run run({.surface = to, .seed = 5, .half_seen = false});
      const double scale =
          run.session ? run.session->loss_scaler().loss_scale() : run.scaler->get_scale();
      nets::LogCapture log;
      run.resumed(amp::load_checkpoint(directory.path(), run.parts(), {.allow_other_level = true}));
      CHECK(log.lines.empty() == (std::string(from) == to));
      std::string all;
      for (const std::string& line : log.lines) all += line + "\n";
      const auto told = [&](const char* part) { return all.find(part) != std::string::npos; };
      const bool had_masters = saved.session && saved.session->options().masters();
      if (had_masters && run.session && !run.session->options().masters())
        CHECK(told("masters dropped"));
      if (run.session && saved.session && saved.dynamic() && run.dynamic())
        CHECK(run.session->loss_scaler().loss_scale() == 1024);
      else if (run.session && std::string(from) != to)
        CHECK(run.session->loss_scaler().loss_scale() == scale);
      if (run.session && saved.session && saved.dynamic() != run.dynamic())
        CHECK(told("loss scales dropped"));
      const bool rounds = run.session && !run.session->options().masters() &&
                          is_low(run.session->options().model_dtype().value_or(f32));
      const nn::StateDict now = run.net.module.state_dict();
      for (const auto& [name, tensor] : weights)
        if (!rounds) CHECK(bytes_of(now[name]) == bytes_of(tensor));
      CHECK(run.loader->position() == saved.loader->position());
      CHECK_NOTHROW(run.steps(2));
    }
}
