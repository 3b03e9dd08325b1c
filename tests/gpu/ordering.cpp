// Sorting, scans and index_add on the device where the generated op tests do not reach: lines of
// many tiles, many rows with one index, ties and nan; and errors for indices out of range.
#include <mezzo.h>

#include "../support/catch.h"
#include "../support/throws.h"
#include "device.h"
#include "need_device.h"

using namespace mezzo;
using testing::kDevice;

namespace {

/** Returns irregular integers in 0..bound-1. */
Tensor random_whole(const Shape& shape, std::int64_t bound, DType dtype = f32) {
  std::vector<double> values;
  std::uint64_t state = 12345;
  for (std::int64_t i = 0; i < checked_numel(shape, "test"); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    values.push_back(static_cast<double>((state >> 33) % static_cast<std::uint64_t>(bound)));
  }
  return tensor(values, shape, {.dtype = dtype});
}

bool same_or_nan(const Tensor& on_device, const Tensor& on_cpu) {
  if (!(on_device.device() == kDevice) || on_device.dtype() != on_cpu.dtype() ||
      !(on_device.shape() == on_cpu.shape()))
    return false;
  const std::vector<double> a = on_device.to_vector<double>(), b = on_cpu.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  return true;
}

template <class Results> bool both_same(const Results& on_device, const Results& on_cpu) {
  return same_or_nan(on_device.values, on_cpu.values) &&
         same_or_nan(on_device.indices, on_cpu.indices);
}

/** Shapes whose lines fit a block, need several tiles or end within one. */
const std::vector<Shape> kShapes{{1},    {33, 70},  {1024},       {1025},
                                 {9000}, {3, 4097}, {2, 1300, 5}, {0, 4}};

}  // namespace

TEST_CASE("lines of any length are sorted as on the CPU, ties and nan included", "[gpu][order]") {
  NEED_DEVICE();
  for (const DType dtype : {f32, f16, bf16, f64, i64, i32, u8, boolean})
    for (const Shape& shape : kShapes) {
      if (dtype != f32 && shape.rank() != 2) continue;  // only sort keys depend on dtype
      INFO(name(dtype) << str(shape));
      Tensor x = (random_whole(shape, 300) - 100).to(dtype);
      if (dtype == u8 || dtype == boolean) x = random_whole(shape, 3).to(dtype);
      if (is_floating(dtype))
        x = where(x == 7, full({}, NAN, {.dtype = dtype}), where(x == 3, -x * 0, x));
      const Tensor y = x.to(kDevice);
      for (int dim = 0; dim < x.dim(); ++dim) {
        CHECK(both_same(sort(y, {.dim = dim}), sort(x, {.dim = dim})));
        CHECK(both_same(sort(y, {.dim = dim, .descending = true}),
                        sort(x, {.dim = dim, .descending = true})));
        const std::int64_t k = std::min<std::int64_t>(5, x.size(dim));
        if (k == 0) continue;
        CHECK(both_same(topk(y, k, {.dim = dim}), topk(x, k, {.dim = dim})));
        CHECK(both_same(topk(y, k, {.dim = dim, .largest = false, .sorted = false}),
                        topk(x, k, {.dim = dim, .largest = false, .sorted = false})));
        CHECK(both_same(kthvalue(y, k, {.dim = dim}), kthvalue(x, k, {.dim = dim})));
      }
    }
}

TEST_CASE("scans of any length and dimension are exact for integers", "[gpu][order]") {
  NEED_DEVICE();
  for (const Shape& shape :
       {Shape{40000}, Shape{3, 9001}, Shape{9001, 3}, Shape{5, 300, 7}, Shape{0, 3}}) {
    INFO(str(shape));
    const Tensor x = random_whole(shape, 50) - 20, y = x.to(kDevice);
    const Tensor small = random_whole(shape, 7, i64) - 3;
    for (int dim = 0; dim < x.dim(); ++dim) {
      CHECK(same_or_nan(cumsum(y, dim), cumsum(x, dim)));
      CHECK(same_or_nan(cumprod(small.to(kDevice), dim), cumprod(small, dim)));
      CHECK(both_same(cummax(y, dim), cummax(x, dim)));
      CHECK(both_same(cummin(y, dim), cummin(x, dim)));
    }
    CHECK(same_or_nan(nonzero(y), nonzero(x)));
    CHECK(same_or_nan(masked_select(y, y > 3), masked_select(x, x > 3)));
    CHECK(same_or_nan(unique(y).values, unique(x).values));
  }
}

TEST_CASE("a strided tensor is scanned in place", "[gpu][order]") {
  NEED_DEVICE();
  const Tensor x = random_whole({7, 50}, 9), y = x.to(kDevice);
  cumsum_(y.t(), 0);
  cumsum_(x.t(), 0);
  CHECK(same_or_nan(y, x));
}

TEST_CASE("many rows with one index are summed by index_add, and the last one wins in index_put",
          "[gpu][order]") {
  NEED_DEVICE();
  for (const std::int64_t names : {3, 400, 100000}) {
    INFO(names);
    const Tensor rows = random_whole({5000}, names, i64), src = random_whole({5000, 3}, 9) - 4;
    const Tensor table = random_whole({names, 3}, 5), there = table.to(kDevice);
    const Tensor rows_there = rows.to(kDevice), src_there = src.to(kDevice);
    CHECK(same_or_nan(index_add(there, 0, rows_there, src_there), index_add(table, 0, rows, src)));
    CHECK(
        same_or_nan(index_copy(there, 0, rows_there, src_there), index_copy(table, 0, rows, src)));
    CHECK(same_or_nan(index_put(there, {rows_there}, src_there), index_put(table, {rows}, src)));
    CHECK(same_or_nan(index_select(there, 0, rows_there), index_select(table, 0, rows)));
    const Tensor line = table.select(1, 0), values = src.select(1, 1);
    const Tensor line_there = line.to(kDevice), values_there = values.to(kDevice);
    CHECK(same_or_nan(scatter(line_there, 0, rows_there, values_there),
                      scatter(line, 0, rows, values)));
    CHECK(same_or_nan(scatter_add(line_there, 0, rows_there, values_there),
                      scatter_add(line, 0, rows, values)));
  }
}

TEST_CASE("rows of few indices among very many rows are written and added", "[gpu][order]") {
  NEED_DEVICE();
  // A table of a million rows, sorted entries of 8 bytes, and of 16 bytes.
  for (const std::int64_t rows :
       {std::int64_t{1} << 20, std::int64_t{3} << 19, (std::int64_t{1} << 31) + 5}) {
    INFO(rows);
    const Tensor index = tensor({rows - 1, std::int64_t{7}, rows - 1, rows - 3}),
                 at = index.to(kDevice);
    const Tensor there = empty({rows}, {.dtype = u8, .device = kDevice});
    index_copy_(there, 0, at, tensor({1, 2, 3, 4}, {.dtype = u8, .device = kDevice}));
    CHECK(index_select(there, 0, at).to_vector<double>() == std::vector<double>{3, 2, 3, 4});
    index_add_(there, 0, at, tensor({10, 20, 30, 40}, {.dtype = u8, .device = kDevice}));
    CHECK(index_select(there, 0, at).to_vector<double>() == std::vector<double>{43, 22, 43, 44});
  }
}

TEST_CASE("rows of every width are taken from indices of any order", "[gpu][order]") {
  NEED_DEVICE();
  for (const DType dtype : {u8, f16, f32, f64})
    for (const std::int64_t width : {1, 3, 4, 16, 33}) {
      INFO(name(dtype) << " " << width);
      const Tensor table = random_whole({50, width}, 90, dtype);
      for (const std::int64_t count : {1, 2, 300}) {
        const Tensor index = random_whole({count}, 50, i64);
        CHECK(same_or_nan(index_select(table.to(kDevice), 0, index.to(kDevice)),
                          index_select(table, 0, index)));
        const Tensor wide = index.unsqueeze(1).expand({count, width});
        CHECK(same_or_nan(gather(table.to(kDevice), 0, wide.to(kDevice)), gather(table, 0, wide)));
        const Tensor source = random_whole({count, width}, 90, dtype);
        CHECK(same_or_nan(scatter(table.to(kDevice), 0, wide.to(kDevice), source.to(kDevice)),
                          scatter(table, 0, wide, source)));
      }
    }
}

TEST_CASE("an embedding's gradient counts rows and skips padding", "[gpu][order]") {
  NEED_DEVICE();
  const Tensor rows = random_whole({40, 50}, 12, i32), table = random_whole({12, 8}, 9);
  const auto gradient = [&](Device device) {
    const Tensor weight = table.to(device).clone().requires_grad_();
    embedding(rows.to(device), weight, {.padding_idx = 2, .scale_grad_by_freq = true})
        .backward(ones({40, 50, 8}, {.device = device}));
    return weight.grad();
  };
  CHECK(same_or_nan(gradient(kDevice), gradient(cpu)));
}

TEST_CASE("slices of every width are joined and moved", "[gpu][order]") {
  NEED_DEVICE();
  for (const DType dtype : {u8, f16, f32, f64}) {
    INFO(name(dtype));
    std::vector<Tensor> here, there;
    for (std::int64_t i = 0; i < 70; ++i) {  // more than fit one launch
      here.push_back(random_whole({3, i % 5, 16}, 90, dtype));
      there.push_back(here.back().to(kDevice));
    }
    CHECK(same_or_nan(cat(there, 1), cat(here, 1)));
    here.push_back(random_whole({3, 2, 16}, 90, f64));
    there.push_back(here.back().to(kDevice));
    CHECK(same_or_nan(cat(there, 1), cat(here, 1)));
    for (const std::int64_t width : {1, 2, 3, 8, 16, 24}) {
      const Tensor table = random_whole({30, width}, 90, dtype), rows = random_whole({11}, 30, i32);
      CHECK(same_or_nan(embedding(rows.to(kDevice), table.to(kDevice)), embedding(rows, table)));
      CHECK(same_or_nan(index_select(table.t().to(kDevice), 1, rows.to(kDevice)),
                        index_select(table.t(), 1, rows)));
    }
  }
}

TEST_CASE("an index out of range is reported at the next synchronisation with the CPU's text",
          "[gpu][order]") {
  NEED_DEVICE();
  const Tensor x = zeros({4, 3}), src = zeros({2, 3});
  const auto expect = [&](const auto& call, const std::string& text) {
    INFO(text);
    CHECK_THROWS_WITH_AS_TEXT(call(cpu), IndexError, text + "@cpu, expected ");
    CHECK_THROWS_WITH_AS_TEXT(call(kDevice).to(cpu), IndexError, text + "@cuda:0, expected ");
    CHECK(zeros({2}, {.device = kDevice}).to(cpu).numel() == 2);  // reported only once
  };
  const auto rows = [](Device device) {
    return tensor({1, 4}, {2}, {.dtype = i64, .device = device});
  };
  expect([&](Device d) { return index_select(x.to(d), 0, rows(d)); },
         "index_select: index out of range; got 4 at index[1] into dimension 0 of f32[4,3]");
  expect([&](Device d) { return index_add(x.to(d), 0, rows(d), src.to(d)); },
         "index_add: index out of range; got 4 at index[1] into dimension 0 of f32[4,3]");
  expect([&](Device d) { return index_copy(x.to(d), 0, rows(d), src.to(d)); },
         "index_copy: index out of range; got 4 at index[1] into dimension 0 of f32[4,3]");
  expect([&](Device d) { return index(x.to(d), {rows(d)}); },
         "index: index out of range; got 4 at index[1] into dimension 0 of f32[4,3]");
  expect([&](Device d) { return index_put(x.to(d), {rows(d) - 6}, src.to(d)); },
         "index_put: index out of range; got -5 at index[0] into dimension 0 of f32[4,3]");
  expect([&](Device d) { return embedding(rows(d), x.to(d)); },
         "embedding: index out of range; got 4 at index[1] into dimension 0 of f32[4,3]");
  const auto places = [](Device device) {
    return tensor({0, 1, 2, 3, 0, -7}, {2, 3}, {.dtype = i32, .device = device});
  };
  expect([&](Device d) { return gather(x.to(d), 1, places(d)); },
         "gather: index out of range; got 3 at index[1,0] into dimension 1 of f32[4,3]");
  expect([&](Device d) { return scatter(x.to(d), 1, places(d), src.to(d)); },
         "scatter: index out of range; got 3 at index[1,0] into dimension 1 of f32[4,3]");
  expect([&](Device d) { return scatter_add(x.to(d), 1, places(d), src.to(d)); },
         "scatter_add: index out of range; got 3 at index[1,0] into dimension 1 of f32[4,3]");
}

TEST_CASE("of several bad indices the first call's is reported", "[gpu]") {
  NEED_DEVICE();
  const Tensor x = ones({4}).to(kDevice);
  const auto index = [](double value) {
    return full({3}, value, {.dtype = i64, .device = kDevice});
  };
  gather(x, 0, index(1))
      .to(cpu);  // the range of these indices is now checked, that of the classes is not
  const Tensor classes = one_hot(index(9), 5), elements = gather(x, 0, index(7));
  CHECK_THROWS_WITH_AS_TEXT(elements.to(cpu), IndexError, "one_hot: index out of range; got 9");
  CHECK(gather(x, 0, index(1)).to_vector<double>() == std::vector<double>(3, 1.0));
}
