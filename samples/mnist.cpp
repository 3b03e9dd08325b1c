// mnist: trains a net on digits at one level of mixed precision. It is the simplest sample with
// options; resnet.cpp shows several processes.
//   mnist --net lenet --opt-level O2 --data DIR
#include <mezzo.h>

#include <iostream>

#include "common/arguments.h"
#include "common/digits.h"
#include "common/program.h"
#include "common/run.h"
#include "common/table.h"
#include "nets/lenet.h"
#include "nets/mlp.h"

namespace {

using namespace mezzo;
using namespace samples;

struct Options {
  RunOptions run;
  std::string net = "lenet", data;
  std::int64_t train = 8000, test = 2000, epochs = 2, batch = 64;
  double lr = 1e-3;
};

void declare(Arguments& arguments, Options& o) {
  arguments.choice("net", o.net, {"mlp", "lenet"}, "which net");
  arguments.option("data", o.data,
                   "folder with MNIST's IDX files (.gz or not); without it digits are generated");
  arguments.option("train", o.train, 1, 1000000, "number of generated digits to train on");
  arguments.option("test", o.test, 1, 1000000, "number of generated digits to test on");
  arguments.option("epochs", o.epochs, 0, 100000, "passes over the training data");
  arguments.option("batch", o.batch, 1, 1000000, "images per step");
  arguments.option("lr", o.lr, "learning rate of Adam");
  declare(arguments, o.run);
}

/** Prints time and memory, then the results of the training. The last line is the same for all runs
 *  with these settings, resumed or not. */
void print_result(const Options& o, const RunFigures& r, double share_right) {
  const std::string title = o.net + " " + o.run.level;
  std::cout << title << ": " << fixed(r.step_ms, 2) << " ms per step, peak memory "
            << bytes_text(static_cast<double>(r.peak_bytes)) << "\n"
            << title << ": test accuracy " << fixed(100 * share_right, 2) << " %, loss "
            << fixed(r.recent_loss, 6) << ", " << r.steps << " steps, " << r.skipped_steps
            << " skipped, loss scale " << fixed(r.loss_scale, 0) << "\n";
}

template <class Net> int train(const Options& o, const data::Split& digits, const Device device) {
  Net net;
  net.to(device);
  // Construct the optimizer from the f32 net. initialize() converts both to the level.
  optim::Adam optimizer(net.parameters(), {.lr = o.lr});
  auto session = amp::initialize(net, optimizer, {.opt_level = o.run.level, .verbosity = 0});
  data::Batches batches = digits.train.batches(
      {.size = o.batch, .seed = static_cast<std::uint64_t>(o.run.seed), .device = device});

  // Everything that the next step depends on is listed here, so that a run can be saved and resumed
  // bitwise.
  Run run(o.net, o.run,
          {.model = net, .optimizer = optimizer, .session = session, .loader = batches},
          {.total_steps = o.epochs * batches.size(), .samples = o.batch});
  if (!o.run.quiet) std::cerr << digits.train.notice() << "\n";
  while (!run.finished()) {
    const std::int64_t epoch = batches.epoch() + 1;
    for (const Batch& batch : batches) {
      const Tensor loss = cross_entropy(net(batch.x), batch.y);
      optimizer.zero_grad();
      // The loss scale prevents underflow of small gradients in f16. At the end of the call, the
      // gradients are unscaled and checked for overflow.
      amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
      // After an overflow, step() changes nothing and returns `skipped`; the scale was halved.
      if (!run.step_done(loss.item<double>(), optimizer.step())) break;
    }
    run.save();
    const double right = accuracy(net, digits.test);
    run.log("test accuracy", right);
    run.line("epoch " + std::to_string(epoch) + "  " + run.status() + "  test accuracy " +
             fixed(100 * right, 2) + " %");
  }
  const double share_right = accuracy(net, digits.test);
  run.note("accuracy", share_right);
  print_result(o, run.finish(), share_right);
  return run.exit_status();
}

int load_and_train(const Options& o) {
  if (comm::init().size() > 1)
    throw UsageError("got several processes, expected one; resnet trains in several");
  const Device device = prepare(o.run);
  const data::Split digits =
      load_digits(o.data, o.train, o.test, static_cast<std::uint64_t>(o.run.seed));
  if (o.batch > digits.train.size())
    throw UsageError(
        str("--batch ", o.batch, " is larger than the data: ", digits.train.size(), " digits"));
  return o.net == "mlp" ? train<Mlp>(o, digits, device) : train<LeNet>(o, digits, device);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Arguments arguments("mnist", "Trains a net on digits at one level of mixed precision.");
  declare(arguments, options);
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return run_program("mnist", [&] { return load_and_train(options); });
}
