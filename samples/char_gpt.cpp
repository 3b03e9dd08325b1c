// char_gpt: trains a transformer to predict the next character of a text, then generates text.
//   char_gpt --data FILE --opt-level O2
#include <mezzo.h>

#include <iostream>
#include <map>

#include "common/arguments.h"
#include "common/program.h"
#include "common/run.h"
#include "common/table.h"
#include "common/text.h"
#include "common/text_result.h"
#include "nets/char_gpt.h"

namespace {

using namespace mezzo;
using namespace samples;

/** A size of net, with its batch size and learning rate. */
struct Config {
  CharGptOptions net;
  std::int64_t batch;
  double lr;
};

const std::map<std::string, Config> kConfigs{
    {"tiny", {{.block = 32, .layers = 2, .heads = 2, .width = 32}, 8, 3e-3}},
    {"small", {{.block = 64, .layers = 4, .heads = 4, .width = 128}, 12, 2e-3}},
    {"base", {{.block = 256, .layers = 6, .heads = 6, .width = 384}, 16, 1e-3}},
    {"gpt2", {{.block = 1024, .layers = 12, .heads = 12, .width = 768}, 8, 6e-4}},
};

struct Options {
  RunOptions run{.steps = 2000};
  std::string config = "small", data, prompt = "\n";
  std::int64_t batch = 0, accumulate = 1, length = 400;
  double lr = 0, dropout = 0, temperature = 0.8, clip = 1;
};

void declare(Arguments& arguments, Options& o) {
  std::vector<std::string> names;
  for (const auto& [name, config] : kConfigs) names.push_back(name);
  arguments.choice(
      "config", o.config, names,
      "size of the net; base takes hours on a CPU, gpt2 has 124 million weights with a "
      "large vocabulary");
  arguments.option("data", o.data, "text file; without it a text is generated");
  arguments.option("batch", o.batch, 0, 100000,
                   "stretches of text in a batch; 0 means the default of the size");
  arguments.option("accumulate", o.accumulate, 1, 10000,
                   "batches whose gradients are accumulated for a step");
  arguments.option("lr", o.lr, "maximum learning rate of AdamW; default depends on the size");
  arguments.option("dropout", o.dropout, 0, 0.99, "dropout probability");
  arguments.option("clip", o.clip, "maximum norm of a step's gradients");
  arguments.option("prompt", o.prompt, "start of the generated text");
  arguments.option("length", o.length, 0, 1000000, "characters to generate after training");
  arguments.option("temperature", o.temperature, 0, 100,
                   "sampling temperature; 0 selects the most likely character");
  declare(arguments, o.run);
}

/** Returns the parameter groups: weight decay applies to matrices only, not to biases and norms. */
std::vector<optim::ParamGroup<optim::AdamWOptions>> groups(const CharGpt& net, double lr) {
  std::vector<optim::ParamGroup<optim::AdamWOptions>> both{
      {{}, {.lr = lr, .betas = {0.9, 0.99}, .weight_decay = 0.1}},
      {{}, {.lr = lr, .betas = {0.9, 0.99}, .weight_decay = 0}}};
  for (const Tensor& p : net.parameters()) both[p.dim() >= 2 ? 0 : 1].params.push_back(p);
  return both;
}

/** Returns the cross entropy of the next character in nats, averaged over the batch. */
Tensor loss_of(const CharGpt& net, const Batch& batch) {
  return cross_entropy(net(batch.x).flatten(0, 1), batch.y.flatten());
}

/** Returns the mean loss over a text in evaluation mode, in stretches of one block. */
double validation_loss(const CharGpt& net, const Tensor& text) {
  const NoGrad no_grad;
  net.eval();
  const std::int64_t block = net.options.block, stretches = (text.numel() - 1) / block;
  const Tensor x = text.narrow(0, 0, stretches * block).view({stretches, block});
  const Tensor y = text.narrow(0, 1, stretches * block).view({stretches, block});
  double total = 0;
  for (std::int64_t i = 0; i < stretches; i += 64) {
    const std::int64_t count = std::min<std::int64_t>(64, stretches - i);
    total += static_cast<double>(count) *
             loss_of(net, {x.narrow(0, i, count), y.narrow(0, i, count)}).item<double>();
  }
  net.train();
  return total / static_cast<double>(stretches);
}

int train(const Options& o) {
  if (o.prompt.empty()) throw UsageError("--prompt is empty; expected at least one character");
  const comm::World world = comm::init();
  const Device device = prepare(o.run);
  const Text text = Text::load(o.data);
  Config config = kConfigs.at(o.config);
  if (o.batch > 0) config.batch = o.batch;
  if (o.lr > 0) config.lr = o.lr;
  config.net.vocabulary = text.vocabulary();
  config.net.dropout = o.dropout;
  text.require(config.net.block + 1);
  const Tensor prompt = text.encode(o.prompt);  // throws for characters that the text lacks
  const Tensor train_text = text.train().to(device), test_text = text.test().to(device);

  CharGpt net(config.net);
  net.to(device);
  optim::AdamW optimizer(groups(net, config.lr));
  auto session = amp::initialize(net, optimizer, {.opt_level = o.run.level, .verbosity = 0});
  // Several processes started by mpirun each draw their own stretches and average gradients.
  const nn::DistributedDataParallel parallel(net);
  // The learning rate rises linearly over a tenth of the steps, at most 100, then decays along half
  // a cosine to a tenth of its maximum.
  const std::int64_t warm_up = std::min<std::int64_t>(100, o.run.steps / 10 + 1);
  optim::Scheduler schedule(
      optimizer, optim::LinearWarmup{.steps = warm_up,
                                     .then = optim::CosineAnnealingLR{
                                         .t_max = std::max<std::int64_t>(1, o.run.steps - warm_up),
                                         .eta_min = config.lr / 10}});
  Run run("char_gpt", o.run,
          {.model = net, .optimizer = optimizer, .session = session, .schedule = schedule},
          {.total_steps = o.run.steps, .samples = config.batch * o.accumulate});
  if (!o.run.quiet && world.is_main())
    std::cerr << text.notice() << "; " << net.num_parameters() << " weights, " << text.vocabulary()
              << " different characters\n";

  double mean_loss = 0;
  const auto accumulate = [&](bool is_last) {
    const Tensor loss = loss_of(net, random_stretches(train_text, config.batch, config.net.block)) /
                        static_cast<double>(o.accumulate);
    mean_loss += loss.item<double>();
    // Scaled gradients accumulate. The scope of the last batch unscales and checks them once.
    amp::scale_loss(loss, optimizer, {.delay_unscale = !is_last},
                    [](const Tensor& scaled) { scaled.backward(); });
  };
  while (!run.finished()) {
    optimizer.zero_grad();
    mean_loss = 0;
    if (o.accumulate > 1) {
      const auto local = parallel.no_sync();  // processes exchange the sum, not each gradient
      for (std::int64_t i = 1; i < o.accumulate; ++i) accumulate(false);
    }
    accumulate(true);
    const optim::StepResult result = optimizer.step({.max_norm = o.clip});
    schedule.step();
    run.step_done(mean_loss, result);
    if (run.step() % 500 == 0 && world.is_main()) {
      const double validation = validation_loss(net, test_text);
      run.log("validation loss", validation);
      run.line("step " + std::to_string(run.step()) + "  " + run.status() + "  validation " +
               fixed(validation, 4));
    }
  }

  const double nats = world.is_main() ? validation_loss(net, test_text) : 0;
  note_nats(run, nats);
  const RunFigures figures = run.finish();
  if (!world.is_main()) return run.exit_status();
  std::cout << text.decode(write(net, prompt, o.length, o.temperature)) << "\n"
            << text_result("char_gpt", o.run.level, figures, nats);
  return run.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Arguments arguments("char_gpt",
                      "Trains a transformer to predict the next character, then generates text.");
  declare(arguments, options);
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return run_program("char_gpt", [&] { return train(options); });
}
