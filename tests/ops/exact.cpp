// Integer-valued operands with shapes that fit no blocking: every partial sum is exact in f32, so a
// product, convolution or reduction must be the exact result rounded once, in every dtype and for
// any order of additions. No tolerance hides a dropped or doubled term.
#include <mezzo.h>

#include <random>

#include "../support/catch.h"
#include "samples.h"

using namespace mezzo;
using cases::Array;

namespace {

const std::vector<DType> kDTypes{f64, f32, f16, bf16};

/** Draws shapes and small integers. */
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  std::int64_t size(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<unsigned long>(high - low + 1));
  }
  /** Returns sizes around the widths of registers, tiles and panels. */
  std::int64_t awkward() {
    static constexpr std::int64_t kSizes[] = {0,  1,  2,  3,  5,  7,  8,  9,  15, 16,
                                              17, 24, 31, 33, 47, 64, 65, 96, 97, 129};
    return kSizes[random_() % std::size(kSizes)];
  }
  Array integers(const Shape& shape) {
    Array x{shape, {}};
    const std::int64_t n = checked_numel(shape, "draw");
    for (std::int64_t i = 0; i < n; ++i) x.values.push_back(static_cast<double>(size(-4, 4)));
    return x;
  }

 private:
  std::mt19937 random_;
};

Tensor exact_leaf(const Array& x, DType dtype, bool transposed = false) {
  const cases::Layout layout = transposed ? cases::Layout::transposed : cases::Layout::contiguous;
  return cases::to_tensor(x, {}, dtype, layout).requires_grad_();
}

/** Returns whether `got` is the exact result rounded to its dtype. A library on a GPU may give
 *  zeros another sign. */
cases::Agreement is_rounded(const Tensor& got, const Array& exact) {
  const NoGrad no_grad;
  return cases::same_numbers(got, tensor(exact.values, exact.shape, {.dtype = f64}).to(got.dtype()),
                             0);
}

/** Returns the sums over r of a(i, r) b(r, j). */
template <class A, class B>
Array exact_product(std::int64_t m, std::int64_t n, std::int64_t k, const A& a, const B& b) {
  Array out{{m, n}, {}};
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double total = 0;
      for (std::int64_t r = 0; r < k; ++r) total += a(i, r) * b(r, j);
      out.values.push_back(total);
    }
  return out;
}

/** The sizes of a convolution with one to three spatial dimensions. */
struct ConvShape {
  std::int64_t batch, in, out, groups;
  std::vector<std::int64_t> size, kernel;
  std::int64_t stride, padding, dilation;

  std::int64_t result(std::size_t d) const {
    return (size[d] + 2 * padding - dilation * (kernel[d] - 1) - 1) / stride + 1;
  }
};

ConvShape draw_conv(Draw& draw, std::size_t dims) {
  ConvShape c{};
  c.batch = draw.size(1, 3);
  c.groups = draw.size(1, 3);
  c.in = c.groups * draw.size(1, 5);
  c.out = c.groups * draw.size(1, 6);
  c.stride = draw.size(1, 3);
  c.padding = draw.size(0, 2);
  c.dilation = draw.size(1, 2);
  for (std::size_t d = 0; d < dims; ++d) {
    c.kernel.push_back(draw.size(1, dims == 3 ? 3 : 5));
    c.size.push_back(c.dilation * (c.kernel[d] - 1) + draw.size(1, dims == 1   ? 40
                                                                   : dims == 2 ? 14
                                                                               : 6));
  }
  return c;
}

/** Calls visit(x index, weight index, y index) for every product in a convolution's sums. */
template <class Visit> void for_each_term(const ConvShape& c, const Visit& visit) {
  // All are treated as three-dimensional, with leading dimensions of size 1.
  std::array<std::int64_t, 3> in{1, 1, 1}, kernel{1, 1, 1}, out{1, 1, 1}, pad{}, step{1, 1, 1};
  for (std::size_t d = 0; d < c.size.size(); ++d) {
    const std::size_t at = 3 - c.size.size() + d;
    in[at] = c.size[d], kernel[at] = c.kernel[d], out[at] = c.result(d), pad[at] = c.padding;
    step[at] = c.stride;
  }
  const std::int64_t group_in = c.in / c.groups, group_out = c.out / c.groups;
  for (std::int64_t n = 0; n < c.batch; ++n)
    for (std::int64_t o = 0; o < c.out; ++o)
      for (std::int64_t i = 0; i < group_in; ++i)
        for (std::int64_t a = 0; a < out[0]; ++a)
          for (std::int64_t b = 0; b < out[1]; ++b)
            for (std::int64_t e = 0; e < out[2]; ++e)
              for (std::int64_t p = 0; p < kernel[0]; ++p)
                for (std::int64_t q = 0; q < kernel[1]; ++q)
                  for (std::int64_t r = 0; r < kernel[2]; ++r) {
                    const std::int64_t x = a * step[0] + p * c.dilation - pad[0];
                    const std::int64_t y = b * step[1] + q * c.dilation - pad[1];
                    const std::int64_t z = e * step[2] + r * c.dilation - pad[2];
                    if (x < 0 || x >= in[0] || y < 0 || y >= in[1] || z < 0 || z >= in[2]) continue;
                    const std::int64_t channel = o / group_out * group_in + i;
                    visit((((n * c.in + channel) * in[0] + x) * in[1] + y) * in[2] + z,
                          (((o * group_in + i) * kernel[0] + p) * kernel[1] + q) * kernel[2] + r,
                          (((n * c.out + o) * out[0] + a) * out[1] + b) * out[2] + e);
                  }
}

Array zeros_of(const Shape& shape) {
  return {shape, std::vector<double>(static_cast<std::size_t>(checked_numel(shape, "zeros")))};
}

double& at(Array& x, std::int64_t i) { return x.values[static_cast<std::size_t>(i)]; }

Tensor convolve(const ConvShape& c, const Tensor& x, const Tensor& w) {
  const std::int64_t s = c.stride, p = c.padding, d = c.dilation, g = c.groups;
  if (c.size.size() == 1)
    return conv1d(x, w, {}, {.stride = s, .padding = p, .dilation = d, .groups = g});
  if (c.size.size() == 2)
    return conv2d(x, w, {}, {.stride = s, .padding = p, .dilation = d, .groups = g});
  return conv3d(x, w, {}, {.stride = s, .padding = p, .dilation = d, .groups = g});
}

Shape joined_shape(std::initializer_list<std::int64_t> front,
                   const std::vector<std::int64_t>& back) {
  std::vector<std::int64_t> sizes(front);
  sizes.insert(sizes.end(), back.begin(), back.end());
  return Shape(std::span<const std::int64_t>(sizes));
}

/** Returns whether the device under test has kernels for the ops. */
bool has_kernels(std::initializer_list<const char*> ops) {
  for (const char* op : ops)
    if (!find_op(op)->kernel[static_cast<std::size_t>(cases::test_device().kind)]) return false;
  return true;
}

}  // namespace

TEST_CASE("matrix products of integers are exact, and their gradients", "[exact]") {
  if (!has_kernels({"mm"})) SKIP_TEST("no kernels for the device under test");
  Draw draw(1);
  for (int trial = 0; trial < 220; ++trial) {
    const std::int64_t m = draw.awkward(), n = draw.awkward(), k = draw.awkward();
    const bool ta = draw.size(0, 1) == 1, tb = draw.size(0, 1) == 1;
    const Array a = draw.integers({m, k}), b = draw.integers({k, n}), g = draw.integers({m, n});
    const auto A = [&](std::int64_t i, std::int64_t j) { return a[i * k + j]; };
    const auto B = [&](std::int64_t i, std::int64_t j) { return b[i * n + j]; };
    const auto G = [&](std::int64_t i, std::int64_t j) { return g[i * n + j]; };
    const Array y = exact_product(m, n, k, A, B);
    const Array da =
        exact_product(m, k, n, G, [&](std::int64_t i, std::int64_t j) { return B(j, i); });
    const Array db =
        exact_product(k, n, m, [&](std::int64_t i, std::int64_t j) { return A(j, i); }, G);
    for (const DType dtype : kDTypes) {
      INFO("[" << m << "," << k << "] x [" << k << "," << n << "] " << name(dtype) << " " << ta
               << tb);
      const Tensor left = exact_leaf(a, dtype, ta), right = exact_leaf(b, dtype, tb);
      const Tensor result = matmul(left, right);
      CHECK(is_rounded(result, y));
      const std::vector<Tensor> gradients =
          grad({result}, {left, right}, {}, {exact_leaf(g, dtype).detach()});
      CHECK(is_rounded(gradients[0], da));
      CHECK(is_rounded(gradients[1], db));
    }
  }
}

TEST_CASE("convolutions of integers are exact, and their gradients", "[exact]") {
  if (!has_kernels({"conv1d", "conv2d", "conv3d"}))
    SKIP_TEST("no kernels for the device under test");
  Draw draw(2);
  for (int trial = 0; trial < 150; ++trial) {
    const ConvShape c = draw_conv(draw, static_cast<std::size_t>(trial % 3) + 1);
    std::vector<std::int64_t> results;
    for (std::size_t d = 0; d < c.size.size(); ++d) results.push_back(c.result(d));
    const Array x = draw.integers(joined_shape({c.batch, c.in}, c.size));
    const Array w = draw.integers(joined_shape({c.out, c.in / c.groups}, c.kernel));
    const Array g = draw.integers(joined_shape({c.batch, c.out}, results));
    Array y = zeros_of(g.shape), dx = zeros_of(x.shape), dw = zeros_of(w.shape);
    for_each_term(c, [&](std::int64_t i, std::int64_t j, std::int64_t o) {
      at(y, o) += x[i] * w[j];
      at(dx, i) += g[o] * w[j];
      at(dw, j) += g[o] * x[i];
    });
    for (const DType dtype : kDTypes) {
      INFO(str(x.shape) << " with " << str(w.shape) << " " << name(dtype) << " stride " << c.stride
                        << " padding " << c.padding << " dilation " << c.dilation << " groups "
                        << c.groups);
      const Tensor input = exact_leaf(x, dtype, trial % 2 == 1), weight = exact_leaf(w, dtype);
      const Tensor result = convolve(c, input, weight);
      CHECK(is_rounded(result, y));
      const std::vector<Tensor> gradients =
          grad({result}, {input, weight}, {}, {exact_leaf(g, dtype).detach()});
      CHECK(is_rounded(gradients[0], dx));
      CHECK(is_rounded(gradients[1], dw));
    }
  }
}

TEST_CASE("sums and cumulative sums of integers are exact along every axis", "[exact]") {
  Draw draw(3);
  std::vector<DType> dtypes = kDTypes;
  dtypes.insert(dtypes.end(), {i32, i64});
  for (int trial = 0; trial < 160; ++trial) {
    const std::int64_t outer = draw.size(1, 9), length = draw.awkward() * draw.size(1, 9);
    const std::int64_t inner = trial % 2 == 0 ? draw.awkward() : draw.size(1, 5);
    const Array x = draw.integers({outer, length, inner});
    Array sums = zeros_of({outer, inner}), running = zeros_of(x.shape);
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t i = 0; i < inner; ++i)
        for (std::int64_t l = 0; l < length; ++l) {
          at(sums, o * inner + i) += x[(o * length + l) * inner + i];
          at(running, (o * length + l) * inner + i) = sums[o * inner + i];
        }
    for (const DType dtype : dtypes) {
      INFO(str(x.shape) << " " << name(dtype));
      const cases::Layout layout =
          trial % 3 == 0 ? cases::Layout::transposed : cases::Layout::contiguous;
      const Tensor operand = cases::to_tensor(x, {}, f64, layout).to(dtype);
      CHECK(is_rounded(sum(operand, 1), sums));
      if (has_kernels({"cumsum"})) CHECK(is_rounded(cumsum(operand, 1), running));
    }
  }
}
