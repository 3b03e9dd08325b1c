// gpu_steps: times eager and captured training steps of a large net, for comparison with
// torch_steps.py.
//   gpu_steps resnet50 BATCH LEVEL...     224 x 224 images, channels-last, SGD
//   gpu_steps gpt2 BATCH LEVEL...         124 million weights, 1024 tokens, AdamW
//   --small first                         a few channels and tokens, for an emulated device
// Each line is a JSON object: net, batch, level, way (eager or captured), the median step in ms and
// the last loss; or an error in their place. Each step is synchronised. Status: 0, 1 where
// something failed, 2 wrong usage, 77 no device.
#include <mezzo.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "../../samples/nets/char_gpt.h"

namespace {

using namespace mezzo;

struct Options {
  bool small = false;
  std::string net;
  std::int64_t batch = 0;
  std::vector<std::string> levels;
};

constexpr int kWarmUp = 16;  // initial overflows of the loss scale delay the capture
constexpr int kTimed = 20;

/** A net in training. */
class Training {
 public:
  virtual ~Training() = default;
  /** Runs a step and returns its loss. The host reads nothing. */
  virtual Tensor step(const std::vector<Tensor>& batch) = 0;
  std::vector<Tensor> batch;
};

template <class Net, class Optimizer, class OptimizerOptions>
class TrainingOf final : public Training {
 public:
  using Loss = Tensor (*)(const Net& net, const std::vector<Tensor>& batch);

  TrainingOf(const Net& net, const OptimizerOptions& options, const std::string& level, Loss loss)
      : net_(net),
        optimizer_(net_.parameters(), options),
        session_(amp::initialize(net_, optimizer_, {.opt_level = level, .verbosity = 0})),
        loss_(loss) {}

  Tensor step(const std::vector<Tensor>& in) override {
    optimizer_.zero_grad();
    const Tensor loss = loss_(net_, in);
    amp::scale_loss(loss, optimizer_, [](const Tensor& scaled) { scaled.backward(); });
    optimizer_.step();
    return loss;
  }

 private:
  Net net_;
  Optimizer optimizer_;
  amp::Session session_;
  Loss loss_;
};

std::unique_ptr<Training> resnet50(const Options& o, const std::string& level, Device device) {
  using nn::models::ResNet;
  const std::int64_t pixels = o.small ? 32 : 224, classes = o.small ? 10 : 1000;
  const ResNet net(
      {.depth = 50, .num_classes = classes, .width = o.small ? 4 : 64, .zero_init_residual = true});
  net.to(device).to(MemoryFormat::channels_last);
  const optim::SgdOptions options{.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4};
  auto training = std::make_unique<TrainingOf<ResNet, optim::SGD, optim::SgdOptions>>(
      net, options, level, [](const ResNet& model, const std::vector<Tensor>& in) {
        return cross_entropy(model(in[0]), in[1]);
      });
  const Tensor images = randn({o.batch, 3, pixels, pixels}, {.device = device});
  training->batch = {images.contiguous(MemoryFormat::channels_last),
                     randint(0, classes, {o.batch}, {.dtype = i64, .device = device})};
  return training;
}

std::unique_ptr<Training> gpt2(const Options& o, const std::string& level, Device device) {
  using samples::CharGpt;
  const std::int64_t length = o.small ? 16 : 1024, vocabulary = o.small ? 64 : 50304;
  const CharGpt net({.vocabulary = vocabulary,
                     .block = length,
                     .layers = o.small ? 2 : 12,
                     .heads = o.small ? 2 : 12,
                     .width = o.small ? 32 : 768});
  net.to(device);
  const optim::AdamWOptions options{.lr = 1e-4, .weight_decay = 0.1};
  auto training = std::make_unique<TrainingOf<CharGpt, optim::AdamW, optim::AdamWOptions>>(
      net, options, level, [](const CharGpt& model, const std::vector<Tensor>& in) {
        return cross_entropy(model(in[0]).flatten(0, 1), in[1].flatten());
      });
  const auto tokens = [&] {
    return randint(0, vocabulary, {o.batch, length}, {.dtype = i64, .device = device});
  };
  training->batch = {tokens(), tokens()};
  return training;
}

/** Returns the median step time in milliseconds. */
double median_step(const std::function<Tensor()>& step, Device device, double& loss) {
  Tensor last;
  const auto timed = [&] {
    const auto start = std::chrono::steady_clock::now();
    last = step();
    gpu::synchronize(device);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  };
  for (int i = 0; i < kWarmUp; ++i) timed();
  std::vector<double> times;
  for (int i = 0; i < kTimed; ++i) times.push_back(timed());
  loss = last.item<double>();
  std::nth_element(times.begin(), times.begin() + kTimed / 2, times.end());
  return times[kTimed / 2];
}

/** Returns a line of text as a JSON string. */
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + "\"";
}

/** Prints one line of the output. Returns whether the steps succeeded. */
bool report(const Options& o, const std::string& level, bool captured, Device device) {
  const std::string what =
      str("{\"side\": \"mezzo\", \"net\": ", quoted(o.net), ", \"batch\": ", o.batch,
          ", \"level\": ", quoted(level), ", \"way\": ", captured ? "\"captured\"" : "\"eager\"");
  std::string figures;
  bool worked = true;
  try {
    empty_cache(device);
    manual_seed(1);
    const auto training = o.net == "gpt2" ? gpt2(o, level, device) : resnet50(o, level, device);
    gpu::CapturedStep step(
        [&](const std::vector<Tensor>& in) { return std::vector{training->step(in)}; },
        {.device = device});
    double loss = 0;
    const double ms = median_step(
        [&] { return captured ? step(training->batch)[0] : training->step(training->batch); },
        device, loss);
    if (captured && step.captures() == 0) throw StateError("the step was not captured");
    char text[128];
    std::snprintf(text, sizeof text, ", \"step_ms\": %.3f, \"samples_per_s\": %.1f, \"loss\": %.4f",
                  ms, 1e3 * static_cast<double>(o.batch) / ms, loss);
    figures = text;
  } catch (const std::exception& e) {
    figures = ", \"error\": " + quoted(e.what());
    worked = false;
  }
  std::cout << what << figures << "}" << std::endl;
  return worked;
}

Options parsed(int argc, char** argv) {
  Options o;
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "--small") {
    o.small = true;
    words.erase(words.begin());
  }
  if (words.size() >= 3) {
    o.net = words[0];
    o.batch = std::atoll(words[1].c_str());
    o.levels.assign(words.begin() + 2, words.end());
  }
  if ((o.net != "resnet50" && o.net != "gpt2") || o.batch < 1) {
    std::cerr << "gpu_steps: expected [--small] resnet50|gpt2 BATCH LEVEL...\n";
    std::exit(2);
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parsed(argc, argv);
  Device device = cpu;
  try {
    device = Device::parse("cuda");
  } catch (const std::exception& e) {
    std::cout << "gpu_steps: skipped, " << e.what() << "\n";
    return 77;
  }
  bool all_worked = true;
  for (const std::string& level : o.levels)
    for (const bool captured : {false, true})
      all_worked = report(o, level, captured, device) && all_worked;
  return all_worked ? 0 : 1;
}
