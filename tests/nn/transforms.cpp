// Transforms of samples: composition, images, randomness, bad input.
#include <mezzo.h>

#include <cmath>
#include <set>

#include "../support/catch.h"
#include "../support/numbered.h"
#include "../support/throws.h"

using namespace mezzo;
using data::Transform;

namespace {

std::vector<float> floats_of(const Tensor& x) { return x.to_vector<float>(); }

/** An image [1,4,5] with pixels 1..20. */
Tensor numbered_image() { return arange(20.0).view({1, 4, 5}).to(f32) + 1; }

/** Three colours as an image [3,1,3]. */
Tensor colours() {
  return tensor({0.2f, 0.9f, 0.3f, 0.4f, 0.5f, 0.3f, 0.6f, 0.1f, 0.3f}, {3, 1, 3});
}

/** Checks the colours of an image [3,1,3]. */
void check_colours(const Tensor& image, const std::vector<std::vector<double>>& expected) {
  const std::vector<float> v = floats_of(image);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t c = 0; c < 3; ++c) CHECK(v[3 * c + i] == Approx(expected[i][c]).margin(1e-5));
}

}  // namespace

TEST_CASE("transforms are composed in order", "[data]") {
  const data::Compose both(
      {[](const Tensor& x) { return x + 1; }, [](const Tensor& x) { return x * 2; }});
  CHECK(both(tensor(3.0)).item<int>() == 8);
  CHECK(data::Compose({})(tensor(3.0)).item<int>() == 3);
  CHECK_THROWS_AS(data::Compose({Transform{}}), ValueError);

  const data::TransformedDataset set(numbered(4), both, [](const Tensor& y) { return -y; });
  CHECK(set.size() == 4);
  CHECK(floats_of(set.get(2).x) == std::vector<float>{6, 42});
  CHECK(set.get(2).y.item<int>() == -2);
  CHECK(data::TransformedDataset(numbered(4), {}).get(2).x.to_vector<int>()[1] == 20);
  CHECK_THROWS_AS(set.get(4), IndexError);
}

TEST_CASE("augmented images are shifted and flipped originals", "[data]") {
  const Tensor image = arange(3 * 5 * 4).view({3, 5, 4}).to(f32) + 1;
  CHECK(equal(data::RandomCrop{{5, 4}}(image), image));
  manual_seed(9);
  bool flipped = false, kept = false;
  for (int i = 0; i < 16; ++i) {
    const Tensor turned = data::RandomHorizontalFlip{}(image);
    const bool same = equal(turned, image), mirrored = equal(turned, flip(image, {2}));
    CHECK((same || mirrored));
    kept |= same;
    flipped |= mirrored;
  }
  CHECK((flipped && kept));
  CHECK(equal(data::RandomHorizontalFlip{0}(image), image));
  CHECK(equal(data::RandomVerticalFlip{1}(image), flip(image, {1})));
  // Every shifted image is a window of the image with a frame.
  const Tensor framed = pad(image, {2, 2, 2, 2}, {.value = 7});
  std::vector<int> places(25);
  for (int i = 0; i < 500; ++i) {
    const Tensor moved = data::RandomCrop{{5, 4}, 2, 7}(image);
    int found = 0;
    for (std::int64_t r = 0; r <= 4; ++r)
      for (std::int64_t c = 0; c <= 4; ++c)
        if (equal(framed.narrow(1, r, 5).narrow(2, c, 4), moved)) {
          ++found;
          ++places[static_cast<std::size_t>(5 * r + c)];
        }
    REQUIRE(found == 1);
  }
  for (const int count : places) CHECK(std::abs(count - 20) < 20);
}

TEST_CASE("a random transform takes one draw, whatever it decides", "[data]") {
  const Tensor image = rand({3, 6, 6});
  const std::vector<Transform> transforms{
      data::RandomCrop{4},        data::RandomHorizontalFlip{}, data::RandomVerticalFlip{0},
      data::RandomResizedCrop{3}, data::RandomRotation{10},     data::ColorJitter{.hue = 0.1},
      data::ColorJitter{}};
  for (const Transform& transform : transforms) {
    manual_seed(3);
    const Tensor first = transform(image);
    CHECK(default_generator().draw == 1);
    manual_seed(3);
    CHECK(equal(transform(image), first));
  }
}

TEST_CASE("augmented batches do not depend on workers, and resume bit for bit", "[data]") {
  const data::Dataset images(rand({20, 3, 6, 6}), arange(20.0));
  const data::TransformedDataset set(
      images, data::Compose({data::RandomCrop{6, 2}, data::RandomHorizontalFlip{},
                             data::RandomRotation{30}, data::ColorJitter{0.4, 0.4, 0.4, 0.1}}));
  const auto all = [&](const data::BatchOptions& options, std::int64_t from) {
    data::Batches batches(set, options);
    batches.resume({.seed = 5, .epoch = 2, .sample = from});
    std::vector<Tensor> out;
    for (const Batch& batch : batches) out.push_back(batch.x);
    return cat(out);
  };
  const Tensor reference = all({.size = 4, .prefetch = 0}, 0);
  CHECK(!equal(reference[0], reference[1]));
  for (const std::int64_t workers : {1, 2, 3})
    CHECK(equal(all({.size = 4, .workers = workers}, 0), reference));
  CHECK(equal(all({.size = 3, .workers = 2}, 8), reference.narrow(0, 8, 12)));
}

TEST_CASE("resized crops have areas and ratios in range", "[data]") {
  // Pixels are their coordinates, so the mean of a window is its middle and the spread its size.
  const Tensor rows = arange(60.0).to(f32).view({60, 1}).expand({60, 80}),
               columns = arange(80.0).to(f32).view({1, 80}).expand({60, 80});
  const Tensor image = stack({rows, columns});
  const data::RandomResizedCrop crop{.size = {20, 10}, .scale = {0.1, 0.5}, .ratio = {0.5, 2}};
  manual_seed(8);
  double least = 1, most = 0, narrow = 9, wide = 0, middle = 0;
  for (int i = 0; i < 400; ++i) {
    const Tensor out = crop(image);
    REQUIRE(out.shape() == Shape{2, 20, 10});
    const std::vector<float> v = floats_of(out);
    // The outermost pixels of 20 x 10 are averages within the window, half a step from its edge.
    const double height = (v[190] - v[0]) / 19 * 20, width = (v[209] - v[200]) / 9 * 10;
    const double area = height * width / 4800, ratio = width / height;
    least = std::min(least, area), most = std::max(most, area);
    narrow = std::min(narrow, ratio), wide = std::max(wide, ratio);
    middle += (v[0] + v[190]) / 2 / 400;
    CHECK((v[0] > -0.01 && v[190] < 59.01 && v[200] > -0.01 && v[209] < 79.01));
  }
  CHECK((least > 0.07 && least < 0.15 && most > 0.4 && most < 0.6));
  CHECK((narrow > 0.4 && narrow < 0.6 && wide > 1.6 && wide < 2.4));
  CHECK(std::abs(middle - 29.5) < 2);

  const data::RandomResizedCrop whole{
      .size = {60, 80}, .scale = {1, 1}, .ratio = {4.0 / 3, 4.0 / 3}};
  CHECK(equal(whole(image), image));
  CHECK(data::RandomResizedCrop{8}((image).to(u8)).dtype() == u8);
  for (const DType dtype : {i64, i32, boolean})
    CHECK_THROWS_WITH_AS_TEXT(data::Resize{4}(image.to(dtype)), DtypeError, "Resize: wrong dtype");
  CHECK_THROWS_AS(data::RandomResizedCrop{0}(image), ValueError);
  CHECK_THROWS_AS((data::RandomResizedCrop{.size = 4, .scale = {0, 1}}(image)), ValueError);
  CHECK_THROWS_AS((data::RandomResizedCrop{.size = 4, .scale = {0.5, 0.2}}(image)), ValueError);
  CHECK_THROWS_AS((data::RandomResizedCrop{.size = 4, .ratio = {1, NAN}}(image)), ValueError);
  CHECK_THROWS_AS(data::RandomResizedCrop{4}(image[0]), ShapeError);
  CHECK_THROWS_AS(data::RandomResizedCrop{4}(zeros({1, 0, 4})), ShapeError);
}

TEST_CASE("crops in the middle and resized images", "[data]") {
  const Tensor image = numbered_image();
  CHECK(floats_of(data::CenterCrop{{2, 3}}(image)) == std::vector<float>{7, 8, 9, 12, 13, 14});
  CHECK(floats_of(data::CenterCrop{{1, 2}}(image)) == std::vector<float>{13, 14});  // ties to even
  const Tensor padded = data::CenterCrop{6}(image);
  CHECK(padded.shape() == Shape{1, 6, 6});
  CHECK(equal(padded, pad(image, {0, 1, 1, 1})));

  CHECK(data::Resize{8}(image).shape() == Shape{1, 8, 10});
  CHECK(data::Resize{8}(image.transpose(1, 2)).shape() == Shape{1, 10, 8});
  CHECK(data::Resize{8, 3}(image).shape() == Shape{1, 8, 3});
  CHECK(equal(data::Resize{4}(image), image));
  const Tensor wide = interpolate(
      image.unsqueeze(0), {.size = {2, 3}, .mode = InterpolateMode::bilinear, .antialias = true});
  CHECK(equal(data::Resize{2, 3}(image), wide.squeeze(0)));
  const Tensor bytes = (image * 12).to(u8), small = data::Resize{2, 3}(bytes);
  CHECK(small.dtype() == u8);
  CHECK(max(abs(small.to(f32) - wide.squeeze(0) * 12)).item<float>() <= 0.5f);
}

TEST_CASE("pixels are converted and normalised", "[data]") {
  const Tensor bytes = tensor({0., 51, 255, 102}, {1, 2, 2}).to(u8);
  CHECK(floats_of(data::ConvertImageDtype{}(bytes)) == std::vector<float>{0, 0.2f, 1, 0.4f});
  CHECK(data::ConvertImageDtype{f16}(bytes).dtype() == f16);
  CHECK(data::ConvertImageDtype{f64}(rand({1, 2, 2})).dtype() == f64);
  CHECK_THROWS_AS(data::ConvertImageDtype{u8}(bytes), DtypeError);
  CHECK_THROWS_AS(data::ConvertImageDtype{}(bytes.to(i64)), DtypeError);

  const Tensor image = arange(12.0).view({3, 2, 2}).to(f32);
  const data::Normalize normalize{{1, 2, 3}, {1, 2, 4}};
  CHECK(floats_of(normalize(image)) ==
        std::vector<float>{-1, 0, 1, 2, 1, 1.5f, 2, 2.5f, 1.25f, 1.5f, 1.75f, 2});
  CHECK(equal(normalize(stack({image, image}))[1], normalize(image)));
  CHECK(floats_of(data::Normalize{{1}, {2}}(image))[11] == 5);
  CHECK_THROWS_AS(normalize(bytes), DtypeError);
  CHECK_THROWS_AS(normalize(image[0]), ShapeError);
  CHECK_THROWS_AS(normalize(image.narrow(0, 0, 2)), ShapeError);
  CHECK_THROWS_AS((data::Normalize{{1, 2, 3}, {1, 0, 4}}(image)), ValueError);
}

// torchvision.transforms.functional.rotate, computed with PyTorch 2.15.
TEST_CASE("images are rotated as in torchvision", "[data]") {
  const Tensor image = numbered_image();
  CHECK(floats_of(data::rotate(image, 30)) ==
        std::vector<float>{0, 3, 4, 10, 10, 2, 7, 8, 14, 15, 6, 7, 13, 14, 19, 11, 11, 17, 18, 0});
  CHECK(floats_of(data::rotate(image, -30)) ==
        std::vector<float>{6, 6, 2, 3, 0, 11, 12, 8, 9, 4, 17, 12, 13, 9, 10, 0, 18, 19, 15, 15});
  CHECK(floats_of(data::rotate(image, 100)) ==
        std::vector<float>{5, 10, 14, 19, 0, 4, 9, 13, 18, 0, 0, 3, 8, 12, 17, 0, 2, 7, 11, 16});
  CHECK(equal(data::rotate(image, 360), image));
  CHECK(equal(data::rotate(image, 180), flip(image, {1, 2})));
  const Tensor square = image.narrow(2, 0, 4);
  CHECK(equal(data::rotate(square, 90), flip(square.transpose(1, 2), {1})));
  CHECK(floats_of(data::rotate(image.to(u8), 30, 9))[0] == 9);
  CHECK(data::rotate(image.to(u8), 30, 9).dtype() == u8);
  bool left = false, right = false;
  manual_seed(1);
  for (int i = 0; i < 20; ++i) {
    const Tensor turned = data::RandomRotation{30}(image);
    left |= floats_of(turned)[5] < 6;  // the second row, first column
    right |= floats_of(turned)[5] > 6;
  }
  CHECK((left && right));
  CHECK_THROWS_AS(data::rotate(image, NAN), ValueError);
  CHECK_THROWS_AS(data::rotate(tensor(1.0), 1), ShapeError);
  CHECK_THROWS_AS(data::RandomRotation{-1}(image), ValueError);
}

// The hue by Python's colorsys, the rest by torchvision's formulas.
TEST_CASE("colours are adjusted as in torchvision", "[data]") {
  const Tensor image = colours();
  check_colours(data::adjust_brightness(image, 1.5),
                {{0.3, 0.6, 0.9}, {1, 0.75, 0.15}, {0.45, 0.45, 0.45}});
  check_colours(data::adjust_contrast(image, 1.5),
                {{0.09386, 0.39386, 0.69386}, {1, 0.54386, 0}, {0.24386, 0.24386, 0.24386}});
  check_colours(
      data::adjust_saturation(image, 0.25),
      {{0.32223, 0.37223, 0.42224}, {0.65543, 0.55543, 0.45543}, {0.29998, 0.29998, 0.29998}});
  check_colours(data::adjust_hue(image, 0.25), {{0.6, 0.2, 0.6}, {0.1, 0.9, 0.1}, {0.3, 0.3, 0.3}});
  check_colours(data::adjust_hue(image, -0.4),
                {{0.56, 0.6, 0.2}, {0.18, 0.1, 0.9}, {0.3, 0.3, 0.3}});
  const Tensor grey = image.narrow(0, 0, 1);
  CHECK(equal(data::adjust_saturation(grey, 0.5), grey));
  CHECK(equal(data::adjust_hue(grey, 0.5), grey));
  CHECK(floats_of(data::adjust_contrast(grey, 0))[1] == Approx((0.2 + 0.9 + 0.3) / 3));

  manual_seed(4);
  double least = 9, most = 0;
  for (int i = 0; i < 100; ++i) {
    const double light = data::ColorJitter{.brightness = 0.5}(image)[0][0][0].item<double>() / 0.2;
    least = std::min(least, light);
    most = std::max(most, light);
  }
  CHECK(least > 0.499);
  CHECK(least < 0.6);
  CHECK(most < 1.501);
  CHECK(most > 1.4);
  CHECK(equal(data::ColorJitter{}(image), image));

  CHECK_THROWS_AS(data::adjust_hue(image, 0.6), ValueError);
  CHECK_THROWS_AS(data::adjust_brightness(image, -1), ValueError);
  CHECK_THROWS_WITH_AS_TEXT(data::adjust_contrast(image.to(u8), 1), DtypeError,
                            "adjust_contrast: wrong dtype; got u8[3,1,3]@cpu, expected f32 in "
                            "0..1; data::ConvertImageDtype converts u8");
  CHECK_THROWS_AS(data::adjust_saturation(zeros({2, 2, 2}), 1), ShapeError);
  CHECK_THROWS_AS((data::ColorJitter{.hue = 0.6}(image)), ValueError);
  CHECK_THROWS_AS((data::ColorJitter{.contrast = -0.1}(image)), ValueError);
}

TEST_CASE("bad sizes and images are refused", "[data]") {
  const Tensor image = numbered_image();
  CHECK_THROWS_AS(data::RandomCrop{5}(image), ShapeError);
  CHECK_THROWS_AS(data::RandomCrop{0}(image), ValueError);
  CHECK_THROWS_AS((data::RandomCrop{2, -1}(image)), ValueError);
  CHECK_THROWS_AS((data::RandomCrop{{1, 2, 3}}(image)), ValueError);
  CHECK_THROWS_AS(data::RandomCrop{1}(ones({3})), ShapeError);
  CHECK_THROWS_AS(data::CenterCrop{0}(image), ValueError);
  CHECK_THROWS_AS(data::Resize{0}(image), ValueError);
  CHECK_THROWS_AS((data::Resize{4, -1}(image)), ValueError);
  CHECK_THROWS_AS(data::Resize{INT64_MAX}(image), ValueError);
  CHECK_THROWS_AS(data::Resize{4}(zeros({1, 0, 4})), ShapeError);
  CHECK_THROWS_AS(data::RandomHorizontalFlip{1.5}(image), ValueError);
  CHECK_THROWS_AS(data::RandomVerticalFlip{NAN}(image), ValueError);
  const data::TransformedDataset set(data::Dataset(stack({image, image}), arange(2.0)),
                                     data::RandomCrop{5});
  CHECK_THROWS_WITH_AS_TEXT(
      data::Batches(set, {.shuffle = false}).begin(), ShapeError,
      "batches(sample 0): RandomCrop: the image is smaller than the window; got "
      "f32[1,4,5]@cpu with padding 0, expected at least 5x5 pixels");
}

TEST_CASE("a random window is erased", "[data]") {
  manual_seed(4);
  const Tensor image = rand({3, 20, 30}) + 1;
  int erased = 0;
  double least_area = 1, largest_area = 0, tallest = 0, widest = 0;
  for (int i = 0; i < 400; ++i) {
    const Tensor out = data::RandomErasing{}(image), zero = out == 0.0;
    if (equal(out, image)) continue;
    ++erased;
    const Tensor rows = any(zero[0], {1}), columns = any(zero[0], {0});
    const auto height = sum(rows).item(), width = sum(columns).item();
    CHECK(sum(zero).item() == 3 * height * width);  // a window, the same of all channels
    CHECK(equal(where(zero, image, out), image));
    least_area = std::min(least_area, height * width / 600);
    largest_area = std::max(largest_area, height * width / 600);
    tallest = std::max(tallest, height / width);
    widest = std::max(widest, width / height);
  }
  CHECK((erased > 150 && erased < 250));  // p = 0.5
  CHECK((least_area > 0.008 && least_area < 0.05));
  CHECK((largest_area > 0.25 && largest_area < 0.38));
  CHECK((tallest > 2 && tallest < 5 && widest > 2 && widest < 5));
  CHECK(equal(data::RandomErasing{.p = 0}(image), image));
  CHECK(amax(data::RandomErasing{.p = 1, .value = 7}(image)).item() == 7);
  const Tensor bytes = data::RandomErasing{.p = 1, .value = 9}(zeros({1, 8, 8}, u8));
  CHECK((bytes.dtype() == u8 && amax(bytes).item() == 9));
  const Tensor noise = data::RandomErasing{
      .p = 1, .scale = {0.9, 0.9}, .ratio = {1, 1}, .value = {}}(full({3, 200, 200}, 50));
  const Tensor drawn = masked_select(noise, noise != 50.0);
  CHECK(drawn.numel() > 100000);
  CHECK(std::abs(mean(drawn).item()) < 0.01);
  CHECK(std::abs(mezzo::std(drawn).item() - 1) < 0.01);
}

TEST_CASE("images are blurred, turned and moved by random amounts", "[data]") {
  manual_seed(5);
  const Tensor image = rand({1, 9, 9});
  std::set<double> sums;
  for (int i = 0; i < 20; ++i) {
    const Tensor out = data::GaussianBlur{5, {0.5, 2}}(image);
    CHECK(out.shape() == image.shape());
    const double spread = var(out).item();
    CHECK(spread <= var(data::gaussian_blur(image, 5, 0.5)).item() + 1e-7);
    CHECK(spread >= var(data::gaussian_blur(image, 5, 2)).item() - 1e-7);
    sums.insert(spread);
  }
  CHECK(sums.size() == 20);
  CHECK(equal(data::gaussian_blur(full({1, 3, 3}, 0.5), 3, 1), full({1, 3, 3}, 0.5)));
  CHECK(equal(data::RandomAffine{}(image), image));
  // Moves are of whole pixels, up to 2 of 9 in each direction.
  Tensor point = zeros({1, 9, 9});
  point[{0, 4, 4}] = 1;
  std::set<std::int64_t> places;
  for (int i = 0; i < 300; ++i)
    places.insert(argmax(data::RandomAffine{.translate = {0.25, 0.12}}(point).flatten())
                      .item<std::int64_t>());
  CHECK(places.size() == 5 * 3);
  CHECK(sum(data::RandomAffine{.scale = {3, 3}}(point)).item() == 9);
  CHECK(equal(data::affine(image, {.angle = 90}), data::rotate(image, -90)));
}

TEST_CASE("mixup blends samples and targets by one factor with a Beta distribution", "[data]") {
  manual_seed(6);
  const Tensor x = eye(4), y = tensor({2, 0, 1, 1}, {.dtype = i64});
  for (const double alpha : {0.2, 1.0, 5.0}) {
    double sum_of = 0, squares = 0;
    constexpr int kDraws = 4000;
    for (int i = 0; i < kDraws; ++i) {
      const Batch out = data::MixUp{.num_classes = 3, .alpha = alpha}({x, y});
      const double lambda = out.x[{0, 0}].item();
      sum_of += lambda;
      squares += lambda * lambda;
      if (i >= 20) continue;
      CHECK(allclose(out.x, x * lambda + roll(x, {1}, {0}) * (1 - lambda), {.atol = 1e-6}));
      const Tensor targets = one_hot(y, 3).to(f32);
      CHECK(allclose(out.y, targets * lambda + roll(targets, {1}, {0}) * (1 - lambda),
                     {.atol = 1e-6}));
    }
    const double mean_of = sum_of / kDraws, variance = squares / kDraws - mean_of * mean_of;
    CHECK(std::abs(mean_of - 0.5) < 0.025);
    CHECK(variance == Approx(0.25 / (2 * alpha + 1)).epsilon(0.06));
  }
  const Batch probabilities = data::MixUp{}({x, x.to(f64)});
  CHECK(allclose(probabilities.x.to(f64), probabilities.y, {.rtol = 1e-6}));
  manual_seed(7);
  const Batch first = data::MixUp{.num_classes = 3}({x, y});
  manual_seed(7);
  CHECK(equal(data::MixUp{.num_classes = 3}({x, y}).x, first.x));
  CHECK(data::MixUp{.num_classes = 3}({x.narrow(0, 0, 0), y.narrow(0, 0, 0)}).x.shape() ==
        Shape{0, 4});
  CHECK(std::isfinite(sum(data::MixUp{.num_classes = 3, .alpha = 1e-5}({x, y}).x).item()));
}

TEST_CASE("the newer transforms take one draw and refuse bad options", "[data]") {
  const Tensor image = rand({3, 8, 8});
  const auto draws = [&](const Transform& transform) {
    manual_seed(3);
    (void)transform(image);
    const Generator after = default_generator();
    manual_seed(3);
    (void)default_generator().next_stream();
    return after == default_generator();
  };
  CHECK(draws(data::RandomErasing{.p = 0}));
  CHECK(draws(data::RandomErasing{.p = 1, .value = {}}));
  CHECK(draws(data::GaussianBlur{}));
  CHECK(draws(data::RandomAffine{.degrees = 10, .translate = {0.1, 0.1}, .shear = {-5, 5}}));
  CHECK(draws([](const Tensor& x) { return data::MixUp{}({x, x}).x; }));

  CHECK_THROWS_WITH_AS_TEXT(data::RandomErasing{.p = 2}(image), ValueError, "probability");
  CHECK_THROWS_WITH_AS_TEXT((data::RandomErasing{.scale = {0.5, 2}}(image)), ValueError, "scale");
  CHECK_THROWS_WITH_AS_TEXT((data::RandomErasing{.ratio = {0, 2}}(image)), ValueError, "ratio");
  CHECK_THROWS_AS(data::RandomErasing{}(image[0]), ShapeError);
  CHECK_THROWS_WITH_AS_TEXT(data::RandomErasing{.value = {}}(image.to(u8)), DtypeError, "random");
  CHECK_THROWS_WITH_AS_TEXT((data::GaussianBlur{.kernel_size = 4}(image)), ValueError, "odd");
  CHECK_THROWS_WITH_AS_TEXT((data::GaussianBlur{3, {0, 1}}(image)), ValueError, "sigma");
  CHECK_THROWS_WITH_AS_TEXT(data::gaussian_blur(image, 17, 1), ValueError, "at most 15");
  CHECK_THROWS_WITH_AS_TEXT(data::gaussian_blur(image, 3, -1), ValueError, "sigma");
  CHECK_THROWS_AS(data::gaussian_blur(image.to(i64), 3, 1), DtypeError);
  CHECK_THROWS_WITH_AS_TEXT(data::RandomAffine{.degrees = -1}(image), ValueError, "degrees");
  CHECK_THROWS_WITH_AS_TEXT((data::RandomAffine{.translate = {0, 2}}(image)), ValueError,
                            "translate");
  CHECK_THROWS_WITH_AS_TEXT((data::RandomAffine{.scale = {0, 1}}(image)), ValueError, "scale");
  CHECK_THROWS_WITH_AS_TEXT((data::RandomAffine{.shear = {1, 0}}(image)), ValueError, "shear");
  CHECK_THROWS_WITH_AS_TEXT(data::affine(image, {.scale = 0}), ValueError, "scale");
  CHECK_THROWS_WITH_AS_TEXT(data::affine(image, {.shear = {90, 0}}), ValueError, "collapses");
  CHECK_THROWS_WITH_AS_TEXT(data::affine(image, {.angle = NAN}), ValueError, "finite");
  const Tensor y = zeros({3}, i64);
  CHECK_THROWS_WITH_AS_TEXT((data::MixUp{.alpha = 0}({image, y})), ValueError, "alpha");
  CHECK_THROWS_WITH_AS_TEXT((data::MixUp{.num_classes = -1}({image, y})), ValueError, "classes");
  CHECK_THROWS_WITH_AS_TEXT(data::MixUp{}({image, y}), DtypeError, "num_classes");
  CHECK_THROWS_WITH_AS_TEXT((data::MixUp{.num_classes = 2}({image, zeros({3, 1}, i64)})),
                            ShapeError, "[N]");
  CHECK_THROWS_WITH_AS_TEXT((data::MixUp{.num_classes = 2}({image.to(u8), y})), DtypeError, "x is");
}
