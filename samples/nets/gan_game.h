// The nets of DCGAN, and training steps of generator and discriminator with the losses of DCGAN or
// WGAN-GP.
#pragma once

#include <mezzo.h>
#include <optional>

namespace samples {

using namespace mezzo;

/** Maps noise [N,noise,1,1] to images [N,1,28,28] in -1..1. */
struct DcganGenerator : nn::Model<DcganGenerator> {
  explicit DcganGenerator(std::int64_t its_noise = 64, std::int64_t its_width = 32)
      : noise(its_noise), width(its_width) {
    for (const nn::NamedTensor& p : named_parameters())
      if (p.tensor.dim() == 4) nn::init::normal_(p.tensor, 0, 0.02);
  }

  Tensor forward(const Tensor& z) const {
    const Tensor a = nn::batch_norm_relu(bn1, up1(z));  // [N, 4 width, 4, 4]
    const Tensor b = nn::batch_norm_relu(bn2, up2(a));  // [N, 2 width, 7, 7]
    const Tensor c = nn::batch_norm_relu(bn3, up3(b));  // [N, width, 14, 14]
    return tanh(up4(c));
  }

  std::int64_t noise, width;
  nn::ConvTranspose2d up1 = add("up1", nn::ConvTranspose2d{noise, 4 * width, 4, {.bias = false}});
  nn::BatchNorm2d bn1 = add("bn1", nn::BatchNorm2d{4 * width});
  nn::ConvTranspose2d up2 =
      add("up2",
          nn::ConvTranspose2d{4 * width, 2 * width, 3, {.stride = 2, .padding = 1, .bias = false}});
  nn::BatchNorm2d bn2 = add("bn2", nn::BatchNorm2d{2 * width});
  nn::ConvTranspose2d up3 = add(
      "up3", nn::ConvTranspose2d{2 * width, width, 4, {.stride = 2, .padding = 1, .bias = false}});
  nn::BatchNorm2d bn3 = add("bn3", nn::BatchNorm2d{width});
  nn::ConvTranspose2d up4 =
      add("up4", nn::ConvTranspose2d{width, 1, 4, {.stride = 2, .padding = 1}});
};

/** Maps images [N,1,28,28] to one score each, [N], above 0 for "real". Without batch norm it is the
 *  critic of WGAN-GP, whose penalty needs scores that do not depend on other images.
 *  Source: Radford, Metz, Chintala, Unsupervised representation learning with DCGANs (2015). */
struct DcganDiscriminator : nn::Model<DcganDiscriminator> {
  explicit DcganDiscriminator(std::int64_t its_width = 32, bool normalises = true)
      : width(its_width) {
    if (normalises) {
      bn2 = add("bn2", nn::BatchNorm2d{2 * width});
      bn3 = add("bn3", nn::BatchNorm2d{4 * width});
    }
    for (const nn::NamedTensor& p : named_parameters())
      if (p.tensor.dim() == 4) nn::init::normal_(p.tensor, 0, 0.02);
  }

  Tensor forward(const Tensor& x) const {
    const auto leaky = [](const Tensor& y) { return leaky_relu(y, {.negative_slope = 0.2}); };
    const Tensor a = leaky(down1(x));                    // [N, width, 14, 14]
    const Tensor b = down2(a);                           // [N, 2 width, 7, 7]
    const Tensor c = down3(leaky(bn2 ? (*bn2)(b) : b));  // [N, 4 width, 4, 4]
    return score(leaky(bn3 ? (*bn3)(c) : c)).flatten();
  }

  std::int64_t width;
  nn::Conv2d down1 = add("down1", nn::Conv2d{1, width, 4, {.stride = 2, .padding = 1}});
  nn::Conv2d down2 = add("down2", nn::Conv2d{width, 2 * width, 4, {.stride = 2, .padding = 1}});
  nn::Conv2d down3 = add("down3", nn::Conv2d{2 * width, 4 * width, 3, {.stride = 2, .padding = 1}});
  std::optional<nn::BatchNorm2d> bn2, bn3;  // none without batch norm
  nn::Conv2d score = add("score", nn::Conv2d{4 * width, 1, 4});
};

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
