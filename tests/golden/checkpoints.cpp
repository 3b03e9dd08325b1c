// Checkpoints that earlier versions wrote: checkpoints/full and checkpoints/scaler hold every kind
// of part. They load, and are saved again as they were. The files are never renewed.
#include <filesystem>

#include "../../tensor/io/crc32c.h"
#include "../io/files.h"
#include "../support/catch.h"
#include "../support/state.h"
#include "folder.h"

using namespace mezzo;

namespace {

std::string written(const char* name) {
  return golden::folder() + "/checkpoints/" + name + "/step-000003";
}

Tensor wave(std::int64_t rows, std::int64_t columns, double phase) {
  return sin(arange(0.0, static_cast<double>(rows * columns)) * 0.7 + phase)
      .reshape({rows, columns});
}

const data::Dataset& samples() {
  static const data::Dataset all(wave(10, 2, 0.3), wave(10, 1, 1.1));
  return all;
}

struct Net : nn::Model<Net> {
  nn::Linear fc = add("fc", nn::Linear{2, 3});
  nn::BatchNorm1d norm = add("norm", nn::BatchNorm1d{3});
  nn::Linear out = add("out", nn::Linear{3, 1});
  Tensor forward(const Tensor& x) const { return out(relu(norm(fc(x)))); }
};

/** A training with several parts of each kind, at O2. */
struct Full {
  Net net;
  nn::Linear critic{2, 1}, curve{1, 1};
  optim::Adam adam{net.parameters(), {.lr = 0.01}};
  optim::SGD sgd{critic.parameters(), {.lr = 0.125, .momentum = 0.5}};
  optim::LBFGS lbfgs{curve.parameters(), {.lr = 0.5}};
  amp::Session session = amp::initialize({net, critic}, {adam, sgd},
                                         {.opt_level = "O2", .num_losses = 2, .verbosity = 0});
  optim::Scheduler rate{adam, optim::ExponentialLR{.gamma = 0.5}};
  optim::ReduceLROnPlateau plateau{sgd};
  optim::EarlyStopping stopping;
  data::Batches train = samples().batches({.size = 2, .seed = (std::uint64_t{1} << 63) + 1});
  data::Batches test = samples().batches({.size = 5, .shuffle = false});
  Generator augment{~std::uint64_t{0}, (std::uint64_t{1} << 53) + 1}, noise{3, 4};
  nn::ExponentialMovingAverage average{net, {.decay = 0.5, .use_buffers = true}};

  amp::Training parts() {
    return {.model = {{"net", net}, {"critic", critic}, {"curve", curve}},
            .optimizer = {{"adam", adam}, {"sgd", sgd}, {"lbfgs", lbfgs}},
            .session = session,
            .schedule = {{"rate", rate}, {"plateau", plateau}, {"stopping", stopping}},
            .loader = {{"train", train}, {"test", test}},
            .generator = {{"augment", augment}, {"noise", noise}},
            .average = average,
            .step = 3};
  }

  void step() {
    const Batch batch = *train.begin();
    const auto backward = [](const Tensor& scaled) { scaled.backward(); };
    adam.zero_grad();
    sgd.zero_grad();
    amp::scale_loss(mse_loss(net(batch.x), batch.y), adam, backward);
    amp::scale_loss(mse_loss(critic(batch.x), batch.y), sgd, {.loss_id = 1}, backward);
    (void)adam.step();
    (void)sgd.step();
    (void)lbfgs.step([&] {
      lbfgs.zero_grad();
      const Tensor loss = mse_loss(curve(batch.y), batch.y * batch.y);
      loss.backward();
      return loss;
    });
    rate.step();
    plateau.step(1.5);
    (void)stopping.step(2.5);
    average.update();
  }
};

/** A training with one part of each kind that autocast needs. */
struct Scaled {
  nn::Linear net{2, 1};
  optim::AdamW adamw{net.parameters(), {.lr = 0.01}};
  amp::GradScaler scaler{{.init_scale = 1024, .growth_interval = 2}};
  optim::Scheduler rate{adamw, optim::StepLR{.step_size = 2, .gamma = 0.5}};
  data::Batches train = samples().batches({.size = 4, .seed = 6, .drop_last = true});
  Generator noise{7, 8};
  nn::ExponentialMovingAverage average{net, {.decay = 0.5}};

  amp::Training parts() {
    return {.model = net,
            .optimizer = adamw,
            .scaler = scaler,
            .schedule = rate,
            .loader = train,
            .generator = noise,
            .average = average,
            .step = 3};
  }

  void step() {
    const Batch batch = *train.begin();
    adamw.zero_grad();
    Tensor loss;
    {
      const amp::autocast on;
      loss = mse_loss(net(batch.x), batch.y);
    }
    scaler.scale(loss).backward();
    (void)scaler.step(adamw);
    scaler.update();
    rate.step();
    average.update();
  }
};

/** Returns the state without lines that depend on the version or the machine. */
std::string comparable(const std::string& state) {
  std::istringstream in(state);
  std::string out;
  for (std::string line; std::getline(in, line);)
    if (line.find("\"library\"") == std::string::npos &&
        line.find("\"cpu_products\"") == std::string::npos &&
        line.find("\"bytes\"") == std::string::npos &&
        line.find("\"crc32c\"") == std::string::npos && line.find("\"self\"") == std::string::npos)
      out += line + "\n";
  return out;
}

/** Saves what was loaded and compares it with the files. */
void check_saved(const amp::Training& parts, const amp::LoadedCheckpoint& loaded) {
  const files::Directory directory;
  amp::Training again = parts;
  again.epoch = loaded.epoch;
  again.metadata = loaded.metadata;
  const std::string path = amp::save_checkpoint(directory.path(), again);
  for (const auto& entry : std::filesystem::directory_iterator(loaded.path)) {
    const std::string name = entry.path().filename(), file = path + "/" + name;
    INFO(name);
    if (name == "state.json") {
      CHECK(comparable(files::read(file)) == comparable(files::read(entry.path())));
      continue;
    }
    const NamedTensors was = load_tensors(entry.path()).tensors, is = load_tensors(file).tensors;
    REQUIRE(was.size() == is.size());
    for (std::size_t i = 0; i < was.size(); ++i) {
      INFO(was[i].first);
      CHECK(was[i].first == is[i].first);
      CHECK(was[i].second.dtype() == is[i].second.dtype());
      CHECK(states::bytes_of(was[i].second) == states::bytes_of(is[i].second));
    }
  }
}

/** Loads a checkpoint over a training that has taken other steps. */
template <class T> amp::LoadedCheckpoint load_over(T& training, const std::string& path) {
  training.step();
  training.step();
  return amp::load_checkpoint(path, training.parts());
}

}  // namespace

TEST_CASE("a checkpoint with every kind of part that an earlier version wrote loads") {
  const std::string path = written("full");
  manual_seed(99);
  Full here;
  const amp::LoadedCheckpoint loaded = load_over(here, path);
  CHECK(loaded.step == 3);
  CHECK(loaded.epoch == 2);
  CHECK(loaded.metadata ==
        amp::CheckpointMetadata{
            {"text", "a \xC3\xA4"}, {"number", 0.1}, {"most", INT64_MAX}, {"least", INT64_MIN}});
  for (const auto& [key, value] : load_tensors(path + "/model.safetensors").tensors) {
    const nn::StateDict state = key.starts_with("net.")      ? here.net.state_dict()
                                : key.starts_with("critic.") ? here.critic.state_dict()
                                                             : here.curve.state_dict();
    CHECK(states::bytes_of(state[key.substr(key.find('.') + 1)]) == states::bytes_of(value));
  }
  CHECK(here.session.loss_scaler(0).loss_scale() == 512);
  CHECK(here.session.loss_scaler(1).loss_scale() == 32768);
  CHECK(here.session.loss_scaler(1).unskipped() == 2);
  CHECK(here.rate.steps() == 3);
  CHECK(here.adam.lr() == 0.01 / 8);
  CHECK(here.sgd.lr() == 0.125);
  CHECK(here.stopping.state_dict().scalars.at("evaluations") == 3);
  CHECK(here.plateau.state_dict().scalars.at("num_bad_epochs") == 2);
  CHECK(here.average.num_updates() == 3);
  CHECK(here.train.position() ==
        data::Position{.seed = (std::uint64_t{1} << 63) + 1, .epoch = 2, .sample = 2});
  CHECK(here.augment == Generator{~std::uint64_t{0}, (std::uint64_t{1} << 53) + 1});
  CHECK(here.noise == Generator{3, 4});
  CHECK(default_generator().seed == 5);
  check_saved(here.parts(), loaded);
}

TEST_CASE("a checkpoint of a GradScaler that an earlier version wrote loads") {
  const std::string path = written("scaler");
  manual_seed(99);
  Scaled here;
  const amp::LoadedCheckpoint loaded = load_over(here, path);
  for (const auto& [key, value] : load_tensors(path + "/model.safetensors").tensors)
    CHECK(states::bytes_of(here.net.state_dict()[key]) == states::bytes_of(value));
  CHECK(here.scaler.get_scale() == 2048);
  CHECK(here.scaler.state_dict().at("_growth_tracker") == 1);
  CHECK(here.adamw.lr() == 0.005);
  CHECK(here.average.num_updates() == 3);
  CHECK(here.noise == Generator{7, 8});
  CHECK(default_generator().seed == 6);
  check_saved(here.parts(), loaded);
}

TEST_CASE("a state without what later versions added, and one of several processes, load") {
  const files::Directory directory;
  const std::string step = directory / "step-000003";
  std::filesystem::copy(written("scaler"), step);
  const std::string self = ",\n  \"self\": \"", text = files::read(step + "/state.json");
  const auto load_edited = [&](const std::vector<std::pair<std::string, std::string>>& edits) {
    std::string body = text.substr(0, text.rfind(self));
    for (const auto& [from, to] : edits) {
      REQUIRE(body.find(from) != std::string::npos);
      body.replace(body.find(from), from.size(), to);
    }
    char crc[9];
    std::snprintf(crc, sizeof crc, "%08X", io::crc32c(std::as_bytes(std::span(body))));
    files::write(step + "/state.json", body + self + crc + "\"\n}\n");
    Scaled here;
    const amp::LoadedCheckpoint loaded = load_over(here, step);
    CHECK(here.noise == Generator{7, 8});
    CHECK(here.train.position() == data::Position{.seed = 6, .epoch = 2, .sample = 4});
    check_saved(here.parts(), amp::LoadedCheckpoint{.path = written("scaler")});
  };
  const std::size_t at = text.find("  \"cpu_products\"");
  const std::string products = text.substr(at, text.find('\n', at) + 1 - at);
  load_edited({{products, ""}});
  load_edited({{products, "  \"cpu_multiplies_bf16\": true,\n"}});
  load_edited({{"\"world_size\": 1", "\"world_size\": 2"},
               {"  \"files\"",
                "  \"ranks\": {\"1\": {\"default_generator\": {\"seed\": 1, \"draw\": 2}, "
                "\"generators\": {\"\": {\"seed\": 3, \"draw\": 4}}}},\n  \"files\""}});
}
