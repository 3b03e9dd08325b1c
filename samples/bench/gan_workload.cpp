#include "net_workloads.h"

#include "../nets/gan_game.h"

namespace samples {

namespace {

/** Real images, noise for both updates, and the weights of real images in interpolations for the
 *  gradient penalty. */
struct GanBatch {
  Tensor real, noise, more_noise, share;
};

optim::AdamOptions rates(bool penalty) {
  return {.lr = 2e-4, .betas = {penalty ? 0.0 : 0.5, penalty ? 0.9 : 0.999}};
}

class GanWorkload final : public Workload {
 public:
  GanWorkload(const Setting& s, bool penalty)
      : penalty_(penalty),
        generator_(s.pick(16, 64, 100), s.pick_width(4, 32, 128)),
        discriminator_(s.pick_width(4, 32, 128), !penalty),
        generator_optimizer_(generator_.parameters(), rates(penalty)),
        discriminator_optimizer_(discriminator_.parameters(), rates(penalty)),
        batches_(made_batches(s)),
        session_(under_level(s)) {
    facts = {{"optimizer", "adam"},
             {"lr", "2e-4"},
             {"betas", penalty ? "0,0.9" : "0.5,0.999"},
             {"penalty", str(penalty)}};
  }

  StepOutcome step(std::int64_t number) override {
    const GanGame game{generator_, discriminator_, generator_optimizer_, discriminator_optimizer_,
                       penalty_};
    const GanBatch& batch = batches_[static_cast<std::size_t>(number) % batches_.size()];
    const TurnResult first =
        teach_discriminator(game, batch.real, generator_(batch.noise).detach(), batch.share);
    const TurnResult second = teach_generator(game, batch.more_noise);
    return {first.loss, first.skipped || second.skipped};
  }

  amp::Training training() override {
    return {.model = {{"generator", generator_}, {"discriminator", discriminator_}},
            .optimizer = {{"generator", generator_optimizer_},
                          {"discriminator", discriminator_optimizer_}},
            .session = session_};
  }

 private:
  std::vector<GanBatch> made_batches(const Setting& s) {
    samples = s.pick_batch(8, 64, 256);
    const auto digits = data::synthetic_digits(kBatches * samples, s.seed, {.normalise = false});
    std::vector<GanBatch> batches;
    for (const Batch& batch : batches_of(digits, samples))
      batches.push_back({batch.x * 2 - 1, randn({samples, generator_.noise, 1, 1}),
                         randn({samples, generator_.noise, 1, 1}), rand({samples, 1, 1, 1})});
    return batches;
  }

  /** Records weights and batches in f32 on the CPU, moves everything to the device, and initialises
   *  mixed precision. */
  amp::Session under_level(const Setting& s) {
    add_weights(tensors, "generator.", generator_);
    add_weights(tensors, "discriminator.", discriminator_);
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      auto& [real, noise, more_noise, share] = batches_[i];
      tensors.insert(tensors.end(), {{str("real.", i), real},
                                     {str("noise.", i), noise},
                                     {str("more_noise.", i), more_noise},
                                     {str("share.", i), share}});
      for (Tensor* t : {&real, &noise, &more_noise, &share}) *t = t->to(s.device);
    }
    generator_.to(s.device);
    discriminator_.to(s.device);
    return amp::initialize({generator_, discriminator_},
                           {generator_optimizer_, discriminator_optimizer_},
                           {.opt_level = s.level, .num_losses = 3, .verbosity = 0});
  }

  bool penalty_;
  DcganGenerator generator_;
  DcganDiscriminator discriminator_;
  optim::Adam generator_optimizer_, discriminator_optimizer_;
  std::vector<GanBatch> batches_;
  amp::Session session_;
};

}  // namespace

std::unique_ptr<Workload> gan_workload(const Setting& setting, bool penalty) {
  return std::make_unique<GanWorkload>(setting, penalty);
}

}  // namespace samples
