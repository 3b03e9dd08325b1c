// Scans of long lines, by CUB and by our own kernels, and selections: results are the CPU's.
#include <mezzo.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "../../cuda/own_kernels.h"
#include "../support/catch.h"
#include "device.h"
#include "need_device.h"

using namespace mezzo;
using testing::kDevice;

namespace {

using Results = std::vector<Tensor>;
using ScanCall = std::function<Results(const Tensor& x)>;

/** Returns small numbers of which some are 0, -0, nan and infinite. */
Tensor mixed_specials(const Shape& shape, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double special[] = {0.0, -0.0, kInfinity, -kInfinity,
                            std::numeric_limits<double>::quiet_NaN()};
  std::vector<double> values;
  for (std::int64_t i = 0; i < checked_numel(shape, "test"); ++i) {
    const auto number = static_cast<double>(i * 7919 % 41);
    const bool is_special = is_floating(dtype) && i % 1009 < (i > 9000 ? 5 : 2);
    values.push_back(is_special ? special[i % 1009] : std::max(0.0, number - 20));
  }
  return tensor(values, shape).to(dtype);
}

/** Checks that a call gives the CPU's results on the device, with CUB and without. */
void check_same(const ScanCall& call, const Tensor& x) {
  const Results expected = call(x);
  const auto check = [&] {
    const Results got = call(x.to(kDevice));
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::vector<double> a = got[i].to_vector<double>(), b = expected[i].to_vector<double>();
      REQUIRE(a.size() == b.size());
      for (std::size_t k = 0; k < a.size(); ++k)
        if (a[k] != b[k] && !(std::isnan(a[k]) && std::isnan(b[k]))) {
          INFO("result " << i << ", element " << k << ": " << a[k] << " and " << b[k]);
          FAIL_CHECK("differs");
          break;
        }
    }
  };
  check();
  const gpu::OwnKernels own;
  check();
}

Results both(const ValuesAndIndices& r) { return {r.values, r.indices}; }

}  // namespace

TEST_CASE("sums, products and extremes along long lines are the CPU's", "[gpu][scan]") {
  NEED_DEVICE();
  for (const Shape& shape : {Shape{8191}, Shape{20'000}, Shape{1, 9000, 1}, Shape{2, 9000}}) {
    const std::int64_t dim = shape.rank() == 1 ? 0 : 1;
    for (const DType dtype : {boolean, u8, i32, i64}) {
      INFO(name(dtype) << " " << str(shape));
      const Tensor x = mixed_specials(shape, dtype);
      check_same([=](const Tensor& t) { return Results{cumsum(t, dim)}; }, x);
      check_same([=](const Tensor& t) { return Results{cumprod(t, dim)}; }, x);
    }
    for (const DType dtype : {u8, i64, f16, f32, f64}) {
      INFO(name(dtype) << " " << str(shape));
      const Tensor x = mixed_specials(shape, dtype);
      check_same([=](const Tensor& t) { return both(cummax(t, dim)); }, x);
      check_same([=](const Tensor& t) { return both(cummin(t, dim)); }, x);
    }
  }
}

TEST_CASE("sums and extremes of rows of any length are the CPU's", "[gpu][scan]") {
  NEED_DEVICE();
  for (const Shape& shape : {Shape{9, 1}, Shape{40, 4}, Shape{3, 20}, Shape{5, 64}, Shape{33, 36},
                             Shape{3, 132}, Shape{2, 1028}, Shape{2, 9000}, Shape{3, 7, 5}})
    for (const DType dtype : {i32, i64, f16, bf16, f32, f64}) {
      INFO(name(dtype) << " " << str(shape));
      std::vector<double> values;  // whole numbers with small sums, which are exact in any order
      for (std::int64_t i = 0; i < checked_numel(shape, "test"); ++i)
        values.push_back(static_cast<double>(i * 7919 % 3) - 1);
      const Tensor x = tensor(values, shape).to(dtype);
      check_same([](const Tensor& t) { return Results{cumsum(t, -1)}; }, x);
      check_same([](const Tensor& t) { return both(cummax(t, -1)); }, x);
      if (!is_floating(dtype)) continue;
      // the gradient sums from the end
      check_same(
          [](const Tensor& t) {
            const Tensor leaf = t.clone().requires_grad_();
            cumsum(leaf, -1).backward(t);
            return Results{leaf.grad()};
          },
          x);
      check_same(
          [](const Tensor& t) {  // an address that is no multiple of 16
            const Tensor flat = t.flatten(), longer = cat({flat.narrow(0, 0, 1), flat}, 0);
            return Results{cumsum(longer.narrow(0, 1, t.numel()).view(t.shape()), -1)};
          },
          x);
    }
}

TEST_CASE("sums along long lines of floats have the same bits in every run", "[gpu][scan]") {
  NEED_DEVICE();
  const NoGrad no_grad;
  const Tensor x = rand({20'000}).to(kDevice);
  const std::vector<double> first = cumsum(x, 0).to_vector<double>();
  for (int i = 0; i < 3; ++i) CHECK(cumsum(x, 0).to_vector<double>() == first);
}

TEST_CASE("the elements that are not 0 are selected as on the CPU", "[gpu][scan]") {
  NEED_DEVICE();
  for (const DType dtype : {boolean, u8, i32, i64, f16, bf16, f32, f64})
    for (const Shape& shape : {Shape{100}, Shape{20'000}, Shape{90, 7, 30}, Shape{}}) {
      INFO(name(dtype) << " " << str(shape));
      const Tensor x = mixed_specials(shape, dtype);
      check_same([](const Tensor& t) { return Results{nonzero(t)}; }, x);
      check_same([](const Tensor& t) { return Results{masked_select(t, t != 0)}; }, x);
      check_same([](const Tensor& t) { return Results{nonzero(zeros_like(t))}; }, x);
      check_same([](const Tensor& t) { return Results{nonzero(ones_like(t))}; }, x);
    }
}

TEST_CASE("elements are selected in views, by masks that broadcast, and with gradients",
          "[gpu][scan]") {
  NEED_DEVICE();
  for (const DType dtype : {boolean, u8, i32, i64, f16, bf16, f32, f64}) {
    INFO(name(dtype));
    const Tensor x = mixed_specials({90, 6, 31}, dtype);
    const auto gaps = [](const Tensor& t) { return t.transpose(0, 2).narrow(1, 1, 4); };
    check_same([&](const Tensor& t) { return Results{nonzero(gaps(t))}; }, x);
    check_same([&](const Tensor& t) { return Results{masked_select(gaps(t), gaps(t) != 0)}; }, x);
    check_same(  // addresses that are no multiples of 16, and a length that is no multiple of 8
        [](const Tensor& t) {
          const Tensor flat = t.flatten(), part = flat.narrow(0, 1, flat.numel() - 4);
          return Results{nonzero(part), masked_select(part, part != 0)};
        },
        x);
    check_same(
        [](const Tensor& t) {
          const Tensor rows = t.select(0, 3) != 0, column = rows.narrow(1, 5, 1);
          return Results{masked_select(t, rows), masked_select(t, column),
                         masked_select(t.select(0, 1).select(0, 1), rows),
                         masked_select(t.narrow(0, 0, 1).select(1, 0), t.select(1, 0) != 0)};
        },
        x);
    check_same(
        [](const Tensor& t) {
          const Tensor none = t.narrow(0, 0, 0), one = t.select(0, 0).select(0, 0).select(0, 7);
          return Results{nonzero(none),
                         masked_select(none, none != 0),
                         masked_select(t, one != 0),
                         masked_select(one, t != 0),
                         masked_select(t, ones_like(t).to(boolean)),
                         masked_select(t, zeros_like(t).to(boolean))};
        },
        x);
    if (!is_floating(dtype)) continue;
    check_same(
        [](const Tensor& t) {
          const Tensor leaf = t.clone().requires_grad_();
          const Tensor y = masked_select(leaf, t.select(0, 3) != 0);
          y.backward(y.detach());
          return Results{y, leaf.grad()};
        },
        x);
  }
}

TEST_CASE("a captured scan by CUB gives the bits of an eager one", "[gpu][scan][graph]") {
  NEED_DEVICE();
  const NoGrad no_grad;
  const Tensor x = mixed_specials({20'000}, i32).to(kDevice);
  gpu::CapturedStep step([](const Results& in) { return Results{cumsum(in[0], 0)}; }, {kDevice});
  const std::vector<std::int64_t> eager = cumsum(x, 0).to_vector<std::int64_t>();
  for (int i = 0; i < 4; ++i) CHECK(step({x})[0].to_vector<std::int64_t>() == eager);
}
