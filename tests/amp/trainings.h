// Small trainings of every kind that can be checkpointed (nets, levels, optimizers, schedules,
// loaders), and a bitwise comparison of their states.
#pragma once

#include <mezzo.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../io/files.h"
#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/optimizers.h"
#include "../support/state.h"
#include "nets.h"

namespace trainings {

using namespace mezzo;

// ---- nets: input [N,1,4,4], result [N,3] --------------------------------------------------------

struct Mlp : nn::Model<Mlp> {
  nn::Linear fc1 = add("fc1", nn::Linear{16, 12});
  nn::Dropout drop = add("drop", nn::Dropout{0.3});
  nn::Linear fc2 = add("fc2", nn::Linear{12, 3});
  Tensor forward(const Tensor& x) const { return fc2(drop(relu(fc1(x.flatten(1))))); }
};

struct ConvClassifier : nn::Model<ConvClassifier> {
  nn::Conv2d conv = add("conv", nn::Conv2d{1, 4, 3, {.padding = 1}});
  nn::BatchNorm2d norm = add("norm", nn::BatchNorm2d{4});
  nn::BatchNorm1d plain = add("plain", nn::BatchNorm1d{64, {.affine = false}});
  nn::Linear fc = add("fc", nn::Linear{64, 3});
  Tensor forward(const Tensor& x) const { return fc(plain(relu(norm(conv(x))).flatten(1))); }
};

/** Embeds each pixel as a word and runs an LSTM. */
struct WordNet : nn::Model<WordNet> {
  nn::Embedding words = add("words", nn::Embedding{8, 6});
  Tensor w_ih = add_parameter("weight_ih", nets::wave({20, 6}, 0.1));
  Tensor w_hh = add_parameter("weight_hh", nets::wave({20, 5}, 0.7));
  Tensor b_ih = add_parameter("bias_ih", nets::wave({20}, 1.3));
  Tensor b_hh = add_parameter("bias_hh", nets::wave({20}, 2.1));
  nn::Dropout drop = add("drop", nn::Dropout{0.2});
  nn::Linear fc = add("fc", nn::Linear{5, 3});
  Tensor forward(const Tensor& x) const {
    const Tensor at =
        clamp((x.flatten(1).to(f32) + 1.0) * 4.0, {.min = 0, .max = 7}).detach().to(i64);
    const Tensor e = words(at);
    Tensor h = zeros({x.size(0), 5}, {.dtype = e.dtype(), .device = x.device()}), c = h;
    for (std::int64_t t = 0; t < 4; ++t) {
      const LstmState next = lstm_cell(e.select(1, t), {h, c}, {w_ih, w_hh, b_ih, b_hh});
      h = next.h;
      c = next.c;
    }
    return fc(drop(h));
  }
};

struct AnyNet {
  nn::Module module;
  std::function<Tensor(const Tensor&)> forward;
};

template <class M> AnyNet erased(M model) {
  return {model, [model](const Tensor& x) { return model(x); }};
}

inline AnyNet make_net(const std::string& kind) {
  if (kind == "mlp") return erased(Mlp{});
  if (kind == "conv") return erased(ConvClassifier{});
  return erased(WordNet{});
}

/** "sgd", "adam", "adamw" or the name of one of optimizers::kinds(). */
inline optimizers::Made make_optimizer(const std::string& kind, const nn::Module& model) {
  const auto params = model.parameters();
  if (kind == "sgd")
    return std::make_shared<optim::SGD>(params, optim::SgdOptions{.lr = 0.05, .momentum = 0.9});
  if (kind == "adam") return std::make_shared<optim::Adam>(params, optim::AdamOptions{.lr = 0.01});
  if (kind == "adamw")
    return std::make_shared<optim::AdamW>(params, optim::AdamWOptions{.lr = 0.01});
  for (const optimizers::Kind& known : optimizers::kinds())
    if (kind == known.name) return known.make(params);
  throw std::logic_error("no optimizer of this name: " + kind);
}

inline const data::Dataset& samples() {
  static const data::Dataset all = [] {
    std::vector<double> labels;
    for (int i = 0; i < 22; ++i) labels.push_back(i * i % 3);
    const TensorOptions options{.dtype = i64, .device = nets::test_device()};
    return data::Dataset(nets::wave({22, 1, 4, 4}, 0.5), tensor(labels, {22}, options));
  }();
  return all;
}

// ---- one training -------------------------------------------------------------------------------

struct Kind {
  std::string net = "mlp", surface = "O2", optimizer = "adam";  // surface: a level, or "scaler"
  std::uint64_t seed = 1;
  bool half_seen = true;  // start just before a dynamic scale grows
  bool averages = false;  // keep averages of weights and buffers
};

/** Returns all values of Kind::surface. */
inline std::vector<const char*> surfaces() {
  std::vector<const char*> all = levels::names();
  all.push_back("scaler");
  return all;
}

/** A training from its start; step() trains on one batch. */
class Run {
 public:
  explicit Run(const Kind& kind)
      : kind_(kind), net(seeded(kind)), optimizer(make_optimizer(kind.optimizer, net.module)) {
    if (kind.surface == "scaler")
      scaler.emplace(amp::GradScalerOptions{.growth_interval = 4});
    else
      session.emplace(amp::initialize(net.module, *optimizer, nets::quiet(kind.surface.c_str())));
    schedule.emplace(*optimizer, optim::CosineAnnealingLR{.t_max = 20, .eta_min = 1e-4});
    loader.emplace(samples().batches({.size = 4, .seed = kind.seed, .prefetch = 0}));
    if (kind.averages)
      average.emplace(net.module,
                      nn::EmaOptions{.decay = 0.9, .warmup = true, .use_buffers = true});
    if (session && session->options().dynamic() && kind.half_seen)
      session->load_state_dict({{"loss_scaler0", {{"loss_scale", 1024}, {"unskipped", 1995}}}});
  }

  amp::Training parts() {
    amp::Training out{
        .model = net.module, .optimizer = *optimizer, .schedule = *schedule, .loader = *loader};
    if (session) out.session = *session;
    if (scaler) out.scaler = *scaler;
    if (average) out.average = *average;
    out.step = done;
    return out;
  }

  bool dynamic() const { return scaler || session->options().dynamic(); }

  /** Runs one training step and returns the loss. At step `overflow` a dynamic scale overflows. */
  double step(int overflow = -1) {
    const Batch& batch = next();
    optimizer->zero_grad();
    const double factor = done == overflow && dynamic() ? 1e30 : 1;
    double loss = 0;
    optim::StepResult result{};
    if (scaler) {
      Tensor value;
      {
        const amp::autocast on;
        value = cross_entropy(net.forward(batch.x), batch.y) * factor;
      }
      loss = value.item<double>();
      scaler->scale(value).backward();
      result = scaler->step(*optimizer);
      scaler->update();
    } else {
      const Tensor value = cross_entropy(net.forward(batch.x), batch.y) * factor;
      loss = value.item<double>();
      amp::scale_loss(value, *optimizer, [](const Tensor& scaled) { scaled.backward(); });
      result = optimizer->step();
    }
    if (average) average->update();
    if (result == optim::StepResult::stepped) schedule->step();
    skipped += result == optim::StepResult::skipped ? 1 : 0;
    ++done;
    return loss;
  }

  std::vector<double> steps(int count, int overflow = -1) {
    std::vector<double> losses;
    for (int i = 0; i < count; ++i) losses.push_back(step(overflow));
    return losses;
  }

  /** Continues the iteration over the data at the loaded position. */
  void resumed(const amp::LoadedCheckpoint& from) {
    done = static_cast<int>(from.step);
    at_.reset();
  }

 private:
  static AnyNet seeded(const Kind& kind) {
    manual_seed(kind.seed);
    AnyNet net = make_net(kind.net);
    net.module.to(nets::test_device());
    return net;
  }

  const Batch& next() {
    if (at_) ++*at_;
    while (!at_ || *at_ == loader->end()) at_ = loader->begin();
    return **at_;
  }

  Kind kind_;

 public:
  AnyNet net;
  optimizers::Made optimizer;
  std::optional<amp::Session> session;
  std::optional<amp::GradScaler> scaler;
  std::optional<optim::Scheduler> schedule;
  std::optional<data::Batches> loader;
  std::optional<nn::ExponentialMovingAverage> average;
  int done = 0, skipped = 0;

 private:
  std::optional<data::Batches::Iterator> at_;
};

// ---- everything a training depends on, as bytes -------------------------------------------------

using states::bytes_of, states::difference;

/** Returns the state by name. */
inline states::State snapshot(Run& run) {
  states::State out;
  for (const auto& list : {run.net.module.named_parameters(), run.net.module.named_buffers()})
    for (const nn::NamedTensor& entry : list) out["present " + entry.name] = bytes_of(entry.tensor);
  for (const auto& [name, tensor] : run.net.module.state_dict())
    out["saved " + name] = bytes_of(tensor);
  const optim::StateDict state = run.optimizer->state_dict(run.net.module.named_parameters());
  for (const auto& [name, tensor] : state.tensors) out["optimizer " + name] = bytes_of(tensor);
  for (const auto& [name, number] : state.scalars) out["optimizer " + name] = bytes_of(number);
  if (run.session)
    for (const auto& [name, fields] : run.session->state_dict())
      for (const auto& [field, number] : fields) out[name + " " + field] = bytes_of(number);
  if (run.scaler)
    for (const auto& [field, number] : run.scaler->state_dict())
      out["scaler " + field] = bytes_of(number);
  if (run.average)
    for (const auto& [name, tensor] : run.average->state_dict())
      out["average " + name] = bytes_of(tensor);
  for (const auto& [name, number] : run.schedule->state_dict().scalars)
    out["schedule " + name] = bytes_of(number);
  const data::Position at = run.loader->position();
  out["loader"] = str(at.seed, " ", at.epoch, " ", at.sample);
  out["generator"] = str(default_generator().seed, " ", default_generator().draw);
  return out;
}

// ---- checkpoints on the disk --------------------------------------------------------------------

inline std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

/** Checks that a load is refused and the training continues with the same bits. */
template <class Error>
void check_refused(Run& run, const std::string& path, const std::string& part,
                   const amp::LoadCheckpointOptions& options = {}) {
  const auto before = snapshot(run);
  const std::string text =
      files::thrown<Error>([&] { amp::load_checkpoint(path, run.parts(), options); });
  INFO(text);
  CHECK(text.find("load_checkpoint") == 0);
  CHECK(text.find(part) != std::string::npos);
  CHECK(difference(before, snapshot(run)) == "");
}

}  // namespace trainings
