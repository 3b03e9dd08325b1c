// finetune: trains a ResNet that has learned one task to tell other images apart.
//   finetune --weights resnet18.safetensors --data FOLDER --opt-level O2
//   finetune            (first trains a small net on the digits 0 to 4, then fine-tunes it for 5 to
//   9)
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
using nn::models::ResNet;

struct Options {
  RunOptions run;
  std::string weights, data, depth = "18";
  std::int64_t freeze = 1, train = 1000, test = 1000, epochs = 3, batch = 32, workers = 2;
  double body_lr = 0.01, head_lr = 0.05, decay = 0.99;
};

void declare(Arguments& arguments, Options& o) {
  arguments.option("weights", o.weights,
                   "safetensors file of a ResNet with torchvision's names; needs --data");
  arguments.option("data", o.data, "folder with train/CLASS/IMAGE and val/CLASS/IMAGE");
  arguments.choice("depth", o.depth, {"18", "34", "50", "101", "152"}, "which ResNet");
  arguments.option("freeze", o.freeze, 0, 5,
                   "parts that stay as they are: the first layers, then up to four stages");
  arguments.option("body-lr", o.body_lr, "learning rate of the layers that were trained before");
  arguments.option("head-lr", o.head_lr, "learning rate of the new last layer");
  arguments.option("ema-decay", o.decay, 0, 1, "decay of the moving average of the weights");
  arguments.option("epochs", o.epochs, 0, 100000, "passes over the training images");
  arguments.option("batch", o.batch, 1, 1000000, "images per step");
  arguments.option("workers", o.workers, 1, 256, "threads that read images");
  arguments.option("train", o.train, 1, 1000000, "without --data: number of digits to train on");
  arguments.option("test", o.test, 1, 1000000, "without --data: number of digits to test on");
  declare(arguments, o.run);
}

/** A trained net and the images of its new task. */
struct Task {
  nn::StateDict weights;
  data::AnyDataset train, test;
  std::int64_t classes;
};

/** Returns a net of the kind that the weights belong to, with the weights. */
ResNet net_with(const nn::StateDict& weights, int depth) {
  const Tensor first = weights["conv1.weight"];
  const ResNet net({.depth = depth,
                    .num_classes = weights["fc.weight"].size(0),
                    .in_channels = first.size(1),
                    .width = first.size(0),
                    .small_images = first.size(2) == 3});
  net.load_state_dict(weights);
  return net;
}

/** Returns the images of a folder in the size and scaling of ImageNet's nets. */
Task photos(const Options& o) {
  const data::Normalize normalize{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
  const data::ImageFolder train(
      o.data + "/train",
      data::Compose({data::Resize{256}, data::RandomCrop{224}, data::RandomHorizontalFlip{},
                     data::ConvertImageDtype{}, normalize}));
  const data::ImageFolder test(o.data + "/val",
                               data::Compose({data::Resize{256}, data::CenterCrop{224},
                                              data::ConvertImageDtype{}, normalize}));
  if (train.classes() != test.classes())
    throw UsageError("the folders train and val of --data have different classes");
  return {load_state_dict(o.weights), train, test,
          static_cast<std::int64_t>(train.classes().size())};
}

/** Returns the digits first..first+4, with labels 0 to 4. */
data::Dataset five_digits(const data::Dataset& all, std::int64_t first) {
  const Tensor chosen = nonzero((all.y() >= first) & (all.y() < first + 5)).flatten();
  return {index_select(all.x(), 0, chosen), index_select(all.y(), 0, chosen) - first};
}

/** Returns a net trained on the digits 0 to 4, and the digits 5 to 9. */
Task digits(const Options& o) {
  const auto seed = static_cast<std::uint64_t>(o.run.seed);
  // Half of them are 5 to 9. The net learns from four times as many others.
  const data::Split some = load_digits({}, 2 * o.train, 2 * o.test, seed);
  const data::Dataset others = five_digits(load_digits({}, 8 * o.train, 1, seed + 1).train, 0);
  const ResNet net({.depth = std::stoi(o.depth),
                    .num_classes = 5,
                    .in_channels = others.x().size(1),
                    .width = 8,
                    .small_images = true});
  optim::SGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  for (const Batch& batch : others.batches({.size = 64, .seed = seed})) {
    optimizer.zero_grad();
    cross_entropy(net(batch.x), batch.y).backward();
    optimizer.step();
  }
  return {net.state_dict(), five_digits(some.train, 5), five_digits(some.test, 5), 5};
}

/** Returns the parts of the net that stay as they are. */
std::vector<nn::Module> frozen_parts(const ResNet& net, std::int64_t count) {
  if (count == 0) return {};
  std::vector<nn::Module> parts{net.conv1, net.bn1};
  for (std::int64_t i = 1; i < count; ++i)
    parts.push_back(net.stages[static_cast<std::size_t>(i - 1)]);
  for (const nn::Module& part : parts) part.requires_grad_(false);
  return parts;
}

/** Returns the weights to train: those of the body, and those of the head with their own rate. */
std::vector<optim::ParamGroup<optim::SgdOptions>> groups(const ResNet& net, const Options& o) {
  std::vector<optim::ParamGroup<optim::SgdOptions>> both{{{}, {.lr = o.body_lr, .momentum = 0.9}},
                                                         {{}, {.lr = o.head_lr, .momentum = 0.9}}};
  for (const nn::NamedTensor& p : net.named_parameters())
    if (p.tensor.requires_grad())
      both[p.name.starts_with("fc.") ? 1 : 0].params.push_back(p.tensor);
  if (both[0].params.empty()) both.erase(both.begin());
  return both;
}

int train(const Options& o) {
  if (o.weights.empty() != o.data.empty())
    throw UsageError("--weights and --data belong together: give both or neither");
  const comm::World world = comm::init();
  const Device device = prepare(o.run);
  const Task task = o.data.empty() ? digits(o) : photos(o);

  ResNet net = net_with(task.weights, std::stoi(o.depth));
  net.replace(net.fc, nn::Linear{net.fc.weight().size(1), task.classes});
  net.to(device);
  const std::vector<nn::Module> frozen = frozen_parts(net, o.freeze);
  optim::SGD optimizer(groups(net, o));
  auto session = amp::initialize(net, optimizer, {.opt_level = o.run.level, .verbosity = 0});
  const nn::DistributedDataParallel parallel(net);
  // After initialize(), so that f32 masters are averaged where the net is 16-bit.
  nn::ExponentialMovingAverage ema(net, {.decay = o.decay, .warmup = true, .use_buffers = true});
  data::Batches batches(task.train, {.size = o.batch,
                                     .seed = static_cast<std::uint64_t>(o.run.seed),
                                     .drop_last = true,
                                     .shard = world.shard(),
                                     .workers = o.workers,
                                     .device = device});
  Run run(
      "finetune", o.run,
      {.model = net, .optimizer = optimizer, .session = session, .loader = batches, .average = ema},
      {.total_steps = o.epochs * batches.size(), .samples = o.batch});
  while (!run.finished()) {
    const std::int64_t epoch = batches.epoch() + 1;
    net.train();
    for (const nn::Module& part : frozen) part.eval();  // batch norm keeps its statistics
    for (const Batch& batch : batches) {
      const Tensor loss = cross_entropy(parallel(batch.x), batch.y);
      optimizer.zero_grad();
      amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
      const optim::StepResult result = optimizer.step();
      ema.update();
      if (!run.step_done(loss.item<double>(), result)) break;
    }
    run.save();
    const double right = accuracy(net, task.test);
    run.log("test accuracy", right);
    run.line("epoch " + std::to_string(epoch) + "  " + run.status() + "  test accuracy " +
             fixed(100 * right, 2) + " %");
  }

  const double share_right = accuracy(net, task.test);
  double of_averages = 0;
  {
    const auto averaged = ema.averaged();
    of_averages = accuracy(net, task.test);
  }
  run.note("accuracy", share_right);
  run.note("accuracy_of_averages", of_averages);
  const RunFigures figures = run.finish();
  const std::string title = "finetune " + o.run.level + ": ";
  if (world.is_main())
    std::cout << title << fixed(figures.step_ms, 2) << " ms per step, peak memory "
              << bytes_text(static_cast<double>(figures.peak_bytes)) << "\n"
              << title << "test accuracy " << fixed(100 * share_right, 2)
              << " %, with averaged weights " << fixed(100 * of_averages, 2) << " %, "
              << figures.steps << " steps, " << figures.skipped_steps << " skipped\n";
  return run.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Arguments arguments("finetune", "Trains a ResNet that has learned one task for another.");
  declare(arguments, options);
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return run_program("finetune", [&] { return train(options); });
}
