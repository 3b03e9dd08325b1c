// Compares transforms of images with stored results of torchvision.
#include "../support/catch.h"
#include "drawn.h"
#include "folder.h"

using namespace mezzo;

namespace golden {

namespace {

struct TransformCase {
  const char* name;
  data::Transform transform;
  Shape shape;
};

data::Transform affine(const data::AffineOptions& options) {
  return [options](const Tensor& x) {
    data::AffineOptions with_fill = options;
    with_fill.fill = 2;
    return data::affine(x, with_fill);
  };
}

data::Transform blur(std::int64_t kernel_size, double sigma) {
  return [=](const Tensor& x) { return data::gaussian_blur(x, kernel_size, sigma); };
}

data::Transform grid(const GridOptions& options = {}) {
  return [options](const Tensor& x) { return make_grid(x, options); };
}

/** As CASES of transforms.py, then FLOATS. */
std::vector<TransformCase> cases() {
  const Shape image{3, 11, 16};
  return {
      {"Resize smaller", data::Resize{7}, image},
      {"Resize larger", data::Resize{20}, image},
      {"Resize tall", data::Resize{5}, {1, 23, 9}},
      {"Resize both", data::Resize{6, 21}, image},
      {"CenterCrop", data::CenterCrop{6}, image},
      {"CenterCrop odd", data::CenterCrop{{4, 9}}, image},
      {"CenterCrop larger", data::CenterCrop{{14, 7}}, image},
      {"RandomResizedCrop wide",
       data::RandomResizedCrop{.size = {5, 8}, .scale = {1, 1}},
       {3, 6, 50}},
      {"RandomResizedCrop tall", data::RandomResizedCrop{.size = 9, .scale = {1, 1}}, {3, 41, 7}},
      {"GaussianBlur", blur(3, 0.7), image},
      {"GaussianBlur wide", blur(7, 2.5), {2, 4, 9}},
      {"RandomAffine turned", affine({.angle = 33}), image},
      {"RandomAffine moved", affine({.translate = {3, -2}}), image},
      {"RandomAffine scaled", affine({.scale = 1.7}), image},
      {"RandomAffine sheared", affine({.shear = {21, -14}}), image},
      {"RandomAffine all",
       affine({.angle = -71, .translate = {2, 1}, .scale = 0.6, .shear = {10, 5}}),
       {3, 12, 9}},
      {"make_grid", grid({.nrow = 3}), {5, 3, 4, 6}},
      {"make_grid grey", grid({.nrow = 2, .padding = 1, .pad_value = 3}), {4, 1, 3, 5}},
      {"make_grid one", grid(), {1, 1, 3, 5}},
      {"make_grid two dimensions", grid(), {3, 5}},
      {"make_grid normalized", grid({.normalize = true}), {3, 1, 4, 5}},
      {"make_grid each normalized", grid({.normalize = true, .scale_each = true}), {3, 3, 4, 5}},
      {"make_grid from a range",
       grid({.normalize = true, .value_range = std::pair(-0.5, 0.75)}),
       {3, 3, 4, 5}}};
}

}  // namespace

TEST_CASE("images are transformed as by torchvision") {
  std::map<std::string, Tensor> stored;
  for (auto& [name, x] : load_tensors(str(folder(), "/transforms.safetensors")).tensors)
    stored[name] = x;
  std::size_t k = 0;
  for (const TransformCase& c : cases()) {
    INFO(c.name);
    const Tensor numbers = drawn(k++, c.shape, f64);
    const Tensor wanted = stored.at(c.name), got = c.transform(numbers.to(f32));
    REQUIRE(got.shape() == wanted.shape());
    CHECK(max(abs(got - wanted)).item() <= 2e-6);
    if (!stored.contains(str(c.name, ":u8"))) continue;
    const Tensor bytes = stored.at(str(c.name, ":u8")),
                 of_bytes = c.transform((numbers * 127 + 128).to(u8));
    REQUIRE(of_bytes.dtype() == u8);
    REQUIRE(of_bytes.shape() == bytes.shape());
    // A half may be rounded to the other side, as sums have another order.
    CHECK(max(abs(of_bytes.to(f32) - bytes.to(f32))).item() <= 1);
    CHECK(mean(abs(of_bytes.to(f32) - bytes.to(f32))).item() <= 0.01);
  }
  CHECK(stored.size() == 2 * k - 3);  // u8 cannot be normalized
}

}  // namespace golden
