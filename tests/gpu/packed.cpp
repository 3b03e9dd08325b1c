// Kernels on rows of 16-byte packs, on any device: values, gradients and fixed bits.
#include "packed.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;
using namespace packed;

namespace {

/** Returns x, weight and bias of a norm over rows. */
std::vector<Tensor> norm_operands(std::int64_t rows, std::int64_t width, DType dtype,
                                  DType weight) {
  return {(randn({rows, width}) * 2 + 0.5).to(dtype), (randn({width}) + 1).to(weight),
          randn({width}).to(weight)};
}

void check_layer_norm(const std::vector<Tensor>& operands) {
  packed::check(operands, [](const std::vector<Tensor>& t) {
    const bool has_bias = t.size() > 2;
    return layer_norm(
        t[0], {t[0].shape()[1]},
        {.weight = t.size() > 1 ? t[1] : Tensor{}, .bias = has_bias ? t[2] : Tensor{}});
  });
}

void check_rms_norm(const std::vector<Tensor>& operands) {
  packed::check(operands, [](const std::vector<Tensor>& t) {
    return rms_norm(t[0], {t[0].shape()[1]}, {.weight = t.size() > 1 ? t[1] : Tensor{}});
  });
}

void check_softmax(const Tensor& x) {
  packed::check({x}, [](const std::vector<Tensor>& t) { return softmax(t[0], 1); });
  packed::check({x}, [](const std::vector<Tensor>& t) { return log_softmax(t[0], 1); }, 8);
}

/** Returns one class per row of x; every third is ignored. */
Tensor classes_of(const Tensor& x) {
  std::vector<double> classes;
  for (std::int64_t i = 0; i < x.shape()[0]; ++i)
    classes.push_back(i % 3 == 2 ? -100 : static_cast<double>((i * 37 + 5) % x.shape()[1]));
  return tensor(classes, {x.shape()[0]}, {.dtype = i64});
}

void check_cross_entropy(const Tensor& x, Reduction reduction, double smoothing) {
  packed::check({x}, [&](const std::vector<Tensor>& t) {
    return cross_entropy(t[0], classes_of(x).to(t[0].device()),
                         {.reduction = reduction, .label_smoothing = smoothing});
  });
}

void check_sums(const Tensor& x) {
  for (const int dim : {0, 1})
    for (const bool is_mean : {false, true}) {
      if (testing::is_slow(kDevice) && is_mean != (dim == 1)) continue;
      packed::check({x}, [=](const std::vector<Tensor>& t) {
        return is_mean ? mean(t[0], dim) : sum(t[0], dim);
      });
    }
  packed::check({x}, [](const std::vector<Tensor>& t) { return sum(t[0]); });
}

/** Returns the tensors on the device, in the same formats. */
std::vector<Tensor> all_on_device(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> there;
  for (const Tensor& x : tensors) there.push_back(x.to(kDevice));
  return there;
}

/** Checks that an elementwise op and its gradients have the same bits for operands on packs and for
 *  others. */
template <class F> void check_elementwise(const std::vector<Tensor>& operands, const F& f) {
  std::vector<Tensor> there, elsewhere;
  for (const Tensor& x : operands) {
    there.push_back(x.to(kDevice));
    elsewhere.push_back(unaligned(there.back()));
  }
  const std::vector<Tensor> got = alike::results_on(kDevice, there, f),
                            generic = alike::results_on(kDevice, elsewhere, f);
  for (std::size_t i = 0; i < got.size(); ++i)
    if (got[i].defined()) CHECK(alike::distance(got[i], generic[i]) == 0);
}

}  // namespace

TEST_CASE("norms of rows of any width agree with the CPU's in f64", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(11);
  for_each_width([](std::int64_t width, DType dtype) {
    const DType weight = width % 16 == 0 ? f32 : dtype;
    const std::vector<Tensor> operands = norm_operands(3, width, dtype, weight);
    check_layer_norm(operands);
    if (width % 3 == 0) check_rms_norm({operands[0], operands[1]});
  });
}

TEST_CASE("norms of bf16 with weights of f16 agree with the CPU's in f64", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(19);
  for (const Shape& shape : {Shape{9, 264}, Shape{3, 768}, Shape{2, 8192}, Shape{5, 770}}) {
    const auto all = norm_operands(shape[0], shape[1], bf16, f16);
    check_layer_norm(all);
    check_rms_norm({all[0], all[1]});
  }
}

TEST_CASE("norms with and without weight and bias, of one row and of many", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(12);
  const struct {
    DType x, weight;
  } kPairs[] = {{f16, f16}, {f16, f32}, {bf16, bf16}, {bf16, f32}, {f32, f32}};
  for (const auto& dtype : kPairs)
    for (const Shape& shape : {Shape{1, 768}, Shape{9, 264}, Shape{0, 768}}) {
      const auto all = norm_operands(shape[0], shape[1], dtype.x, dtype.weight);
      check_layer_norm(all);
      check_layer_norm({all[0]});
      check_layer_norm({all[0], all[1]});
      check_rms_norm({all[0], all[1]});
      check_rms_norm({all[0]});
    }
  // several rows per block, one after another, and rows of several chunks
  std::size_t turn = 0;
  for (const Shape& shape :
       {Shape{5000, 8}, Shape{4300, 40}, Shape{600, 1040}, Shape{2, 8192}, Shape{2, 16384}}) {
    for (const auto& dtype : kPairs)
      if (!testing::is_slow(kDevice) || &dtype == &kPairs[turn % std::size(kPairs)])
        check_layer_norm(norm_operands(shape[0], shape[1], dtype.x, dtype.weight));
    ++turn;
  }
}

TEST_CASE("norms of rows of packs propagate infinities and nan", "[gpu][packed]") {
  NEED_DEVICE();
  for (const double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)})
    for (const DType dtype : kDtypes) {
      const Tensor x = ones({3, 768}, {.dtype = dtype});
      x.select(0, 1).select(0, 700).fill_(bad);
      const Tensor y = layer_norm(x.to(kDevice), {768}).to(cpu);
      CHECK(sum(isnan(y)).item<std::int64_t>() == 768);
      CHECK(sum(isnan(y.select(0, 1))).item<std::int64_t>() == 768);
    }
}

TEST_CASE("softmax of rows of any width agrees with the CPU's in f64", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(13);
  for_each_width(
      [](std::int64_t width, DType dtype) { check_softmax((randn({3, width}) * 3).to(dtype)); });
  for_each_shape({{5000, 8}, {600, 1040}, {1, 8192}, {0, 64}},
                 [](const Shape& shape, DType dtype) { check_softmax(randn(shape).to(dtype)); });
}

TEST_CASE("softmax of rows of packs propagates -inf, infinities and nan", "[gpu][packed]") {
  NEED_DEVICE();
  const double inf = INFINITY;
  for (const std::int64_t width : {64, 1024, 4096, 40000})
    for (const DType dtype : kDtypes) {
      INFO(width << " " << name(dtype));
      const Tensor x = randn({6, width}).to(dtype);
      x.select(0, 0).fill_(-inf);
      x.select(0, 1).slice(0, 0, width / 2).fill_(-inf);  // whole packs of whole threads
      x.select(0, 2).slice(0, width / 2, width).fill_(-inf);
      x.select(0, 3).select(0, width - 1).fill_(inf);
      x.select(0, 4).select(0, 5).fill_(NAN);
      for (const bool is_log : {false, true}) {
        const auto f = [is_log](const Tensor& t) {
          return is_log ? log_softmax(t, 1) : softmax(t, 1);
        };
        const std::vector<double> got = f(x.to(kDevice)).to_vector<double>(),
                                  expected = f(x.to(f64)).to_vector<double>();
        std::int64_t different = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
          const bool alike = std::isfinite(expected[i]) ? std::abs(got[i] - expected[i]) <
                                                              2e-2 * (1 + std::abs(expected[i]))
                             : std::isnan(expected[i]) ? std::isnan(got[i])
                                                       : got[i] == expected[i];
          different += alike ? 0 : 1;
        }
        CHECK(different == 0);
      }
      CHECK(softmax(x.to(kDevice), 1).select(0, 1).select(0, 3).item<float>() == 0);
    }
}

TEST_CASE("cross entropy of any number of classes agrees with the CPU's in f64", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(14);
  for_each_width([](std::int64_t width, DType dtype) {
    const Reduction reduction = width % 3 == 0   ? Reduction::none
                                : width % 3 == 1 ? Reduction::sum
                                                 : Reduction::mean;
    check_cross_entropy((randn({5, width}) * 3).to(dtype), reduction, width % 16 == 0 ? 0.1 : 0);
  });
  for_each_shape({{1, 50304}, {16, 8192}, {5000, 8}, {300, 2048}},
                 [](const Shape& shape, DType dtype) {
                   for (const double smoothing : {0.0, 0.1})
                     check_cross_entropy((randn(shape) * 3).to(dtype), Reduction::mean, smoothing);
                 });
  for (const DType dtype : {f16, bf16})  // the gradient of f32 rows is stored in 16 bits
    for (const std::int64_t width : {12, 1000})
      packed::check({(randn({5, width}) * 3).to(dtype)}, [&](const std::vector<Tensor>& t) {
        return cross_entropy(t[0].to(t[0].dtype() == f64 ? f64 : f32),
                             classes_of(t[0]).to(t[0].device()));
      });
}

TEST_CASE("a class out of range in rows of packs is reported", "[gpu][packed]") {
  NEED_DEVICE();
  const Tensor x = zeros({2, 4096}, {.device = kDevice});
  const Tensor classes = tensor({3, 4096}, {.dtype = i64});
  const auto text =
      "cross_entropy: class out of range; got 4096 at target[1], expected 0..4095, or ignore_index "
      "-100";
  const Tensor loss = cross_entropy(x, classes.to(kDevice), {.reduction = Reduction::none});
  CHECK_THROWS_WITH_AS_TEXT(loss.to_vector<double>(), IndexError, text);
}

TEST_CASE("sums of rows and columns of any width agree with the CPU's in f64", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(15);
  for_each_width([](std::int64_t width, DType dtype) { check_sums(randn({3, width}).to(dtype)); });
  // Of the last three, rows of columns that are not whole packs are joined.
  for_each_shape({{5000, 8},
                  {4300, 40},
                  {600, 1040},
                  {2000, 264},
                  {1, 100000},
                  {512, 10},
                  {4096, 27},
                  {1600, 65}},
                 [](const Shape& shape, DType dtype) { check_sums(randn(shape).to(dtype)); });
  CHECK(sum(zeros({0, 8}, {.device = kDevice}), 0).to_vector<double>() ==
        std::vector<double>(8, 0));
}

TEST_CASE("other reductions of rows of packs agree with the CPU's", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(18);
  using Operands = const std::vector<Tensor>&;
  const auto check = [](const Tensor& x) {
    packed::check({x}, [](Operands t) { return amax(t[0], -1); });
    packed::check({x}, [](Operands t) { return amin(t[0], -1) + max(t[0], -1).values; });
    packed::check({x}, [](Operands t) { return var(t[0], -1); });
    packed::check({x}, [](Operands t) { return vector_norm(t[0], -1); }, 4);
    packed::check({x}, [](Operands t) { return vector_norm(t[0], -1, {.p = 3}); }, 4);
    packed::check({x}, [](Operands t) { return logsumexp(t[0], -1); });
  };
  for (const DType dtype : kDtypes)
    // teams of a lane, of a warp, of a block, rows in parts, several chunks
    for (const Shape& shape : {Shape{5, 8}, Shape{33, 40}, Shape{3, 768}, Shape{2, 3, 9000},
                               Shape{1, 100000}, Shape{0, 16}, Shape{7, 13}}) {
      // distinct numbers, so that gradients go to one element
      Tensor x = randperm(shape[0] * shape[1] * (shape.rank() > 2 ? shape[2] : 1)).to(f32);
      x = (x.reshape(shape) / 64).to(dtype);
      if (x.numel() < 2048) check(x);
      // many equal elements, nan, infinities: indices and values of the CPU
      Tensor y = randint(-3, 4, shape).to(dtype);
      if (y.numel() > 30) {
        const Tensor flat = y.view({y.numel()});
        flat.slice(0, 5, y.numel(), 1000).fill_(INFINITY);
        flat.slice(0, 7, y.numel(), 1300).fill_(-INFINITY);
        flat.slice(0, 29, y.numel(), 3001).fill_(NAN);
      }
      for (const Tensor& z : {x, y}) {
        const Tensor there = z.to(kDevice);
        INFO(name(dtype) << " " << str(shape));
        CHECK(argmax(there, {.dim = -1}).to_vector<double>() ==
              argmax(z, {.dim = -1}).to_vector<double>());
        CHECK(argmin(there, {.dim = -1}).to_vector<double>() ==
              argmin(z, {.dim = -1}).to_vector<double>());
        const auto values = [](const Tensor& a) { return a.to(cpu).to_vector<double>(); };
        const auto same = [&](const Tensor& a, const Tensor& b) {
          const std::vector<double> u = values(a), v = values(b);
          return std::equal(u.begin(), u.end(), v.begin(), v.end(), [](double p, double q) {
            return p == q || (std::isnan(p) && std::isnan(q));
          });
        };
        CHECK(same(amax(there, -1), amax(z, -1)));
        CHECK(same(amin(there, -1), amin(z, -1)));
        CHECK(same(max(there, -1).values, max(z, -1).values));
        CHECK(same(vector_norm(there, -1, {.p = INFINITY}), vector_norm(z, -1, {.p = INFINITY})));
      }
    }
  // Indices count in row-major order, whatever the order of memory.
  const Tensor image = randn({2, 8, 3, 5});
  const Tensor last = image.to(kDevice).to(MemoryFormat::channels_last);
  CHECK(argmax(last).item<std::int64_t>() == argmax(image).item<std::int64_t>());
  CHECK(argmin(last, {.dim = 1}).to_vector<double>() ==
        argmin(image, {.dim = 1}).to_vector<double>());
  // Sums of squares that leave the range of f32 are scaled.
  for (const double size : {1e25, 1e-30}) {
    const Tensor x = randn({3, 1024}) * size;
    const Tensor there = x.to(kDevice);
    CHECK(alike::distance(vector_norm(there, -1).to(cpu) / size, vector_norm(x, -1) / size) < 1e-5);
    CHECK(alike::distance(mezzo::std(there, -1).to(cpu) / size, mezzo::std(x, -1) / size) < 1e-5);
  }
}

TEST_CASE("sums of columns of several matrices agree with the CPU's in f64", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(17);
  // of one chunk and of several, an odd number of rows and of packs, too few packs
  for_each_shape({{3, 49, 256},
                  {2, 1501, 24},
                  {5, 37, 1040},
                  {300, 3, 8},
                  {2, 3, 70, 64},
                  {0, 9, 256},
                  {3, 512, 10}},
                 [](const Shape& shape, DType dtype) {
                   packed::check({randn(shape).to(dtype)}, [](const std::vector<Tensor>& t) {
                     return mean(t[0], t[0].dim() - 2);
                   });
                 });
  const auto last = [](const Tensor& x) { return x.to(MemoryFormat::channels_last); };
  for (const std::vector<std::int64_t>& dims :
       {std::vector<std::int64_t>{2, 3}, {0, 2, 3}, {1}, {2}, {0, 1, 2, 3}, {1, 3}})
    for_each_shape(
        {{3, 256, 7, 7}, {2, 27, 13, 11}, {4, 64, 20, 1}, {2, 8, 40, 40}},
        [&](const Shape& shape, DType dtype) {
          packed::check({randn(shape).to(dtype)}, [&](const std::vector<Tensor>& t) {
            return sum(last(t[0]), dims) + mean(last(t[0]), dims) * 3;
          });
          // The bits do not depend on the format, except for sums of all but the channels.
          if (dims.size() == 3 && dims[1] == 2) return;
          const Tensor x = randn(shape).to(dtype).to(kDevice);
          CHECK(mean(x, dims).to_vector<double>() == mean(last(x), dims).to_vector<double>());
        });
  // Sums for each channel, in one pass, or of planes and then of images.
  for_each_shape(
      {{2, 64, 32, 32}, {3, 16, 44, 44}, {9, 8, 40, 31}, {33, 12, 256}, {2, 9, 4, 32, 32}},
      [&](const Shape& shape, DType dtype) {
        std::vector<std::int64_t> others{0};
        for (int d = 2; d < shape.rank(); ++d) others.push_back(d);
        packed::check({randn(shape).to(dtype)}, [&](const std::vector<Tensor>& t) {
          return sum(t[0], others) + sum(shape.rank() > 3 ? last(t[0]) : t[0], others);
        });
      });
  // A sum of f32 that overflows is that of a mean within the range.
  Tensor x = full({3, 300, 64}, 1e38);
  const Tensor y = mean(x.to(kDevice), 1);
  CHECK(alike::distance(y.to(cpu), full({3, 64}, 1e38)) < 1e-6);
  const Tensor z = mean(full({2, 512, 10}, 1e38).to(kDevice), 1);
  CHECK(alike::distance(z.to(cpu), full({2, 10}, 1e38)) < 1e-5);
  x[1][7].fill_(NAN);
  const Tensor some = mean(x.to(kDevice), 1).to(cpu);
  CHECK(sum(isnan(some)).item<std::int64_t>() == 64);
  CHECK(sum(isnan(some[1])).item<std::int64_t>() == 64);
}

TEST_CASE("elementwise ops on packs have the bits of the others", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(16);
  const auto check_all = [](const Shape& shape, const Shape& other, DType dtype, DType second) {
    INFO(str(shape) << " " << name(dtype) << " with " << str(other) << " " << name(second));
    const Tensor x = randn(shape).to(dtype), y = (rand(other) + 0.5).to(second),
                 mask = x > zeros_like(x);
    using Operands = const std::vector<Tensor>&;
    check_elementwise({x, y}, [](Operands t) { return t[0] + t[1]; });
    check_elementwise({x, y}, [](Operands t) { return t[0] * t[1]; });
    check_elementwise({x, y}, [](Operands t) { return t[0] / t[1] - 2; });
    check_elementwise({x, y, mask}, [](Operands t) { return where(t[2], t[0], t[1]); });
    check_elementwise({x}, [](Operands t) { return relu(t[0]); });
    check_elementwise({x}, [](Operands t) { return gelu(t[0]); });
    check_elementwise({x}, [](Operands t) { return tanh(t[0]); });
    check_elementwise({x}, [](Operands t) { return exp(t[0] * 0.5); });
    check_elementwise({x}, [](Operands t) { return silu(t[0]); });
    check_elementwise({x}, [](Operands t) { return sigmoid(t[0]); });
    check_elementwise({y}, [](Operands t) { return log(t[0]); });
    check_elementwise(
        {x}, [](Operands t) { return gelu(t[0], {.approximate = GeluApproximation::tanh}); });
    check_elementwise({x, y}, [](Operands t) { return maximum(t[0], t[1]); });
    check_elementwise({x}, [&](Operands t) { return t[0].to(second); });
    check_elementwise({x, mask}, [](Operands t) { return t[0] * t[1].to(t[0].dtype()); });
  };
  for (const DType dtype : kDtypes)
    for (const DType second : kDtypes) {
      check_all({40, 16}, {40, 16}, dtype, second);
      check_all({3, 5, 24}, {24}, dtype, second);  // broadcast
      check_all({3, 5, 24}, {5, 1}, dtype, second);
      check_all({7, 9}, {7, 9}, dtype, second);
    }
  check_all({64, 130, 8}, {64, 130, 8}, bf16, bf16);  // several blocks
}

TEST_CASE("gelu by a table has the bits of its formula, for every number of 16 bits",
          "[gpu][packed]") {
  NEED_DEVICE();
  constexpr std::int64_t kAll = 65536, kTimes = 257;  // together enough for a table
  for (const DType dtype : {f16, bf16})
    for (const std::int64_t step : {1, 8193}) {  // neighbours, or numbers of all magnitudes
      // the shorter formula of f16 differs from the full one, which a pack with -inf takes
      if (dtype == f16 && step > 1) continue;
      const Tensor numbers = empty({kAll}, {.dtype = dtype}), incoming = empty_like(numbers);
      auto *x = static_cast<std::uint16_t*>(numbers.raw_data()),
           *g = static_cast<std::uint16_t*>(incoming.raw_data());
      for (std::int64_t i = 0; i < kAll; ++i) {
        x[i] = static_cast<std::uint16_t>(i * step);
        g[i] = static_cast<std::uint16_t>(i * 7919);
      }
      for (const auto form : {GeluApproximation::none, GeluApproximation::tanh}) {
        INFO(name(dtype) << ", step " << step << ", form " << static_cast<int>(form));
        const auto results = [&](std::int64_t times) {
          const auto repeated = [times](const Tensor& t) {
            return t.to(kDevice).expand({times, kAll}).contiguous();
          };
          const Tensor leaf = repeated(numbers).requires_grad_();
          const Tensor y = gelu(leaf, {.approximate = form});
          return std::vector<Tensor>{
              y.detach().to(cpu),
              grad(TensorList(y), TensorList(leaf), {}, TensorList(repeated(incoming)))[0].to(cpu)};
        };
        const std::vector<Tensor> expected = results(1), got = results(kTimes);
        for (std::size_t i = 0; i < got.size(); ++i)
          for (std::int64_t k = 0; k < kTimes; ++k)
            REQUIRE(std::memcmp(got[i][k].raw_data(), expected[i].raw_data(), 2 * kAll) == 0);
      }
    }
}

TEST_CASE("elementwise ops of broadcast operands have the CPU's bits", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(20);
  using Operands = const std::vector<Tensor>&;
  const auto check_broadcast = [](const Tensor& x, const Tensor& y) {
    INFO(name(x.dtype()) << str(x.shape()) << " with " << name(y.dtype()) << str(y.shape()));
    const auto check_op = [](const std::vector<Tensor>& operands, const auto& f) {
      check_elementwise(operands, f);
      const Tensor got = f(all_on_device(operands)).to(cpu);
      CHECK(got.to_vector<double>() == f(operands).template to_vector<double>());
    };
    const Tensor mask = y > zeros_like(y);
    check_op({x, y}, [](Operands t) { return t[0] + t[1]; });
    check_op({y, x}, [](Operands t) { return t[0] - t[1] * 2; });
    check_op({x, y, mask}, [](Operands t) { return where(t[2], t[0], t[1]); });
    check_op({x, mask}, [](Operands t) { return masked_fill(t[0], t[1], 2); });
    const std::vector<Tensor> there = all_on_device({x, y});
    CHECK(gt(there[0], there[1]).to_vector<double>() == gt(x, y).to_vector<double>());
    CHECK(ne(there[1], there[0]).to_vector<double>() == ne(y, x).to_vector<double>());
    CHECK(isnan(sqrt(there[0] + there[1])).to_vector<double>() ==
          isnan(sqrt(x + y)).to_vector<double>());
    if (x.dtype() == y.dtype())
      CHECK(add_(there[0].clone(), there[1]).to_vector<double>() == (x + y).to_vector<double>());
    CHECK(there[1].expand(x.shape()).contiguous().to_vector<double>() ==
          y.expand(x.shape()).to_vector<double>());
  };
  const std::pair<DType, DType> dtypes[] = {{f32, f32}, {bf16, bf16}, {f32, f16}, {f16, f32}};
  for (const std::pair<DType, DType>& both : dtypes) {
    const DType first = both.first, second = both.second;
    const auto check_shapes = [&](const Shape& shape, const std::vector<Shape>& others) {
      for (const Shape& other : others)
        check_broadcast(randn(shape).to(first), randn(other).to(second));
    };
    // a part of a warp, several warps, several blocks, runs that are no packs, none
    for (const std::int64_t size : {8, 264, 3 * 2048 + 8, 1004, 1001})
      check_shapes({size}, {{size}, {1}});
    check_shapes({5, 512}, {{512}, {5, 1}, {1, 1}});  // rows of whole warps
    check_shapes({7, 40}, {{40}, {7, 1}});
    check_shapes({7, 36}, {{36}, {7, 1}});
    check_shapes({2, 3, 16, 16}, {{3, 1, 1}, {2, 1, 1, 1}, {16, 1}, {2, 3, 1, 16}});
    check_shapes({2, 3, 4, 5, 8}, {{3, 1, 5, 1}, {2, 1, 4, 1, 8}, {3, 4, 1, 1}});
    check_shapes({2, 3, 7, 7}, {{3, 1, 1}, {7}});
    // rows with gaps, at multiples of 16 bytes and others
    const Tensor wide = randn({6, 64}).to(first), y = randn({6, 1}).to(second);
    for (const std::int64_t gap : {16, 3}) {
      const Tensor there = wide.to(kDevice).narrow(1, gap, 32) * y.to(kDevice);
      CHECK(there.to_vector<double>() == (wide.narrow(1, gap, 32) * y).to_vector<double>());
    }
    const auto last = [](const Tensor& x) { return x.to(MemoryFormat::channels_last); };
    check_broadcast(last(randn({2, 8, 5, 3}).to(first)), randn({8, 1, 1}).to(second));
    check_broadcast(last(randn({2, 8, 5, 3}).to(first)), last(randn({2, 1, 5, 3}).to(second)));
  }
}

TEST_CASE("conversions between all dtypes have the CPU's bits", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(21);
  const DType all[] = {boolean, u8, i32, i64, f16, bf16, f32, f64};
  // integers, or the bits of f64 with one nan
  const auto values = [](const Tensor& x) {
    if (!is_floating(x.dtype())) return x.to_vector<std::int64_t>();
    std::vector<std::int64_t> bits;
    for (const double value : x.to_vector<double>())
      bits.push_back(std::bit_cast<std::int64_t>(std::isnan(value) ? double{NAN} : value));
    return bits;
  };
  for (const std::int64_t size : {1, 5, 64, 4096 + 67}) {
    Tensor x = randn({size}, {.dtype = f64}) * 300;
    const double special[] = {NAN, INFINITY, -INFINITY, 0.0,  -0.0,
                              3e9, -1e19,    65519.9,   1e-7, 255.5};
    for (std::int64_t i = 0; i < size && i < 50; ++i)
      if (i % 5 == 4) x[i].fill_(special[i / 5]);
    for (const DType from : all) {
      const Tensor here = x.to(from), there = here.to(kDevice);
      for (const DType to : all) {
        INFO(name(from) << " to " << name(to) << " of " << size);
        const std::vector<std::int64_t> expected = values(here.to(to));
        CHECK(values(there.to(to).clone()) == expected);
        if (size < 4096) CHECK(values(unaligned(there).to(to)) == expected);
      }
    }
  }
}

TEST_CASE("resizing many planes has the bits of resizing one, and agrees with the CPU",
          "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(22);
  const Tensor x = randn({19, 1, 241, 240});  // 2^20 elements and more in each pass
  for (const bool antialias : {false, true})
    for (const InterpolateMode mode : {InterpolateMode::nearest, InterpolateMode::bilinear}) {
      if (antialias && mode == InterpolateMode::nearest) continue;
      const InterpolateOptions options{.size = {243, 242}, .mode = mode, .antialias = antialias};
      const auto resized = [&](const Tensor& image) { return interpolate(image, options); };
      const Tensor there = x.to(kDevice).requires_grad_(), all = resized(there);
      const Tensor g = all.detach() + 1,
                   gradient = grad(TensorList(all), TensorList(there), {}, TensorList(g))[0];
      for (const std::int64_t i : {0, 7, 8, 18}) {
        const Tensor one = there.detach().narrow(0, i, 1).requires_grad_(), y = resized(one);
        CHECK(y.to_vector<double>() == all.narrow(0, i, 1).to_vector<double>());
        CHECK(grad(TensorList(y), TensorList(one), {}, TensorList(g.narrow(0, i, 1)))[0]
                  .to_vector<double>() == gradient.narrow(0, i, 1).to_vector<double>());
        CHECK(alike::distance(y.detach().to(cpu), resized(x.narrow(0, i, 1))) < 1e-5);
      }
    }
}

TEST_CASE("the gradient of a sum is passed on, or summed in f32 over broadcast dimensions",
          "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(16);
  for (const DType dtype : {f32, f16, bf16})
    for (const auto& [shape, rows] : {std::pair{Shape{70, 6, 64}, Shape{6, 64}},
                                      {Shape{300, 8}, Shape{8}},
                                      {Shape{3, 5, 7}, Shape{5, 7}},
                                      {Shape{5, 1, 8}, Shape{1, 8}},
                                      {Shape{40}, Shape{}},
                                      {Shape{0, 8}, Shape{8}},
                                      {Shape{4, 3, 8}, Shape{3, 1}}}) {
      INFO(name(dtype) << " " << str(shape) << " " << str(rows));
      const Tensor g = randn(shape).to(dtype).to(kDevice);
      const Tensor x = randn(shape).to(dtype).to(kDevice).requires_grad_(),
                   other = randn(rows).to(dtype).to(kDevice).requires_grad_();
      const Tensor wide = g.to(f32);
      const Tensor summed =
          rows.rank() == 2 && rows[1] == 1 ? sum(wide, {0, 2}, {.keepdim = true}) : sum(wide, 0);
      const std::vector<double> expected = summed.to(dtype).to(cpu).to_vector<double>(),
                                incoming = g.to(cpu).to_vector<double>();
      (x + other).backward(g);
      CHECK(x.grad().to(cpu).to_vector<double>() == incoming);
      CHECK(other.grad().to(cpu).to_vector<double>() == expected);
      x.grad().fill_(7);
      CHECK(g.to(cpu).to_vector<double>() == incoming);
    }
  const Tensor a = ones({}, {.device = kDevice}).requires_grad_(),
               b = ones({}, {.device = kDevice}).requires_grad_();
  (a + b + a).backward();
  CHECK(a.grad().item<double>() == 2);
  a.grad().fill_(5);
  CHECK(b.grad().item<double>() == 1);
  b.set_grad({});
  (a + b).backward();  // the shared 1 that backward passes start from was not written
  CHECK(b.grad().item<double>() == 1);
}

TEST_CASE("captured steps and streams join the gradients of a norm each with their own counters",
          "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(14);
  const Tensor x = randn({600, 64}).to(f16).to(kDevice), g = randn({600, 64}).to(f16).to(kDevice);
  const Tensor weight = randn({64}).to(f16).to(kDevice).requires_grad_(),
               bias = randn({64}).to(f16).to(kDevice).requires_grad_();
  const auto gradients = [&](const std::vector<Tensor>& in) {
    const Tensor y = layer_norm(in[0], {64}, {.weight = weight, .bias = bias});
    return grad(std::span(&y, 1), {weight, bias}, {}, std::span(&g, 1));
  };
  const auto values = [](const std::vector<Tensor>& t) {
    return std::pair{t[0].to(cpu).to_vector<double>(), t[1].to(cpu).to_vector<double>()};
  };
  const auto expected = values(gradients({x}));
  gpu::CapturedStep first(gradients, {kDevice}), second(gradients, {kDevice});
  for (int i = 0; i < 4; ++i) {
    CHECK(values(first({x})) == expected);
    CHECK(values(second({x})) == expected);
    CHECK(values(gradients({x})) == expected);
  }
  const gpu::Stream other(kDevice);
  const gpu::StreamScope scope(other);
  CHECK(values(gradients({x})) == expected);
}
