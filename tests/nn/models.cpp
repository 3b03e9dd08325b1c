// nn::models: sizes, options, and a head that is replaced. ../golden/models.cpp compares them with
// torchvision's.
#include "../support/throws.h"
#include "support.h"

using namespace mezzo;
using nn::models::ResNet;

TEST_CASE("ResNets have torchvision's numbers of weights", "[models]") {
  CHECK(nn::models::resnet18().num_parameters() == 11689512);
  CHECK(nn::models::resnet34().num_parameters() == 21797672);
  CHECK(nn::models::resnet50().num_parameters() == 25557032);
  CHECK(ResNet({.depth = 101}).num_parameters() == 44549160);
}

TEST_CASE("ResNets of other widths and stems", "[models]") {
  const ResNet tiny({.num_classes = 7, .in_channels = 1, .width = 4, .small_images = true});
  CHECK(tiny(randn({2, 1, 16, 16})).shape() == Shape{2, 7});
  CHECK(tiny.parameter("conv1.weight").shape() == Shape{4, 1, 3, 3});
  CHECK_THROWS_WITH_AS_TEXT(ResNet({.depth = 20}), ValueError, "18, 34, 50, 101 or 152");
}

TEST_CASE("a block that starts as the identity passes its input on", "[models]") {
  const ResNet net({.width = 4, .zero_init_residual = true});
  CHECK(net.parameter("layer1.0.bn2.weight").abs().sum().item() == 0);
  CHECK(ResNet({.width = 4}).parameter("layer1.0.bn2.weight").min().item() == 1);
  const Tensor x = rand({2, 4, 8, 8});
  net.eval();
  CHECK(equal(net.stages[0](x), x));
}

TEST_CASE("a ResNet takes a new head for fine-tuning", "[models]") {
  nn::models::ResNet net({.width = 4});
  net.replace("fc", nn::Linear{32, 5});
  CHECK(net(rand({2, 3, 32, 32})).shape() == Shape{2, 5});
  CHECK(net.parameter("fc.weight").shape() == Shape{5, 32});
}
