// resnet: trains a residual net to classify images, CIFAR-10 or digits.
//   resnet --data cifar-10-batches-bin --opt-level O2
//   resnet --mnist DIR --width 16
//   resnet --channels-last --opt-level O2
#include <mezzo.h>

#include <iostream>

#include "common/arguments.h"
#include "common/digits.h"
#include "common/program.h"
#include "common/run.h"
#include "common/table.h"

namespace {

using namespace mezzo;
using namespace samples;

struct Options {
  RunOptions run;
  std::string data, mnist, depth = "18", stem = "small";
  std::int64_t width = 64, train = 8000, test = 2000, epochs = 5, batch = 128;
  double lr = 0.1;
  bool plain = false, channels_last = false;
};

void declare(Arguments& arguments, Options& o) {
  arguments.choice("depth", o.depth, {"18", "50"}, "which ResNet");
  arguments.choice("stem", o.stem, {"small", "large"},
                   "first layers for small images (CIFAR) or large images (ImageNet)");
  arguments.option("width", o.width, 1, 4096, "channels of the first stage");
  arguments.option("data", o.data, "folder with CIFAR-10's binary files; without it digits");
  arguments.option("mnist", o.mnist,
                   "folder with MNIST's IDX files; without it digits are generated");
  arguments.option("train", o.train, 1, 1000000, "number of generated digits to train on");
  arguments.option("test", o.test, 1, 1000000, "number of generated digits to test on");
  arguments.option("epochs", o.epochs, 0, 100000, "passes over the training data");
  arguments.option("batch", o.batch, 1, 1000000, "images per step");
  arguments.option("lr", o.lr, "initial learning rate of SGD, with cosine decay");
  arguments.flag("plain", o.plain, "train without data augmentation");
  arguments.flag("channels-last", o.channels_last,
                 "use the channels-last format, in which convolutions are faster");
  declare(arguments, o.run);
}

/** Returns the images, each time moved by a few pixels and, except digits, flipped at random. */
data::TransformedDataset augmented(const data::Dataset& images, bool digits) {
  const std::int64_t side = images.x().size(2);
  if (digits) return {images, data::RandomCrop{side, 2}};
  return {images, data::Compose({data::RandomCrop{side, 4}, data::RandomHorizontalFlip{}})};
}

int train(const Options& o) {
  const comm::World world = comm::init();
  const Device device = prepare(o.run);
  const auto seed = static_cast<std::uint64_t>(o.run.seed);
  const bool digits = o.data.empty();
  const data::Split images =
      digits ? load_digits(o.mnist, o.train, o.test, seed) : data::cifar10(o.data);

  nn::models::ResNet net({.depth = o.depth == "50" ? 50 : 18,
                          .num_classes = 10,
                          .in_channels = images.train.x().size(1),
                          .width = o.width,
                          .small_images = o.stem == "small",
                          .zero_init_residual = true});
  const MemoryFormat format =
      o.channels_last ? MemoryFormat::channels_last : MemoryFormat::contiguous;
  net.to(device).to(format);
  // Several processes compute the statistics of batch norm over the batches of all.
  nn::convert_sync_batch_norm(net);
  optim::SGD optimizer(net.parameters(),
                       {.lr = o.lr, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
  auto session = amp::initialize(net, optimizer, {.opt_level = o.run.level, .verbosity = 0});
  // Several processes started by mpirun each take their share of the data and average gradients.
  const nn::DistributedDataParallel parallel(net);
  const data::BatchOptions batching{
      .size = o.batch, .seed = seed, .drop_last = true, .shard = world.shard()};
  data::Batches batches = o.plain ? images.train.batches(batching)
                                  : data::Batches(augmented(images.train, digits), batching);
  // Construct the schedule after initialize(). It counts steps instead of epochs here, so that the
  // learning rate decays smoothly.
  const std::int64_t total = o.epochs * batches.size();
  optim::Scheduler schedule(optimizer,
                            optim::CosineAnnealingLR{.t_max = std::max<std::int64_t>(1, total)});

  const std::string title = "resnet" + o.depth;
  Run run(title, o.run,
          {.model = net,
           .optimizer = optimizer,
           .session = session,
           .schedule = schedule,
           .loader = batches},
          {.total_steps = total, .samples = o.batch});
  if (!o.run.quiet && world.is_main()) std::cerr << images.train.notice() << "\n";
  while (!run.finished()) {
    const std::int64_t epoch = batches.epoch() + 1;
    for (const Batch& batch : batches) {
      const Tensor x = batch.x.to(device).to(format);
      const Tensor loss = cross_entropy(parallel(x), batch.y.to(device));
      optimizer.zero_grad();
      amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
      const optim::StepResult result = optimizer.step();
      schedule.step();
      if (!run.step_done(loss.item<double>(), result)) break;
    }
    run.save();
    const double right = accuracy(net, images.test);
    run.log("test accuracy", right);
    run.line("epoch " + std::to_string(epoch) + "  " + run.status() + "  test accuracy " +
             fixed(100 * right, 2) + " %");
  }

  const double share_right = accuracy(net, images.test);
  run.note("accuracy", share_right);
  const RunFigures figures = run.finish();
  if (!world.is_main()) return run.exit_status();
  std::cout << title << " " << o.run.level << ": " << fixed(figures.step_ms, 2)
            << " ms per step, peak memory " << bytes_text(static_cast<double>(figures.peak_bytes))
            << "\n"
            << title << " " << o.run.level << ": test accuracy " << fixed(100 * share_right, 2)
            << " %, loss " << fixed(figures.recent_loss, 6) << ", " << figures.steps << " steps, "
            << figures.skipped_steps << " skipped, loss scale " << fixed(figures.loss_scale, 0)
            << "\n";
  return run.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Arguments arguments("resnet", "Trains a residual net to classify images.");
  declare(arguments, options);
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return run_program("resnet", [&] { return train(options); });
}
