// Convolutions: exact on small integers in every dtype, the same bits for any number of threads,
// invalid arguments rejected.
#include <mezzo.h>

#include <vector>

#include "../../tensor/device/parallel.h"
#include "../support/same_bits.h"
#include "../support/throws.h"

using namespace mezzo;
using testing::same_bits;

namespace {

Tensor conv_integers(const Shape& shape, int seed, int limit = 1) {
  const Tensor x = empty(shape, {.dtype = f64});
  std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761u + 1;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    state = state * 1664525u + 1013904223u;
    x.data<double>()[i] =
        static_cast<int>((state >> 16) % static_cast<unsigned>(2 * limit + 1)) - limit;
  }
  return x;
}

/** Computes a 2-D convolution as a sum over taps of shifted, padded inputs. It uses other ops
 *  only and is exact on integers. */
std::vector<double> reference(const Tensor& x, const Tensor& w, std::int64_t stride,
                              std::int64_t pad) {
  const std::int64_t n = x.size(0), c = x.size(1), h = x.size(2), v = x.size(3), o = w.size(0);
  const Tensor padded = zeros({n, c, h + 2 * pad, v + 2 * pad}, {.dtype = f64});
  padded.narrow(2, pad, h).narrow(3, pad, v).copy_(x);
  const std::int64_t oh = (h + 2 * pad - w.size(2)) / stride + 1,
                     ow = (v + 2 * pad - w.size(3)) / stride + 1;
  Tensor y = zeros({n, oh * ow, o}, {.dtype = f64});
  for (std::int64_t i = 0; i < w.size(2); ++i)
    for (std::int64_t j = 0; j < w.size(3); ++j) {
      const Tensor part = padded.slice(2, i, i + (oh - 1) * stride + 1, stride)
                              .slice(3, j, j + (ow - 1) * stride + 1, stride);
      const Tensor rows = part.permute({0, 2, 3, 1}).reshape({n, oh * ow, c});
      y = y + matmul(rows, w.select(3, j).select(2, i).t());
    }
  return y.transpose(1, 2).contiguous().to_vector<double>();
}

struct Threads {
  explicit Threads(int n) : before(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before;
};

}  // namespace

TEST_CASE("convolutions of small integers are exact in every dtype") {
  struct Sizes {
    Shape x, w;
    std::int64_t stride, pad;
  };
  const std::vector<Sizes> all = {
      {{3, 1, 28, 28}, {32, 1, 5, 5}, 1, 2}, {{2, 5, 14, 14}, {33, 5, 5, 5}, 1, 2},
      {{1, 3, 9, 31}, {17, 3, 3, 2}, 1, 0},  {{20, 2, 4, 4}, {40, 2, 3, 3}, 1, 1},
      {{2, 7, 11, 13}, {5, 7, 3, 3}, 2, 1},  {{3, 2, 1, 1}, {3, 2, 1, 1}, 1, 0},
      {{1, 60, 6, 6}, {4, 60, 3, 3}, 3, 0}};
  for (const Sizes& s : all) {
    const Tensor x = conv_integers(s.x, 1), w = conv_integers(s.w, 2);
    const std::vector<double> expected = reference(x, w, s.stride, s.pad);
    for (const DType dtype : {f16, bf16, f32, f64}) {
      CAPTURE(name(dtype), str(s.x), str(s.w));
      const Tensor y = conv2d(x.to(dtype), w.to(dtype), {}, {.stride = s.stride, .padding = s.pad});
      REQUIRE(y.dtype() == dtype);
      REQUIRE(y.to_vector<double>() == expected);
      const Tensor strided = x.to(dtype).transpose(2, 3).contiguous().transpose(2, 3);
      REQUIRE(
          same_bits(y, conv2d(strided, w.to(dtype), {}, {.stride = s.stride, .padding = s.pad})));
    }
  }
}

TEST_CASE("a convolution and its gradients have the same bits for any number of threads") {
  for (const Shape& shape : std::vector<Shape>{{19, 3, 12, 12}, {1, 6, 20, 9}, {40, 8, 4, 4}})
    for (const DType dtype : {f16, f32}) {
      std::vector<Tensor> first;
      for (const int threads : {1, 2, 4, 8}) {
        const Threads scope(threads);
        const Tensor x = (conv_integers(shape, 1, 500) / 512).to(dtype).requires_grad_();
        const Tensor w =
            (conv_integers({36, shape[1], 3, 3}, 2, 500) / 512).to(dtype).requires_grad_();
        const Tensor b = (conv_integers({36}, 3, 500) / 512).to(dtype).requires_grad_();
        const Tensor y = conv2d(x, w, b, {.stride = {1, 2}, .padding = 1});
        y.backward((conv_integers(y.shape(), 4, 500) / 512).to(dtype));
        const std::vector<Tensor> results = {y, x.grad(), w.grad(), b.grad()};
        if (first.empty()) first = results;
        for (std::size_t i = 0; i < results.size(); ++i) REQUIRE(same_bits(results[i], first[i]));
      }
    }
}

TEST_CASE("the gradients of a convolution are exact on small integers") {
  for (const DType dtype : {bf16, f32}) {
    const Tensor x = conv_integers({5, 2, 6, 7}, 1).to(dtype).requires_grad_(),
                 w = conv_integers({3, 2, 2, 3}, 2).to(dtype).requires_grad_();
    const Tensor g = conv_integers({5, 3, 3, 7}, 3).to(dtype);
    const Tensor y = conv2d(x, w, {}, {.stride = {2, 1}, .padding = {0, 1}});
    y.backward(g);
    const Tensor xd = x.detach().to(f64).requires_grad_(), wd = w.detach().to(f64).requires_grad_();
    conv2d(xd, wd, {}, {.stride = {2, 1}, .padding = {0, 1}}).backward(g.to(f64));
    REQUIRE(x.grad().to_vector<double>() == xd.grad().to_vector<double>());
    REQUIRE(w.grad().to_vector<double>() == wd.grad().to_vector<double>());
  }
}

TEST_CASE("an empty batch of images gives zero weight gradients") {
  const Tensor w = ones({2, 3, 2, 2}, {.requires_grad = true}),
               b = ones({2}, {.requires_grad = true});
  const Tensor y = conv2d(zeros({0, 3, 4, 4}), w, b);
  REQUIRE(y.shape() == Shape{0, 2, 3, 3});
  y.backward(zeros(y.shape()));
  REQUIRE(w.grad().to_vector<double>() == std::vector<double>(24, 0.0));
  REQUIRE(b.grad().to_vector<double>() == std::vector<double>(2, 0.0));
}

TEST_CASE("convolutions reject invalid arguments") {
  const Tensor x = zeros({2, 3, 8, 8}), w = zeros({4, 3, 3, 3});
  CHECK_THROWS_WITH_AS_TEXT(
      conv2d(zeros({2, 4, 8, 8}), w), ShapeError,
      "conv2d: input channels do not fit the weight; got input f32[2,4,8,8]@cpu and weight "
      "f32[4,3,3,3]@cpu, expected 3 channels");
  CHECK_THROWS_WITH_AS_TEXT(conv2d(x, w.to(f16)), DtypeError, "conv2d: dtypes differ; got");
  CHECK_THROWS_WITH_AS_TEXT(conv2d(zeros({2, 3, 2, 8}), w), ShapeError,
                            "conv2d: the kernel does not fit the padded input");
  CHECK_THROWS_WITH_AS_TEXT(conv2d(x, w, {}, {.stride = 0}), ValueError,
                            "conv2d: stride out of range; got [0,0], expected at least 1");
  CHECK_THROWS_WITH_AS_TEXT(conv2d(x, w, {}, {.stride = {1, 1, 1}}), ValueError,
                            "conv2d: wrong number of values for stride; got 3, expected 1 or 2");
  CHECK_THROWS_WITH_AS_TEXT(conv2d(x, w, {}, {.stride = 2, .padding = "same"}), ValueError,
                            "conv2d: padding \"same\" needs stride 1");
  CHECK_THROWS_WITH_AS_TEXT(conv2d(x, zeros({3, 1, 3, 3}), {}, {.groups = 2}), ShapeError,
                            "conv2d: input channels do not fit the weight");
  CHECK_THROWS_AS(conv2d(x, zeros({4, 1, 3, 3}), {}, {.padding = -1, .groups = 3}), ValueError);
  CHECK_THROWS_AS(conv2d(x, zeros({4, 1, 3, 3}), {}, {.groups = 3}), ShapeError);
  CHECK_THROWS_AS(conv2d(x, w, {}, {.groups = 0}), ValueError);
  CHECK_THROWS_AS(conv2d(x, w, zeros({3})), ShapeError);
  CHECK_THROWS_AS(conv2d(zeros({3, 8}), w), ShapeError);
  CHECK_THROWS_AS(conv2d(x, zeros({4, 3, 3})), ShapeError);
  CHECK_THROWS_AS(ConvPadding("full"), ValueError);
  CHECK_THROWS_WITH_AS_TEXT(
      conv_transpose2d(x, zeros({3, 4, 3, 3}), {}, {.stride = 2, .output_padding = 2}), ValueError,
      "conv_transpose2d: output_padding out of range; got [2,2], expected less than the larger "
      "of stride [2,2] and dilation [1,1]");
  CHECK_THROWS_AS(conv_transpose2d(zeros({1, 1, 1, 1}), zeros({1, 1, 1, 1}), {}, {.padding = 1}),
                  ShapeError);
}
