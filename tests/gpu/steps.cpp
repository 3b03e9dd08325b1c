// gpu_steps: times eager and captured training steps of a net, for comparison with torch_steps.py.
//   gpu_steps NET BATCH LEVEL...
//     mlp, lenet        28 x 28 images, Adam; sizes of the bench
//     char_gpt          6 blocks, 256 characters, AdamW; sizes of the bench
//     char_lstm         2 layers, 256 characters from a state of zeros, Adam; sizes of the bench
//     gpt2              124 million weights, 1024 tokens, AdamW
//     resnet50          224 x 224 images, channels-last, SGD
//   --small             a few channels and tokens, for an emulated device
//   --kernels FILE      append a table of the kernels of each way, recorded by CUPTI after its
//   steps
//                       were timed
// Options come first.
// The first line is a JSON object: device with the versions of driver and libraries, version and
// commit of Mezzo, date. Each other line is one: net, batch, level, way (eager or captured), the
// median step in ms and the last loss; or an error in their place. Each step is synchronised.
// Status: 0, 1 where something failed, 2 wrong usage, 77 no device.
#include <mezzo.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>

#include "../../measure/environment.h"
#include "../../samples/nets/char_gpt.h"
#include "../../samples/nets/char_lstm.h"
#include "../../samples/nets/lenet.h"
#include "../../samples/nets/mlp.h"
#include "kernel_table.h"

namespace {

using namespace mezzo;

struct Options {
  bool small = false;
  std::string kernels;  // the file; empty: none
  std::string net;
  std::int64_t batch = 0;
  std::vector<std::string> levels;
};

// Initial overflows of the loss scale delay the capture. O0 has none, and its steps take longest.
int warm_up_steps(const std::string& level) { return level == "O0" ? 4 : 16; }
/** Returns how many steps are timed: those of about a second. */
int timed_steps(double ms) { return static_cast<int>(std::clamp(1000 / ms, 6.0, 100.0)); }

/** The number of characters of the bench's text. */
constexpr std::int64_t kCharacters = 27;

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

/** Returns the training of a net on a batch; `loss` reads nothing on the host. */
template <class Optimizer, class Net, class OptimizerOptions>
std::unique_ptr<Training> training_of(const Net& net, const OptimizerOptions& options,
                                      const std::string& level,
                                      Tensor (*loss)(const Net&, const std::vector<Tensor>&),
                                      std::vector<Tensor> batch) {
  auto training =
      std::make_unique<TrainingOf<Net, Optimizer, OptimizerOptions>>(net, options, level, loss);
  training->batch = std::move(batch);
  return training;
}

std::vector<Tensor> digits(const Options& o, Device device) {
  return {rand({o.batch, 1, 28, 28}, {.device = device}),
          randint(0, 10, {o.batch}, {.dtype = i64, .device = device})};
}

template <class Net>
std::unique_ptr<Training> digit_training(const Net& net, const Options& o, const std::string& level,
                                         Device device) {
  net.to(device);
  return training_of<optim::Adam>(
      net, optim::AdamOptions{.lr = 1e-3}, level,
      +[](const Net& model, const std::vector<Tensor>& in) {
        return cross_entropy(model(in[0]), in[1]);
      },
      digits(o, device));
}

std::unique_ptr<Training> mlp(const Options& o, const std::string& level, Device device) {
  return digit_training(samples::Mlp(o.small ? 64 : 4096), o, level, device);
}

std::unique_ptr<Training> lenet(const Options& o, const std::string& level, Device device) {
  return digit_training(samples::LeNet(o.small ? 4 : 32), o, level, device);
}

std::unique_ptr<Training> char_lstm(const Options& o, const std::string& level, Device device) {
  using samples::CharLstm;
  const CharLstm net({.vocabulary = kCharacters, .width = o.small ? 16 : 512});
  net.to(device);
  const auto characters = [&] {
    return randint(0, kCharacters, {o.small ? 16 : 256, o.batch}, {.dtype = i64, .device = device});
  };
  return training_of<optim::Adam>(net, optim::AdamOptions{.lr = 2e-3}, level,
                                  +[](const CharLstm& model, const std::vector<Tensor>& in) {
                                    return cross_entropy(model(in[0]).logits.flatten(0, 1),
                                                         in[1].flatten());
                                  },
                                  {characters(), characters()});
}

std::unique_ptr<Training> transformer(const samples::CharGptOptions& sizes,
                                      const optim::AdamWOptions& options, const Options& o,
                                      const std::string& level, Device device) {
  using samples::CharGpt;
  const CharGpt net(sizes);
  net.to(device);
  const auto tokens = [&] {
    return randint(0, sizes.vocabulary, {o.batch, sizes.block}, {.dtype = i64, .device = device});
  };
  return training_of<optim::AdamW>(net, options, level,
                                   +[](const CharGpt& model, const std::vector<Tensor>& in) {
                                     return cross_entropy(model(in[0]).flatten(0, 1),
                                                          in[1].flatten());
                                   },
                                   {tokens(), tokens()});
}

std::unique_ptr<Training> char_gpt(const Options& o, const std::string& level, Device device) {
  return transformer({.vocabulary = kCharacters,
                      .block = o.small ? 16 : 256,
                      .layers = o.small ? 2 : 6,
                      .heads = o.small ? 2 : 6,
                      .width = o.small ? 16 : 384},
                     {.lr = 1e-3, .betas = {0.9, 0.99}, .weight_decay = 0.1}, o, level, device);
}

std::unique_ptr<Training> gpt2(const Options& o, const std::string& level, Device device) {
  return transformer({.vocabulary = o.small ? 64 : 50304,
                      .block = o.small ? 16 : 1024,
                      .layers = o.small ? 2 : 12,
                      .heads = o.small ? 2 : 12,
                      .width = o.small ? 32 : 768},
                     {.lr = 1e-4, .weight_decay = 0.1}, o, level, device);
}

std::unique_ptr<Training> resnet50(const Options& o, const std::string& level, Device device) {
  using nn::models::ResNet;
  const std::int64_t pixels = o.small ? 32 : 224, classes = o.small ? 10 : 1000;
  const ResNet net(
      {.depth = 50, .num_classes = classes, .width = o.small ? 4 : 64, .zero_init_residual = true});
  net.to(device).to(MemoryFormat::channels_last);
  const Tensor images = randn({o.batch, 3, pixels, pixels}, {.device = device});
  return training_of<optim::SGD>(
      net, optim::SgdOptions{.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4}, level,
      +[](const ResNet& model, const std::vector<Tensor>& in) {
        return cross_entropy(model(in[0]), in[1]);
      },
      {images.contiguous(MemoryFormat::channels_last),
       randint(0, classes, {o.batch}, {.dtype = i64, .device = device})});
}

struct NetEntry {
  std::string_view name;
  std::unique_ptr<Training> (*make)(const Options& o, const std::string& level, Device device);
};
constexpr NetEntry kNets[] = {{"mlp", mlp},           {"lenet", lenet},
                              {"char_gpt", char_gpt}, {"char_lstm", char_lstm},
                              {"gpt2", gpt2},         {"resnet50", resnet50}};

const NetEntry* find_net(std::string_view name) {
  for (const NetEntry& entry : kNets)
    if (entry.name == name) return &entry;
  return nullptr;
}

/** Returns the median step time in milliseconds. */
double median_step(const std::function<Tensor()>& step, int warm_up, Device device, double& loss) {
  Tensor last;
  const auto timed = [&] {
    const auto start = std::chrono::steady_clock::now();
    last = step();
    gpu::synchronize(device);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  };
  double ms = 0;
  for (int i = 0; i < warm_up; ++i) ms = timed();
  std::vector<double> times(static_cast<std::size_t>(timed_steps(ms)));
  for (double& time : times) time = timed();
  loss = last.item<double>();
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
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

/** Appends the table of a few steps to the file. */
void record_kernels(const std::string& file, const std::string& title,
                    const std::function<Tensor()>& step, Device device) {
  constexpr int kSteps = 3;
  gpu::synchronize(device);
  KernelTrace trace;
  for (int i = 0; i < kSteps; ++i) step();
  gpu::synchronize(device);
  std::ofstream out(file, std::ios::app);
  out << trace.finish().text(title, kSteps);
  if (!out.flush()) throw IoError(file + ": cannot be written");
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
    const auto training = find_net(o.net)->make(o, level, device);
    gpu::CapturedStep step(
        [&](const std::vector<Tensor>& in) { return std::vector{training->step(in)}; },
        {.device = device});
    double loss = 0;
    const auto run = [&] {
      return captured ? step(training->batch)[0] : training->step(training->batch);
    };
    const double ms = median_step(run, warm_up_steps(level), device, loss);
    if (captured && step.captures() == 0) throw StateError("the step was not captured");
    if (!o.kernels.empty())
      record_kernels(o.kernels,
                     str(o.net, " ", o.batch, " ", level, captured ? " captured" : " eager"), run,
                     device);
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
  for (bool more = true; more && !words.empty();) {
    more = words[0] == "--small" || (words[0] == "--kernels" && words.size() > 1);
    if (!more) break;
    if (words[0] == "--small") {
      o.small = true;
    } else {
      o.kernels = words[1];
      words.erase(words.begin());
    }
    words.erase(words.begin());
  }
  if (words.size() >= 3) {
    o.net = words[0];
    o.batch = std::atoll(words[1].c_str());
    o.levels.assign(words.begin() + 2, words.end());
  }
  if (!find_net(o.net) || o.batch < 1) {
    std::string names;
    for (const NetEntry& entry : kNets) names += str(names.empty() ? "" : "|", entry.name);
    std::cerr << "gpu_steps: expected [--small] [--kernels FILE] " << names << " BATCH LEVEL...\n";
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
  set_verify_libraries(false);  // of GPT-2 in f32, its first step would take minutes
  const Environment e = environment(device);
  std::cout << "{\"side\": \"mezzo\", \"device\": " << quoted(e.hardware)
            << ", \"version\": " << quoted(e.version) << ", \"commit\": " << quoted(e.commit)
            << ", \"date\": " << quoted(e.date) << "}" << std::endl;
  bool all_worked = true;
  for (const std::string& level : o.levels)
    for (const bool captured : {false, true})
      all_worked = report(o, level, captured, device) && all_worked;
  return all_worked ? 0 : 1;
}
