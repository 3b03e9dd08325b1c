// Training steps of generator and discriminator with the losses of DCGAN or WGAN-GP.
#pragma once

#include "dcgan.h"

namespace samples {

/** The loss of an update, and whether it was skipped because of an overflow. */
struct TurnResult {
  double loss = 0;
  bool skipped = false;
};

/** Returns the binary cross entropy of scores and the label "real" (1) or "generated" (0). */
inline Tensor verdict_loss(const Tensor& scores, double right) {
  return binary_cross_entropy_with_logits(scores, full_like(scores.detach(), right));
}

/** Returns the mean over the batch of (|d score / d image| - 1)^2 at interpolations between real
 *  and generated images; `share` [N,1,1,1] is the weight of the real ones. The gradient is part of
 *  the loss, so it is computed with create_graph, and backward() differentiates it again.
 *  Source: Gulrajani et al., Improved training of Wasserstein GANs (2017). */
inline Tensor gradient_penalty(const DcganDiscriminator& critic, const Tensor& real,
                               const Tensor& made, const Tensor& share) {
  const Tensor between = (share * real + (1 - share) * made).detach().requires_grad_();
  const Tensor slope = grad(sum(critic(between)), between, {.create_graph = true}).to(f32);
  const Tensor steepness = sqrt(sum(square(slope), {1, 2, 3}) + 1e-12);
  return mean(square(steepness - 1));
}

/** Two nets and their optimizers, by reference, in a session with three losses. */
struct GanGame {
  const DcganGenerator& generator;
  const DcganDiscriminator& discriminator;
  optim::Adam &generator_optimizer, &discriminator_optimizer;
  bool penalty = false;  // WGAN-GP instead of DCGAN
};

/** Updates the discriminator to score real images high and generated ones low. `share` is as in
 *  gradient_penalty(). */
inline TurnResult teach_discriminator(const GanGame& game, const Tensor& real, const Tensor& made,
                                      const Tensor& share) {
  const auto backward = [](const Tensor& scaled) { scaled.backward(); };
  const DcganDiscriminator& d = game.discriminator;
  optim::Adam& optimizer = game.discriminator_optimizer;
  optimizer.zero_grad();
  double loss = 0;
  if (game.penalty) {
    const Tensor whole =
        mean(d(made)) - mean(d(real)) + 10 * gradient_penalty(d, real, made, share);
    amp::scale_loss(whole, optimizer, {.loss_id = 0}, backward);
    loss = whole.item<double>();
  } else {
    // Two backward passes with a loss scale each. Their gradients are unscaled separately and
    // accumulated.
    const Tensor on_real = verdict_loss(d(real), 1), on_made = verdict_loss(d(made), 0);
    amp::scale_loss(on_real, optimizer, {.loss_id = 0}, backward);
    amp::scale_loss(on_made, optimizer, {.loss_id = 1}, backward);
    loss = on_real.item<double>() + on_made.item<double>();
  }
  return {loss, optimizer.step() == optim::StepResult::skipped};
}

/** Updates the generator so that its images from `noise` are scored as real. */
inline TurnResult teach_generator(const GanGame& game, const Tensor& noise) {
  optim::Adam& optimizer = game.generator_optimizer;
  optimizer.zero_grad();
  // Gradients flow through the discriminator, but its own parameters must not receive any, so it is
  // frozen.
  game.discriminator.freeze();
  const Tensor scores = game.discriminator(game.generator(noise));
  const Tensor loss = game.penalty ? -mean(scores) : verdict_loss(scores, 1);
  amp::scale_loss(loss, optimizer, {.loss_id = 2}, [](const Tensor& scaled) { scaled.backward(); });
  game.discriminator.requires_grad_();
  return {loss.item<double>(), optimizer.step() == optim::StepResult::skipped};
}

}  // namespace samples
