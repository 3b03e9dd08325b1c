// Images: augmentation, grids in files, shapes of the image nets.
#include "../../samples/common/augment.h"
#include "../../samples/common/image.h"
#include "../../samples/nets/gan_game.h"
#include "../io/files.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace samples;

TEST_CASE("augmented images are shifted and flipped originals", "[samples]") {
  const mezzo::Tensor images = mezzo::arange(2 * 3 * 5 * 4).view({2, 3, 5, 4}) + 1;
  CHECK(augment(images, {.padding = 0, .flip = false}).to_vector<float>() ==
        images.to_vector<float>());
  mezzo::manual_seed(9);
  bool flipped = false, kept = false;
  for (int i = 0; i < 8; ++i) {
    const mezzo::Tensor turned = augment(images, {.padding = 0, .flip = true});
    for (const std::int64_t n : {0, 1}) {
      const bool same = turned[n].to_vector<float>() == images[n].to_vector<float>();
      const bool mirrored = turned[n].to_vector<float>() == flip(images[n], {2}).to_vector<float>();
      CHECK((same || mirrored));
      kept |= same;
      flipped |= mirrored;
    }
  }
  CHECK((flipped && kept));
  // Every shifted image is a window of the image with a frame of zeros.
  const mezzo::Tensor framed = pad(images, {2, 2, 2, 2});
  const mezzo::Tensor moved = augment(images, {.padding = 2, .flip = false});
  for (const std::int64_t n : {0, 1}) {
    int places = 0;
    for (std::int64_t r = 0; r <= 4; ++r)
      for (std::int64_t c = 0; c <= 4; ++c)
        places += framed[n].narrow(1, r, 5).narrow(2, c, 4).to_vector<float>() ==
                  moved[n].to_vector<float>();
    CHECK(places == 1);
  }
}

TEST_CASE("a grid of images is a PGM file", "[samples]") {
  const files::Directory folder;
  const mezzo::Tensor images = mezzo::tensor({-1, 1, 0, 5, -9, NAN}, {3, 1, 1, 2});
  write_grid(folder / "grid.pgm", images, 2);
  const std::string pixels("\x00\xff\x00\x80\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 15);
  CHECK(files::read(folder / "grid.pgm") == "P5\n5 3\n255\n" + pixels);
  CHECK_THROWS_WITH_AS_TEXT(write_grid(folder / "no/such.pgm", images, 2), mezzo::IoError,
                            "no/such.pgm");
  CHECK_THROWS_AS(write_grid(folder / "x", mezzo::zeros({2, 2}), 1), mezzo::ShapeError);
}

TEST_CASE("the gradient penalty matches that of a critic with a known gradient", "[samples]") {
  // With a slope of 1 the leaky units are linear and the net's gradient is the same everywhere, so
  // that finite differences compute it.
  mezzo::manual_seed(8);
  const DcganDiscriminator critic(2, false);
  // With its initial weights so narrow a net has slopes near the rounding error of the compared
  // losses.
  for (const mezzo::Tensor& p : critic.parameters()) mezzo::nn::init::normal_(p, 0, 0.2);
  const mezzo::Tensor real = mezzo::randn({3, 1, 28, 28}), made = mezzo::randn({3, 1, 28, 28});
  const mezzo::Tensor share = mezzo::rand({3, 1, 1, 1});
  const mezzo::Tensor penalty = gradient_penalty(critic, real, made, share);
  // The penalty's gradient by the weights, against a difference quotient along itself.
  penalty.backward();
  const mezzo::Tensor w = critic.score.weight(), g = w.grad();
  const double slope = sum(square(g)).item<double>(), step = 1e-3 / std::sqrt(slope);
  add_(w.detach(), g * step);
  const double up = gradient_penalty(critic, real, made, share).item<double>();
  sub_(w.detach(), g * (2 * step));
  const double down = gradient_penalty(critic, real, made, share).item<double>();
  CHECK((up - down) / (2 * step) == Approx(slope).epsilon(0.02));
  CHECK(slope > 0);
}
