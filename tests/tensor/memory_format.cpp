// Memory formats: strides match PyTorch's, ops keep the format of their operands, values and
// gradients do not depend on it.
#include <mezzo.h>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

constexpr MemoryFormat kLast = MemoryFormat::channels_last, kRows = MemoryFormat::contiguous;

Tensor scattered(const Shape& shape) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < checked_numel(shape, "test"); ++i)
    values.push_back(static_cast<double>(i * 7919 % 251) / 64 - 2);
  return tensor(values, shape);
}

Tensor last(const Shape& shape) { return scattered(shape).to(kLast); }

bool is_last(const Tensor& x) {
  return x.is_contiguous(kLast) && !x.is_contiguous() &&
         x.strides() == strides_in(kLast, x.shape());
}
bool is_rows(const Tensor& x) {
  return x.is_contiguous() && x.strides() == contiguous_strides(x.shape());
}

/** Returns whether shape, dtype and elements are equal, whatever the formats. */
bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         a.contiguous().to_vector<double>() == b.contiguous().to_vector<double>();
}

}  // namespace

TEST_CASE("strides of memory formats match PyTorch's, sizes of 0 and 1 included", "[format]") {
  struct Golden {  // recorded from torch 1.13
    Shape shape;
    Strides made,
        contiguous;  // x.to(memory_format=channels_last), x.contiguous(memory_format=channels_last)
    bool is_both, is_last;  // channels_last is also row-major; x is already channels-last
  };
  const std::vector<Golden> all{
      {{2, 3, 4, 5}, {60, 1, 15, 3}, {60, 1, 15, 3}, false, false},
      {{1, 3, 4, 5}, {60, 1, 15, 3}, {60, 1, 15, 3}, false, false},
      {{2, 1, 4, 5}, {20, 1, 5, 1}, {20, 20, 5, 1}, true, true},
      {{2, 3, 1, 5}, {15, 1, 15, 3}, {15, 1, 15, 3}, false, false},
      {{2, 3, 4, 1}, {12, 1, 3, 3}, {12, 1, 3, 3}, false, false},
      {{2, 3, 1, 1}, {3, 1, 3, 3}, {3, 1, 1, 1}, true, true},
      {{2, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, true, true},
      {{1, 1, 4, 5}, {20, 1, 5, 1}, {20, 20, 5, 1}, true, true},
      {{1, 3, 1, 1}, {3, 1, 3, 3}, {3, 1, 1, 1}, true, true},
      {{2, 1, 4, 1}, {4, 1, 1, 1}, {4, 4, 1, 1}, true, true},
      {{2, 1, 1, 5}, {5, 1, 5, 1}, {5, 5, 5, 1}, true, true},
      {{0, 3, 4, 5}, {60, 1, 15, 3}, {60, 1, 15, 3}, true, false},
      {{2, 0, 4, 5}, {0, 1, 0, 0}, {0, 1, 0, 0}, true, false},
      {{2, 3, 0, 5}, {0, 1, 15, 3}, {0, 1, 15, 3}, true, false},
      {{2, 3, 4, 0}, {0, 1, 0, 3}, {0, 1, 0, 3}, true, false},
      {{2, 3, 2, 4, 5}, {120, 1, 60, 15, 3}, {120, 1, 60, 15, 3}, false, false},
      {{2, 3, 1, 1, 1}, {3, 1, 3, 3, 3}, {3, 1, 1, 1, 1}, true, true},
      {{1, 1, 2, 4, 5}, {40, 1, 20, 5, 1}, {40, 40, 20, 5, 1}, true, true},
  };
  for (const Golden& g : all) {
    INFO(str(g.shape));
    const Tensor x = scattered(g.shape), y = x.to(kLast);
    CHECK(x.is_contiguous(kLast) == g.is_last);
    CHECK(y.strides() == g.made);
    CHECK(x.contiguous(kLast).strides() == g.contiguous);
    CHECK(y.is_contiguous(kLast));
    CHECK(y.is_contiguous() == g.is_both);
    CHECK(same(y, x));
    CHECK(y.to(kLast).is_same(y));
    CHECK(y.contiguous(kLast).is_same(y));
    if (x.numel() > 0) {
      CHECK(y.clone().strides() == g.made);
      CHECK(y.to(f16).strides() == g.made);
      CHECK(zeros_like(y).strides() == g.made);
      CHECK(y.to(kRows).strides() == x.strides());
    }
    CHECK(y.contiguous().is_contiguous());
    CHECK(y.contiguous().is_same(y) == g.is_both);
    CHECK(x.to(kRows).is_same(x));
  }
}

TEST_CASE("elementwise results have PyTorch's strides", "[format]") {
  const Tensor x = last({2, 3, 4, 5}), y = scattered({2, 3, 4, 5});
  const Strides channels{60, 1, 15, 3}, rows{60, 20, 5, 1};
  const auto corner = [](const Tensor& z) { return z.narrow(2, 0, 1).narrow(3, 0, 1); };
  // The first operand of the result's shape decides the format.
  CHECK((x * y).strides() == channels);
  CHECK((y * x).strides() == rows);
  CHECK((x * 2).strides() == channels);
  CHECK((2 - x).strides() == channels);
  CHECK(relu(x).strides() == channels);
  CHECK((x > 0).strides() == channels);
  CHECK(where(x > 0, y, x).strides() == channels);
  CHECK(where(y > 0, x, y).strides() == rows);
  CHECK(masked_fill(x, y > 0, 1).strides() == channels);
  CHECK(dropout(x, {.p = 0.5}).strides() == channels);
  CHECK(x.to(f16).strides() == channels);
  CHECK((x.to(f16) * y).strides() == channels);
  CHECK((x * corner(y)).strides() == channels);
  CHECK((corner(y) * x).strides() == channels);
  CHECK((corner(x) * y).strides() == rows);
  CHECK((x * scattered({5})).strides() == channels);
  CHECK((scattered({3, 1, 1}) * x).strides() == channels);
  CHECK((x.narrow(1, 0, 1) * y).strides() == rows);
  // The order is found in strided memory with gaps; the result has none.
  CHECK((x.narrow(1, 0, 2) * 2).strides() == Strides{40, 1, 10, 2});
  CHECK((x.slice(2, 0, 4, 2) + 1).strides() == Strides{30, 1, 15, 3});
  CHECK(x.narrow(1, 0, 2).clone().strides() == Strides{40, 1, 10, 2});
  CHECK(x.slice(2, 0, 4, 2).contiguous(kLast).strides() == Strides{30, 1, 15, 3});
  // Row-major where sizes of 1 make the operands both formats.
  const Tensor both = last({2, 3, 1, 1});
  CHECK((both * both).strides() == Strides{3, 1, 1, 1});
  CHECK(relu(both).strides() == Strides{3, 1, 1, 1});
  CHECK((last({2, 3, 2, 4, 5}) * 2).strides() == Strides{120, 1, 60, 15, 3});
}

TEST_CASE("convolutions, pooling, resizing and padding keep channels-last", "[format]") {
  const Tensor x = last({2, 3, 8, 6}), rows = scattered({2, 3, 8, 6});
  const Tensor w = scattered({4, 3, 3, 3}), point = scattered({4, 3, 1, 1}),
               transposed = scattered({3, 4, 3, 3});
  const auto keeps = [&](const auto& call) {
    const Tensor y = call(x);
    CHECK(is_last(y));
    const Tensor expected = call(rows);
    CHECK(is_rows(expected));
    CHECK(same(y, expected));
  };
  keeps([&](const Tensor& z) { return conv2d(z, w, scattered({4})); });
  keeps([&](const Tensor& z) { return conv2d(z, point); });
  keeps([&](const Tensor& z) { return conv_transpose2d(z, transposed, {}, {.stride = 2}); });
  keeps([](const Tensor& z) { return max_pool2d(z, 2); });
  keeps([](const Tensor& z) { return avg_pool2d(z, 2); });
  keeps([](const Tensor& z) { return adaptive_avg_pool2d(z, {3, 2}); });
  keeps([](const Tensor& z) { return adaptive_max_pool2d(z, {3, 2}); });
  keeps([](const Tensor& z) { return interpolate(z, {.scale_factor = {2}}); });
  keeps([](const Tensor& z) {
    return interpolate(z, {.size = {5, 9}, .mode = InterpolateMode::bilinear});
  });
  keeps([](const Tensor& z) { return pad(z, {1, 2, 0, 1}); });
  keeps([](const Tensor& z) { return pad(z, {1, 2}, {.mode = PadMode::reflect}); });
  // A channels-last weight is enough, even where the sizes of its kernel make it both formats.
  CHECK(is_last(conv2d(rows, w.to(kLast))));
  CHECK(is_last(conv2d(rows, point.to(kLast))));
  CHECK(same(conv2d(rows, w.to(kLast)), conv2d(rows, w)));
  CHECK(adaptive_avg_pool2d(x, {1, 1}).strides() == Strides{3, 1, 3, 3});
  const Tensor volume = last({2, 3, 4, 5, 6});
  CHECK(is_last(conv3d(volume, scattered({4, 3, 2, 2, 2}))));
  CHECK(is_last(max_pool3d(volume, 2)));
  // Without a batch the dimensions differ: four dimensions of a volume are not an image batch.
  const Tensor single = last({3, 4, 5, 6});
  CHECK(is_rows(conv3d(single, scattered({4, 3, 2, 2, 2}).to(kLast))));
  CHECK(is_rows(max_pool3d(single, 2)));
  CHECK(same(conv3d(single, scattered({4, 3, 2, 2, 2}).to(kLast)),
             conv3d(single.contiguous(), scattered({4, 3, 2, 2, 2}))));
}

TEST_CASE("gradients of a convolution have its result's format and the same values", "[format]") {
  const auto gradients = [](MemoryFormat of_x, MemoryFormat of_w, const Tensor& g) {
    const Tensor x = scattered({2, 3, 6, 5}).to(of_x).requires_grad_(),
                 w = scattered({4, 3, 3, 3}).to(of_w).requires_grad_();
    const Tensor y = conv2d(x, w, {}, {.padding = 1});
    return grad(TensorList(y), std::vector{x, w}, {}, TensorList(g));
  };
  const Tensor g = scattered({2, 4, 6, 5});
  const std::vector<Tensor> expected = gradients(kRows, kRows, g);
  for (const Tensor& rows : expected) CHECK(is_rows(rows));
  for (const auto& [of_x, of_w] : {std::pair{kLast, kLast}, {kLast, kRows}, {kRows, kLast}})
    for (const Tensor& incoming : {g, g.to(kLast)}) {
      const std::vector<Tensor> got = gradients(of_x, of_w, incoming);
      for (std::size_t i = 0; i < 2; ++i) {
        CHECK(is_last(got[i]));
        CHECK(same(got[i], expected[i]));
      }
    }
}

TEST_CASE("gradients flow through changes of format", "[format]") {
  const Tensor x = scattered({2, 3, 4, 5}).requires_grad_();
  const Tensor y = x.to(kLast);
  CHECK(y.requires_grad());
  sum(y * y).backward();
  CHECK(same(x.grad(), 2 * x.detach()));
  const auto there_and_back = [](const std::vector<Tensor>& in) {
    return std::vector{in[0].to(kLast) * in[0].contiguous(kLast).to(kRows)};
  };
  const Tensor wide = scattered({2, 3, 2, 2}).to(f64).requires_grad_();
  CHECK(gradcheck(there_and_back, {wide}).report == "");
  CHECK(gradgradcheck(there_and_back, {wide}).report == "");
}

TEST_CASE("the gradient of a leaf has the leaf's format", "[format]") {
  for (const MemoryFormat format : {kRows, kLast})
    for (const MemoryFormat incoming : {kRows, kLast}) {
      const Tensor w = scattered({2, 3, 4, 5}).to(format).requires_grad_();
      const Tensor factor = scattered({2, 3, 4, 5}).to(incoming);
      for (int times = 1; times <= 2; ++times) {
        sum(factor * w).backward();
        CHECK(same_dense_layout(w.grad(), w));
        CHECK(w.grad().is_contiguous(format));
        CHECK(same(w.grad(), times * factor));
      }
    }
}

TEST_CASE("views of channels-last tensors have the right values", "[format]") {
  const Tensor x = last({2, 3, 4, 5}), rows = scattered({2, 3, 4, 5});
  CHECK(same(x.flatten(1), rows.flatten(1)));
  CHECK(same(x.reshape({6, 20}), rows.reshape({6, 20})));
  CHECK_THROWS_AS(x.view({6, 20}), ShapeError);
  CHECK(same(x.transpose(1, 2), rows.transpose(1, 2)));
  CHECK(x.permute({0, 2, 3, 1}).is_contiguous());
  CHECK(same(x.permute({0, 2, 3, 1}).contiguous(), rows.permute({0, 2, 3, 1})));
  const Tensor written = last({2, 3, 4, 5});
  written.select(1, 1).fill_(7);
  add_(mul_(written, 2), rows);
  CHECK(is_last(written));
  const Tensor expected = rows.clone();
  expected.select(1, 1).fill_(7);
  CHECK(same(written, expected * 2 + rows));
  written.copy_(rows);
  CHECK((is_last(written) && same(written, rows)));
}

TEST_CASE("a dropout mask is the same in every format", "[format]") {
  const Tensor rows = ones({2, 3, 8, 9}), x = rows.to(kLast);
  manual_seed(5);
  const Tensor expected = dropout(rows, {.p = 0.4});
  manual_seed(5);
  CHECK(same(dropout(x, {.p = 0.4}), expected));
  manual_seed(6);
  const Tensor noise = normal_(zeros({2, 3, 8, 9}));
  manual_seed(6);
  CHECK(same(normal_(zeros({2, 3, 8, 9}).to(kLast)), noise));
}

TEST_CASE("channels-last rejects other ranks; the error has shape and expectation", "[format]") {
  const Tensor x = scattered({3, 4});
  CHECK_THROWS_WITH_AS_TEXT(
      x.to(kLast), ShapeError,
      "to: channels_last needs an image or a volume; got f32[3,4]@cpu, expected 4 or 5");
  CHECK_THROWS_WITH_AS_TEXT(x.contiguous(kLast), ShapeError, "contiguous: channels_last");
  CHECK_THROWS_AS(scattered({2, 2, 2, 2, 2, 2}).to(kLast), ShapeError);
  CHECK_THROWS_AS(Tensor().to(kLast), ValueError);
  CHECK_FALSE(x.is_contiguous(kLast));
  CHECK(x.to(kRows).is_same(x));
  CHECK(name(kLast) == "channels_last");
}
