// Images: grids in files, shapes of the image nets.
#include "../../samples/common/image.h"
#include "../../samples/nets/gan_game.h"
#include "../io/files.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace samples;

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
