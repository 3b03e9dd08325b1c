// char_lstm: trains an LSTM to predict the next character of a text, then generates text.
//   char_lstm --data FILE --opt-level O1
#include <mezzo.h>

#include <iostream>

#include "common/arguments.h"
#include "common/program.h"
#include "common/run.h"
#include "common/table.h"
#include "common/text.h"
#include "common/text_result.h"
#include "nets/char_lstm.h"

namespace {

using namespace mezzo;
using namespace samples;

struct Options {
  RunOptions run{.steps = 2000};
  std::string data, prompt = "\n";
  std::int64_t width = 512, layers = 2, batch = 16, stretch = 64, length = 400;
  double lr = 2e-3, dropout = 0, temperature = 0.8, clip = 1;
};

void declare(Arguments& arguments, Options& o) {
  arguments.option("data", o.data, "text file; without it a text is generated");
  arguments.option("width", o.width, 1, 100000, "hidden size of each layer");
  arguments.option("layers", o.layers, 1, 100, "LSTM layers");
  arguments.option("batch", o.batch, 1, 100000, "parts of the text that are read in parallel");
  arguments.option("stretch", o.stretch, 1, 100000,
                   "characters in a step; gradients do not go back further");
  arguments.option("lr", o.lr, "initial learning rate of Adam, with cosine decay");
  arguments.option("dropout", o.dropout, 0, 0.99, "dropout probability between layers");
  arguments.option("clip", o.clip, "maximum norm of a step's gradients");
  arguments.option("prompt", o.prompt, "start of the generated text");
  arguments.option("length", o.length, 0, 1000000, "characters to generate after training");
  arguments.option("temperature", o.temperature, 0, 100,
                   "sampling temperature; 0 selects the most likely character");
  declare(arguments, o.run);
}

/** The LSTM state between two steps. It is a module so that checkpoints contain it, because the
 *  next step depends on it. */
struct Memory : nn::Model<Memory> {
  explicit Memory(const Shape& shape)
      : h(add_buffer("h", zeros(shape))), c(add_buffer("c", zeros(shape))) {}
  Tensor h, c;

  /** Stores the values of the state without the graph (truncated backpropagation through time). */
  void keep(const LstmState& state) const {
    h.copy_(state.h.detach());
    c.copy_(state.c.detach());
  }
};

/** Returns the text split into `count` columns that are read in parallel: [n / count, count]. */
Tensor columns(const Tensor& text, std::int64_t count) {
  const std::int64_t rows = text.numel() / count;
  return text.narrow(0, 0, rows * count).view({count, rows}).t().contiguous();
}

Tensor loss_of(const Tensor& logits, const Tensor& next) {
  return cross_entropy(logits.flatten(0, 1), next.flatten());
}

/** Returns the mean loss over a text in evaluation mode, with the state carried along. */
double validation_loss(const CharLstm& net, const Tensor& text, std::int64_t stretch) {
  const NoGrad no_grad;
  net.eval();
  const Tensor read = columns(text, std::min<std::int64_t>(16, text.numel() / (2 * stretch) + 1));
  LstmState state;
  double total = 0;
  std::int64_t count = 0;
  for (std::int64_t row = 0; row + stretch < read.size(0); row += stretch, ++count) {
    const CharLstmResult result = net(read.narrow(0, row, stretch), state);
    total += loss_of(result.logits, read.narrow(0, row + 1, stretch)).item<double>();
    state = result.state;
  }
  net.train();
  return total / static_cast<double>(count);
}

/** Returns `prompt` followed by `count` generated characters. */
std::vector<std::int64_t> write(const CharLstm& net, const Tensor& prompt, std::int64_t count,
                                double temperature) {
  const NoGrad no_grad;
  net.eval();
  const Device device = net.head.weight().device();
  std::vector<std::int64_t> written = prompt.to_vector<std::int64_t>();
  CharLstmResult result = net(prompt.unsqueeze(1).to(device));
  for (std::int64_t i = 0; i < count; ++i) {
    written.push_back(draw_character(result.logits[-1][0].to(cpu), temperature));
    result =
        net(full({1, 1}, static_cast<double>(written.back()), {.dtype = i64, .device = device}),
            result.state);
  }
  return written;
}

int train(const Options& o) {
  if (o.prompt.empty()) throw UsageError("--prompt is empty; expected at least one character");
  const comm::World world = comm::init();
  if (world.size() > 1 && !(o.run.save.empty() && o.run.resume.empty()))
    throw UsageError("--save and --resume need one process: each has a state of its own");
  const Device device = prepare(o.run);
  const Text text = Text::load(o.data);
  text.require(o.stretch + 2);
  // Several processes started by mpirun each read their own columns and average gradients.
  const Tensor read = columns(text.train(), o.batch * world.size())
                          .narrow(1, o.batch * world.rank(), o.batch)
                          .contiguous()
                          .to(device);
  const std::int64_t stretches = (read.size(0) - 1) / o.stretch;  // in one pass over the text
  if (stretches == 0)
    throw UsageError(str("--batch ", o.batch, " and --stretch ", o.stretch,
                         " need a longer text: it has ", text.train().numel(),
                         " characters to train on"));
  const Tensor prompt = text.encode(o.prompt);  // throws for characters that the text lacks

  CharLstm net({.vocabulary = text.vocabulary(),
                .width = o.width,
                .layers = o.layers,
                .dropout = o.dropout});
  Memory memory({o.layers, o.batch, o.width});
  net.to(device);
  memory.to(device);
  optim::Adam optimizer(net.parameters(), {.lr = o.lr});
  auto session = amp::initialize(net, optimizer, {.opt_level = o.run.level, .verbosity = 0});
  const nn::DistributedDataParallel parallel(net);
  optim::Scheduler schedule(
      optimizer, optim::CosineAnnealingLR{.t_max = std::max<std::int64_t>(1, o.run.steps),
                                          .eta_min = o.lr / 20});
  Run run("char_lstm", o.run,
          {.model = {{"net", net}, {"memory", memory}},
           .optimizer = optimizer,
           .session = session,
           .schedule = schedule},
          {.total_steps = o.run.steps, .samples = o.batch});
  if (!o.run.quiet && world.is_main())
    std::cerr << text.notice() << "; " << net.num_parameters() << " weights, " << text.vocabulary()
              << " different characters\n";

  while (!run.finished()) {
    const std::int64_t row = run.step() % stretches * o.stretch;
    // Reset the state at the start of the text.
    if (row == 0) memory.keep({zeros_like(memory.h), zeros_like(memory.c)});
    // Pass copies of the state, because writing the new state must not modify saved tensors.
    const CharLstmResult result =
        parallel(read.narrow(0, row, o.stretch), LstmState{memory.h.clone(), memory.c.clone()});
    const Tensor loss = loss_of(result.logits, read.narrow(0, row + 1, o.stretch));
    optimizer.zero_grad();
    amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
    const optim::StepResult verdict = optimizer.step({.max_norm = o.clip});
    schedule.step();
    memory.keep(result.state);
    run.step_done(loss.item<double>(), verdict);
    if (run.step() % 500 == 0 && world.is_main()) {
      const double validation = validation_loss(net, text.test().to(device), o.stretch);
      run.log("validation loss", validation);
      run.line("step " + std::to_string(run.step()) + "  " + run.status() + "  validation " +
               fixed(validation, 4));
    }
  }

  const double nats = world.is_main() ? validation_loss(net, text.test().to(device), o.stretch) : 0;
  note_nats(run, nats);
  const RunFigures figures = run.finish();
  if (!world.is_main()) return run.exit_status();
  std::cout << text.decode(write(net, prompt, o.length, o.temperature)) << "\n"
            << text_result("char_lstm", o.run.level, figures, nats);
  return run.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Arguments arguments("char_lstm",
                      "Trains an LSTM to predict the next character, then generates text.");
  declare(arguments, options);
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return run_program("char_lstm", [&] { return train(options); });
}
