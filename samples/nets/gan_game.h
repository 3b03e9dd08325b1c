// The game of generator and discriminator: a turn each, with the losses of the DCGAN or those of WGAN-GP.
// Sees: dcgan.h.
// Read next: ../dcgan.cpp.
#pragma once

#include "dcgan.h"

namespace samples {

/** The loss of a turn, and whether an overflow undid its update. */
struct TurnResult {
  double loss = 0;
  bool skipped = false;
};

/** How far scores are from all saying "real" (1) or all "generated" (0). */
inline Tensor verdict_loss(const Tensor& scores, double right) {
  return binary_cross_entropy_with_logits(scores, full_like(scores.detach(), right));
}

/** ((|d score / d image| - 1)^2) at places between real and generated images, `share` [N,1,1,1] of the way: mean over the batch. The gradient is itself part of a loss,
 *  so it is recorded as it is computed (create_graph), and backward() goes through it a second time.
 *  Source: Gulrajani et al., Improved training of Wasserstein GANs (2017). */
inline Tensor gradient_penalty(const DcganDiscriminator& critic, const Tensor& real, const Tensor& made,
                               const Tensor& share) {
  const Tensor between = (share * real + (1 - share) * made).detach().requires_grad_();
  const Tensor slope = grad(sum(critic(between)), between, {.create_graph = true}).to(f32);
  const Tensor steepness = sqrt(sum(square(slope), {1, 2, 3}) + 1e-12);
  return mean(square(steepness - 1));
}

/** Two nets and what teaches them, by reference, in a session with three losses. */
struct GanGame {
  const DcganGenerator& generator;
  const DcganDiscriminator& discriminator;
  optim::Adam &generator_optimizer, &discriminator_optimizer;
  bool penalty = false;  // WGAN-GP instead of DCGAN
};

/** The discriminator's turn: real images are to score high, generated ones low. `share`: as gradient_penalty(). */
inline TurnResult teach_discriminator(const GanGame& game, const Tensor& real, const Tensor& made,
                                      const Tensor& share) {
  const auto backward = [](const Tensor& scaled) { scaled.backward(); };
  const DcganDiscriminator& d = game.discriminator;
  optim::Adam& optimizer = game.discriminator_optimizer;
  optimizer.zero_grad();
  double loss = 0;
  if (game.penalty) {
    const Tensor whole = mean(d(made)) - mean(d(real)) + 10 * gradient_penalty(d, real, made, share);
    amp::scale_loss(whole, optimizer, {.loss_id = 0}, backward);
    loss = whole.item<double>();
  } else {
    // Two backward passes with a scale each: their gradients are unscaled one after the other and add up.
    const Tensor on_real = verdict_loss(d(real), 1), on_made = verdict_loss(d(made), 0);
    amp::scale_loss(on_real, optimizer, {.loss_id = 0}, backward);
    amp::scale_loss(on_made, optimizer, {.loss_id = 1}, backward);
    loss = on_real.item<double>() + on_made.item<double>();
  }
  return {loss, optimizer.step() == optim::StepResult::skipped};
}

/** The generator's turn: what it makes of `noise` is to be taken for real. */
inline TurnResult teach_generator(const GanGame& game, const Tensor& noise) {
  optim::Adam& optimizer = game.generator_optimizer;
  optimizer.zero_grad();
  // Gradients pass through the discriminator, but it must not learn from them: frozen, it gets none.
  game.discriminator.freeze();
  const Tensor scores = game.discriminator(game.generator(noise));
  const Tensor loss = game.penalty ? -mean(scores) : verdict_loss(scores, 1);
  amp::scale_loss(loss, optimizer, {.loss_id = 2}, [](const Tensor& scaled) { scaled.backward(); });
  game.discriminator.requires_grad_();
  return {loss.item<double>(), optimizer.step() == optim::StepResult::skipped};
}

}  // namespace samples
