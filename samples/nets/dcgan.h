// Generator and discriminator of the DCGAN.
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

}  // namespace samples
