#include "training.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>

#include "nets.h"
#include "program.h"
#include "progress.h"
#include "table.h"

namespace samples {

using namespace mezzo;

namespace {

template <class M> Net erased(M model) {
  return {model, [model](const Tensor& x) { return model(x); }};
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/** One run: the net, its optimizer and session, and the figures so far. */
class Trainer {
 public:
  Trainer(const TrainSettings& settings, const data::Split& digits)
      : settings_(settings),
        digits_(digits),
        net_(seeded_net(settings)),
        optimizer_(net_.module.parameters(), {.lr = settings.lr}),
        session_(amp::initialize(net_.module, optimizer_, {.opt_level = settings.level, .verbosity = 0})),
        batches_(digits.train.batches({.size = settings.batch, .seed = settings.seed})),
        progress_(settings.net + " " + settings.level, total_steps(), settings.quiet) {
    result_.net = settings.net;
    result_.level = settings.level;
    if (!settings.resume.empty()) resume();
  }

  TrainResult run() {
    while (batches_.epoch() < settings_.epochs && !finished()) {
      run_epoch();
      if (!settings_.save.empty()) amp::save_checkpoint(settings_.save, parts(), {.keep = 3});
    }
    summarise();
    return std::move(result_);
  }

 private:
  static Net seeded_net(const TrainSettings& settings) {
    manual_seed(settings.seed);
    const Net net = make_net(settings.net);
    net.module.to(settings.device);
    return net;
  }

  /** What a checkpoint holds: the training, and of the result so far what the final figures are made of. */
  amp::Training parts() {
    amp::Training training{.model = net_.module,
                           .optimizer = optimizer_,
                           .session = session_,
                           .loader = batches_,
                           .step = result_.steps,
                           .epoch = batches_.epoch()};
    training.metadata["skipped_steps"] = result_.skipped_steps;
    for (std::size_t i = 0; i < recent_.size(); ++i) training.metadata[str("recent_loss.", i)] = recent_[i];
    return training;
  }

  void resume() {
    const amp::LoadedCheckpoint loaded = amp::load_checkpoint(settings_.resume, parts());
    result_.steps = loaded.step;
    result_.skipped_steps = std::get<std::int64_t>(loaded.metadata.at("skipped_steps"));
    for (std::size_t i = 0; i < kRecent; ++i)
      if (const auto found = loaded.metadata.find(str("recent_loss.", i)); found != loaded.metadata.end())
        recent_.push_back(std::get<double>(found->second));
  }

  std::int64_t total_steps() const {
    const std::int64_t all = settings_.epochs * batches_.size();
    return settings_.max_steps > 0 ? std::min(all, settings_.max_steps) : all;
  }

  bool finished() const { return settings_.max_steps > 0 && result_.steps >= settings_.max_steps; }

  void run_epoch() {
    net_.module.train();
    const std::int64_t number = batches_.epoch() + 1;
    for (const data::Batch& batch : batches_) {
      step(batch);
      progress_.step(result_.steps, status());
      if (finished()) break;
    }
    progress_.line("epoch " + std::to_string(number) + "  " + status() + "  test accuracy " +
                   fixed(100 * accuracy(net_, digits_.test), 2) + " %");
  }

  void step(const data::Batch& batch) {
    const auto start = std::chrono::steady_clock::now();
    const amp::CastStats before = amp::cast_stats();
    optimizer_.zero_grad();
    const Tensor loss =
        cross_entropy(net_.forward(batch.x.to(settings_.device)), batch.y.to(settings_.device));
    amp::scale_loss(loss, optimizer_, [](const Tensor& scaled) { scaled.backward(); });
    if (optimizer_.step() == amp::StepResult::skipped) ++result_.skipped_steps;
    note_loss(loss.item<double>());
    const amp::CastStats cast = amp::cast_stats() - before;
    result_.casts_per_step += static_cast<double>(cast.casts);
    result_.cast_bytes_per_step += static_cast<double>(cast.bytes);
    if (batch.size() == settings_.batch)
      times_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    ++result_.steps;
  }

  void note_loss(double loss) {
    result_.losses.push_back(loss);
    recent_.push_back(loss);
    if (recent_.size() > kRecent) recent_.pop_front();
  }

  /** Mean of the last losses: a single batch's says little. */
  double recent_loss() const {
    if (recent_.empty()) return 0;
    return std::accumulate(recent_.begin(), recent_.end(), 0.0) / static_cast<double>(recent_.size());
  }

  std::string status() {
    return "loss " + fixed(recent_loss(), 4) + "  scale " + fixed(session_.loss_scaler().loss_scale(), 0) +
           "  skipped " + std::to_string(result_.skipped_steps);
  }

  void summarise() {
    const double seconds = median(times_);
    result_.step_ms = 1e3 * seconds;
    result_.samples_per_s = seconds > 0 ? static_cast<double>(settings_.batch) / seconds : 0;
    result_.peak_bytes = memory_stats(settings_.device).total.peak;
    result_.final_loss = recent_loss();
    result_.accuracy = accuracy(net_, digits_.test);
    result_.loss_scale = session_.loss_scaler().loss_scale();
    if (result_.losses.empty()) return;
    const auto steps_here = static_cast<double>(result_.losses.size());
    result_.casts_per_step /= steps_here;
    result_.cast_bytes_per_step /= steps_here;
  }

  static constexpr std::size_t kRecent = 20;

  TrainSettings settings_;
  const data::Split& digits_;
  Net net_;
  optim::Adam optimizer_;
  amp::Session session_;
  data::Batches batches_;
  Progress progress_;
  TrainResult result_;
  std::vector<double> times_;
  std::deque<double> recent_;  // the latest losses
};

}  // namespace

const std::vector<std::string>& net_names() {
  static const std::vector<std::string> names{"mlp", "lenet"};
  return names;
}

Net make_net(const std::string& name) {
  if (name == "mlp") return erased(Mlp{});
  return erased(LeNet{});
}

void check_level(const std::string& level) {
  if (amp::find_level(level)) return;
  const std::string hint = level.starts_with("0") ? "; the letter O, not zero" : "";
  throw UsageError("unknown level; got \"" + level + "\", expected O0..O5" + hint);
}

Device parse_device(const std::string& text) {
  try {
    return Device::parse(text);
  } catch (const ValueError& e) {
    throw UsageError(e.what());
  }
}

data::Split load_digits(const std::string& dir, std::int64_t train, std::int64_t test, std::uint64_t seed) {
  if (!dir.empty()) return data::mnist(dir);
  const data::Dataset all = data::synthetic_digits(train + test, seed);
  return {all.slice(0, train), all.slice(train, test)};
}

double accuracy(const Net& net, const data::Dataset& test) {
  const NoGrad no_grad;
  const bool training = net.module.training();
  net.module.eval();
  std::int64_t right = 0;
  data::Batches batches = test.batches({.size = 256, .shuffle = false});
  for (const data::Batch& batch : batches)
    right += sum(argmax(net.forward(batch.x), {.dim = 1}) == batch.y).item<std::int64_t>();
  net.module.train(training);
  return static_cast<double>(right) / static_cast<double>(test.size());
}

TrainResult train(const TrainSettings& settings, const data::Split& digits) {
  reset_peak_memory(settings.device);
  return Trainer(settings, digits).run();
}

}  // namespace samples
