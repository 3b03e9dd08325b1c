// Sorts of long lines, by CUB where it is predicted to be faster, and by our own kernels: values
// and indices are the CPU's, with nan, signed zeros and equal elements.
#include <mezzo.h>

#include <limits>
#include <string>
#include <vector>

#include "../../cuda/own_kernels.h"
#include "../support/catch.h"
#include "device.h"
#include "need_device.h"

using namespace mezzo;
using testing::kDevice;

namespace {

/** Returns numbers of which many are equal, with the special ones among them. */
Tensor mixed(const Shape& shape, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double special[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 0.0,
                            -0.0};
  std::vector<double> values;
  for (std::int64_t i = 0; i < checked_numel(shape, "test"); ++i) {
    const auto number = static_cast<double>(i * 7919 % 2039) - 1019;
    const bool is_special = is_floating(dtype) && i % 97 < 5;
    values.push_back(is_special                ? special[i % 97]
                     : dtype == DType::u8      ? std::abs(number) / 4
                     : is_floating(dtype)      ? number / 8
                     : dtype == DType::boolean ? number > 0
                                               : number);
  }
  return tensor(values, shape).to(dtype);
}

/** Returns values and indices as text, so that nan compares equal. */
std::vector<std::string> text_of(const ValuesAndIndices& r) {
  std::vector<std::string> all;
  const std::vector<double> values = r.values.to_vector<double>();
  const std::vector<std::int64_t> indices = r.indices.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    all.push_back(
        str(values[i], std::signbit(values[i]) && values[i] == 0 ? "-" : "", " at ", indices[i]));
  return all;
}

std::vector<std::string> sorted(const Tensor& x, bool descending) {
  return text_of(sort(x, {.dim = -1, .descending = descending}));
}

}  // namespace

TEST_CASE("long lines are sorted as on the CPU, by CUB and by our own kernels", "[gpu][sort]") {
  NEED_DEVICE();
  for (const DType dtype : {f32, f16, bf16, i32, u8, boolean, f64, i64})
    for (const Shape& shape : {Shape{1025}, Shape{9000}, Shape{3, 2050}, Shape{7, 1100}})
      for (const bool descending : {false, true}) {
        INFO(name(dtype) << " " << str(shape) << " " << descending);
        const Tensor x = mixed(shape, dtype);
        const std::vector<std::string> expected = sorted(x, descending);
        CHECK(sorted(x.to(kDevice), descending) == expected);
        const gpu::OwnKernels own;
        CHECK(sorted(x.to(kDevice), descending) == expected);
      }
}

TEST_CASE("several lines, or 16-bit ones, that CUB sorts are sorted as on the CPU", "[gpu][sort]") {
  NEED_DEVICE();
  for (const auto& [dtype, shape] :
       {std::pair{f32, Shape{2, 150'000}}, std::pair{f16, Shape{300'000}}}) {
    const Tensor x = mixed(shape, dtype);
    CHECK(sorted(x.to(kDevice), false) == sorted(x, false));
  }
}

TEST_CASE("the first of long lines are those of the CPU", "[gpu][sort]") {
  NEED_DEVICE();
  for (const DType dtype : {f32, bf16, u8, f64, i64})
    for (const Shape& shape :
         {Shape{1025}, Shape{20'000}, Shape{3, 2050}, Shape{2, 4096}, Shape{4, 513}}) {
      const Tensor x = mixed(shape, dtype), y = x.to(kDevice);
      CHECK(text_of(median(y, -1)) == text_of(median(x, -1)));
      for (const std::int64_t k : {1, 50, 128, 512, 513, 1000}) {
        if (k > x.size(-1)) continue;
        INFO(name(dtype) << " " << str(shape) << " " << k);
        for (const bool largest : {false, true})
          for (const bool in_order : {false, true}) {
            const TopkOptions options{.dim = -1, .largest = largest, .sorted = in_order};
            CHECK(text_of(topk(y, k, options)) == text_of(topk(x, k, options)));
          }
        CHECK(text_of(kthvalue(y, k)) == text_of(kthvalue(x, k)));
      }
    }
}

TEST_CASE("a captured sort gives the bits of an eager one", "[gpu][sort][graph]") {
  NEED_DEVICE();
  const NoGrad no_grad;
  const Tensor x = mixed({5000}, f32).to(kDevice);
  gpu::CapturedStep step(
      [](const std::vector<Tensor>& in) {
        const ValuesAndIndices r = sort(in[0], {.dim = -1});
        return std::vector{r.indices};
      },
      {kDevice});
  const std::vector<std::int64_t> eager = sort(x, {.dim = -1}).indices.to_vector<std::int64_t>();
  for (int i = 0; i < 4; ++i) CHECK(step({x})[0].to_vector<std::int64_t>() == eager);
}
