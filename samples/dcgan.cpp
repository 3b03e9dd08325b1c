// dcgan: trains a generator of digits against a discriminator, with two optimizers and three losses
// that have a loss scale each.
//   dcgan --data DIR --opt-level O1 --out pictures
//   dcgan --data DIR --judge DIR2/step-001000/model.safetensors
//       also prints how many samples are recognised as digits by a net that was trained with
//       `mnist --data DIR --epochs 8 --save DIR2`
//   dcgan --gradient-penalty
//       trains as WGAN-GP, whose loss contains a gradient
#include <mezzo.h>

#include <filesystem>
#include <iostream>
#include <optional>

#include "common/arguments.h"
#include "common/digits.h"
#include "common/image.h"
#include "common/program.h"
#include "common/run.h"
#include "common/table.h"
#include "nets/gan_game.h"
#include "nets/lenet.h"

namespace {

using namespace mezzo;
using namespace samples;

struct Options {
  RunOptions run;
  std::string data, out, judge;
  std::int64_t width = 32, noise = 64, train = 8000, epochs = 25, batch = 64;
  double lr = 5e-4;
  bool gradient_penalty = false;
};

void declare(Arguments& arguments, Options& o) {
  arguments.option("data", o.data,
                   "folder with MNIST's IDX files; without it digits are generated");
  arguments.option("out", o.out,
                   "folder for an image of 64 samples after every epoch, epoch-NNN.pgm");
  arguments.option(
      "judge", o.judge,
      "model.safetensors of a lenet trained by mnist; prints how many samples it recognises");
  arguments.option("width", o.width, 1, 4096, "channels of the layers next to the image");
  arguments.option("noise", o.noise, 1, 4096, "random inputs of the generator for an image");
  arguments.option("train", o.train, 1, 1000000, "number of generated digits to train on");
  arguments.option("epochs", o.epochs, 0, 100000, "passes over the training data");
  arguments.option("batch", o.batch, 1, 1000000, "images per step");
  arguments.option("lr", o.lr, "learning rate of both optimizers (Adam)");
  arguments.flag("gradient-penalty", o.gradient_penalty,
                 "WGAN-GP: Wasserstein losses with a gradient penalty");
  declare(arguments, o.run);
}

Tensor noise_for(const DcganGenerator& g, std::int64_t count) {
  return randn({count, g.noise, 1, 1}).to(g.up1.weight().device());
}

/** Returns the generator's images for some noise in evaluation mode, in -1..1. */
Tensor samples_of(const DcganGenerator& generator, const Tensor& noise) {
  const NoGrad no_grad;
  generator.eval();
  const Tensor images = generator(noise);
  generator.train();
  return images.to(f32);
}

std::string picture_name(std::int64_t epoch) {
  std::string number = std::to_string(epoch);
  return "epoch-" + std::string(number.size() < 3 ? 3 - number.size() : 0, '0') + number + ".pgm";
}

/** Returns the share of images to which a digit classifier assigns some digit with a probability
 *  above 0.9. */
double share_recognised(const LeNet& judge, const Tensor& images) {
  const NoGrad no_grad;
  // The normalisation that the classifier was trained with.
  const Tensor x = ((images + 1) * 0.5 - data::kMnistMean) / data::kMnistDeviation;
  return mean((amax(softmax(judge(x), 1), 1) > 0.9).to(f32)).item<double>();
}

/** Loads the classifier from a file. Returns nothing if the path is empty. */
std::optional<LeNet> load_judge(const std::string& path) {
  if (path.empty()) return {};
  LeNet judge;
  load(path, judge);
  judge.eval();
  return judge;
}

/** A step of both nets. */
struct GanStep {
  TurnResult critic;
  std::optional<TurnResult> maker;  // nothing where the generator was not updated

  optim::StepResult result() const {
    const bool skipped = critic.skipped || (maker && maker->skipped);
    return skipped ? optim::StepResult::skipped : optim::StepResult::stepped;
  }
};

GanStep train_step(const GanGame& game, const DcganGenerator& generator, const Batch& batch,
                   bool updates_generator) {
  const Tensor real =
      (batch.x * data::kMnistDeviation + data::kMnistMean) * 2 - 1;  // 0..1, then -1..1
  const Tensor made = generator(noise_for(generator, batch.size())).detach();
  const Tensor share = rand({batch.size(), 1, 1, 1}).to(real.device());
  GanStep step{.critic = teach_discriminator(game, real, made, share), .maker = {}};
  if (updates_generator) step.maker = teach_generator(game, noise_for(generator, batch.size()));
  return step;
}

void print_result(const std::string& title, const RunFigures& figures, double generator_loss) {
  std::cout << title << ": " << fixed(figures.step_ms, 2) << " ms per step, peak memory "
            << bytes_text(static_cast<double>(figures.peak_bytes)) << "\n"
            << title << ": loss " << fixed(figures.recent_loss, 6) << ", generator "
            << fixed(generator_loss, 6) << ", " << figures.steps << " steps, "
            << figures.skipped_steps << " skipped\n";
}

int train(const Options& o) {
  // Load the judge before the seed is set, so that it does not change the training.
  const std::optional<LeNet> judge = load_judge(o.judge);
  const comm::World world = comm::init();
  const Device device = prepare(o.run);
  const auto seed = static_cast<std::uint64_t>(o.run.seed);
  const data::Split digits = load_digits(o.data, o.train, 1, seed);
  if (!o.out.empty()) std::filesystem::create_directories(o.out);

  DcganGenerator generator(o.noise, o.width);
  DcganDiscriminator discriminator(o.width, !o.gradient_penalty);
  generator.to(device);
  discriminator.to(device);
  // Several processes compute the statistics of batch norm over all their batches.
  nn::convert_sync_batch_norm(generator);
  nn::convert_sync_batch_norm(discriminator);
  const optim::AdamOptions rates{
      .lr = o.lr, .betas = {o.gradient_penalty ? 0.0 : 0.5, o.gradient_penalty ? 0.9 : 0.999}};
  optim::Adam generator_optimizer(generator.parameters(), rates);
  optim::Adam discriminator_optimizer(discriminator.parameters(), rates);
  // One session for both nets, with a loss scale for each loss.
  auto session =
      amp::initialize({generator, discriminator}, {generator_optimizer, discriminator_optimizer},
                      {.opt_level = o.run.level, .num_losses = 3, .verbosity = 0});
  // Several processes started by mpirun each take their share of the data and average gradients.
  const nn::DistributedDataParallel makers(generator);
  const nn::DistributedDataParallel critics(discriminator);
  const GanGame game{generator, discriminator, generator_optimizer, discriminator_optimizer,
                     o.gradient_penalty};
  data::Batches batches = digits.train.batches(
      {.size = o.batch, .seed = seed, .drop_last = true, .shard = world.shard(), .device = device});

  // Drawn before resuming, so that all images show the same samples.
  const Tensor same_noise = noise_for(generator, 64);
  const std::string title = o.gradient_penalty ? "wgan_gp" : "dcgan";
  Run run(title, o.run,
          {.model = {{"generator", generator}, {"discriminator", discriminator}},
           .optimizer = {{"generator", generator_optimizer},
                         {"discriminator", discriminator_optimizer}},
           .session = session,
           .loader = batches},
          {.total_steps = o.epochs * batches.size(), .samples = o.batch});
  if (!o.run.quiet && world.is_main()) std::cerr << digits.train.notice() << "\n";
  double generator_loss = 0;
  while (!run.finished()) {
    const std::int64_t epoch = batches.epoch() + 1;
    for (const Batch& batch : batches) {
      // With the gradient penalty, the generator is updated in every fifth step only, so that the
      // critic is trained better than the generator.
      const bool updates_generator = !o.gradient_penalty || run.step() % 5 == 4;
      const GanStep step = train_step(game, generator, batch, updates_generator);
      if (step.maker) generator_loss = step.maker->loss;
      if (!run.step_done(step.critic.loss, step.result())) break;
    }
    run.save();
    run.log("generator loss", generator_loss);
    run.line("epoch " + std::to_string(epoch) + "  " + run.status() + "  generator " +
             fixed(generator_loss, 4));
    if (!o.out.empty() && world.is_main())
      write_grid(o.out + "/" + picture_name(epoch), samples_of(generator, same_noise), 8);
  }

  if (judge && world.is_main()) {
    judge->to(device);
    const double share = share_recognised(*judge, samples_of(generator, noise_for(generator, 500)));
    run.note("share_recognised", share);
    std::cout << title << " " << o.run.level << ": " << fixed(100 * share, 1)
              << " % of 500 samples are recognised as digits\n";
  }
  const RunFigures figures = run.finish();
  if (world.is_main()) print_result(title + " " + o.run.level, figures, generator_loss);
  return run.exit_status();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Arguments arguments("dcgan", "Trains a generator of digits against a discriminator.");
  declare(arguments, options);
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return run_program("dcgan", [&] { return train(options); });
}
