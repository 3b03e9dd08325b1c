// Convolutions of images and weights in either memory format: the same bits in all combinations, on
// a GPU within roundings.
#include <mezzo.h>

#include "../support/catch.h"
#include "../support/values.h"
#include "joined.h"

using namespace mezzo;
using namespace cases::joined;
using testing::kLast;
using testing::kRows;

namespace {

/** A convolution, or a transposed one, and the shapes of its operands. */
struct Problem {
  bool transposed;
  Shape x, weight;
  std::int64_t stride, padding, dilation, groups;

  std::string label(DType dtype) const {
    return str(transposed ? "transposed " : "", name(dtype), " ", x, " by ", weight, ", stride ",
               stride, ", padding ", padding, ", dilation ", dilation, ", groups ", groups);
  }
  std::int64_t out_channels() const { return transposed ? weight[1] * groups : weight[0]; }

  Tensor operator()(const Tensor& input, const Tensor& kernel, const Tensor& bias) const {
    const bool volumes = weight.rank() == 5;
    if (transposed) {
      const ConvTransposeOptions options{
          .stride = stride, .padding = padding, .groups = groups, .dilation = dilation};
      return volumes ? conv_transpose3d(input, kernel, bias, options)
                     : conv_transpose2d(input, kernel, bias, options);
    }
    const ConvOptions options{
        .stride = stride, .padding = padding, .dilation = dilation, .groups = groups};
    return volumes ? conv3d(input, kernel, bias, options) : conv2d(input, kernel, bias, options);
  }
};

const std::vector<Problem>& problems() {
  static const std::vector<Problem> kProblems{
      // Channels: few, odd, more than a panel; 64 are spread over the cache (conv_plan_cpu.cpp).
      {false, {2, 3, 7, 6}, {5, 3, 3, 3}, 1, 1, 1, 1},
      {false, {3, 64, 5, 5}, {33, 64, 3, 3}, 1, 1, 1, 1},
      {false, {1, 20, 6, 9}, {40, 20, 3, 3}, 2, 1, 1, 1},
      // Enough channels and tiles for Winograd's algorithm: odd numbers, more than fit a block of
      // output channels, images that are read in place.
      {false, {2, 33, 9, 14}, {70, 33, 3, 3}, 1, 1, 1, 1},
      {false, {3, 64, 10, 8}, {96, 64, 3, 3}, 1, 0, 1, 1},
      {false, {1, 48, 11, 13}, {34, 48, 3, 3}, 1, 2, 1, 1},
      {true, {4, 36, 8, 8}, {36, 40, 3, 3}, 1, 1, 1, 1},
      // Images that are read in place.
      {false, {2, 16, 5, 4}, {7, 16, 1, 1}, 1, 0, 1, 1},
      {false, {2, 17, 5, 4}, {64, 17, 1, 1}, 2, 0, 1, 1},
      {false, {2, 64, 5, 4}, {8, 64, 2, 2}, 1, 0, 1, 1},
      {false, {1, 4, 9, 9}, {6, 4, 2, 3}, 3, 0, 2, 1},
      // Groups of even and of odd sizes.
      {false, {2, 12, 5, 5}, {6, 4, 3, 3}, 1, 1, 1, 3},
      {false, {2, 9, 5, 5}, {6, 3, 3, 3}, 1, 2, 1, 3},
      {false, {2, 8, 5, 5}, {8, 1, 3, 3}, 1, 1, 1, 8},
      {false, {2, 3, 3, 4, 4}, {4, 3, 2, 3, 3}, 1, 1, 1, 1},
      // Without a batch, [C,D,H,W] has no channels-last form.
      {false, {3, 3, 4, 4}, {4, 3, 2, 3, 3}, 1, 1, 1, 1},
      {true, {2, 5, 4, 3}, {5, 3, 3, 3}, 2, 1, 1, 1},
      {true, {1, 64, 4, 4}, {64, 34, 3, 3}, 1, 1, 1, 1},
      {true, {2, 6, 4, 4}, {6, 3, 2, 2}, 2, 0, 1, 2},
      {true, {2, 6, 4, 4}, {6, 2, 1, 1}, 1, 0, 1, 3},
  };
  return kProblems;
}

/** Runs a problem on operands in these formats. Returns y, and the gradients of images and weight,
 *  where that of y is `seed`. */
std::vector<Tensor> run(const Problem& problem, const std::vector<Tensor>& values,
                        const Tensor& seed, MemoryFormat images, MemoryFormat weight) {
  const Tensor x = values[0].clone().to(images).requires_grad_(),
               w = values[1].clone().to(weight).requires_grad_();
  const Tensor y = problem(x, w, values[2]);
  y.backward(seed.to(images));
  return {y.detach(), x.grad(), w.grad()};
}

void check_formats(const Problem& problem, DType dtype) {
  INFO(problem.label(dtype));
  const auto drawn = [&](const Shape& s) { return leaf(s, dtype, 1).detach(); };
  const std::vector<Tensor> values{drawn(problem.x), drawn(problem.weight),
                                   drawn({problem.out_channels()})};
  const Tensor seed = drawn(problem(values[0], values[1], values[2]).shape());
  const std::vector<Tensor> expected = run(problem, values, seed, kRows, kRows);
  for (const MemoryFormat images : {kRows, kLast})
    for (const MemoryFormat weight : {kRows, kLast}) {
      INFO("images " << name(images) << ", weight " << name(weight));
      const std::vector<Tensor> got = run(problem, values, seed, images, weight);
      CHECK(same_numbers(got, expected));
      const bool is_batch = problem.x.rank() == problem.weight.rank();
      if (is_batch && images == kLast) CHECK(got[0].is_contiguous(kLast));
    }
}

}  // namespace

TEST_CASE("convolutions have the same bits in all memory formats, on a GPU the same numbers",
          "[ops][channels_last]") {
  int turn = 0;
  for (const DType dtype : {f32, bf16, f16, f64})
    for (const Problem& problem : problems()) {
      if (testing::is_slow() && turn++ % 3 != 0) continue;
      manual_seed(7);
      check_formats(problem, dtype);
    }
}
