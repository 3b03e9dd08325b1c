// Products by tiles (tensor/cpu/gemm_tile.h): the documented order of sums, bit for bit, in the
// CPU's instructions where it has them and in the library's model of them elsewhere.
#include <mezzo.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <limits>
#include <vector>

#include "../support/catch.h"
#include "../support/exact_products.h"
#include "../support/tiles.h"
#include "samples.h"

using namespace mezzo;
using cases::same_bits;

namespace {

using Floats = std::vector<float>;

constexpr float kFloatInf = std::numeric_limits<float>::infinity();

float flushed(float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
float multiply_add(float a, float b, float c) {
  return flushed(std::fma(flushed(a), flushed(b), flushed(c)));
}

/** Returns sum + the products of terms [from, from + 32) of a and b: an instruction for tiles. */
float add_step(const Floats& a, const Floats& b, std::size_t from, float sum) {
  float chains[2] = {0, 0};
  for (std::size_t t = 0; t < 32; ++t) {
    const float x = from + t < a.size() ? a[from + t] : 0,
                y = from + t < b.size() ? b[from + t] : 0;
    chains[t % 2] = multiply_add(x, y, chains[t % 2]);
  }
  return flushed(flushed(sum) + flushed(chains[0] + chains[1]));
}

float rounded_to(float x, DType dtype) {
  return full({1}, x, {.dtype = f32}).to(dtype).item<float>();
}

/** Returns the sum of products of bf16 numbers, or of f16 numbers by their parts. */
float model(const Floats& a, const Floats& b, DType dtype) {
  float sum = 0;
  if (dtype == bf16) {
    for (std::size_t at = 0; at < a.size(); at += 32) sum = add_step(a, b, at, sum);
    return sum;
  }
  const auto parts = [](const Floats& x) {
    std::array<Floats, 2> found;
    for (const float value : x) {
      const float high = rounded_to(value, bf16);
      found[0].push_back(high);
      found[1].push_back(value - high);
    }
    return found;
  };
  const auto x = parts(a), y = parts(b);
  for (std::size_t at = 0; at < a.size(); at += 32)
    for (const auto& [i, j] : {std::pair{0, 0}, {1, 0}, {1, 1}, {0, 1}})
      sum = add_step(x[static_cast<std::size_t>(i)], y[static_cast<std::size_t>(j)], at, sum);
  return sum;
}

Floats floats_of(const Tensor& x) { return x.to(f32).contiguous().to_vector<float>(); }

/** Returns the matrix product by the model, rounded once. */
Tensor expected_product(const Tensor& a, const Tensor& b) {
  const std::int64_t m = a.size(0), n = b.size(1);
  std::vector<Floats> rows, columns;
  for (std::int64_t i = 0; i < m; ++i) rows.push_back(floats_of(a.select(0, i)));
  for (std::int64_t j = 0; j < n; ++j) columns.push_back(floats_of(b.select(1, j)));
  Floats result;
  for (const Floats& row : rows)
    for (const Floats& column : columns) result.push_back(model(row, column, a.dtype()));
  return tensor(result, {m, n}).to(a.dtype());
}

/** Returns how many elements differ; nan equals nan. */
std::int64_t differing(const Tensor& a, const Tensor& b) {
  const Floats x = floats_of(a), y = floats_of(b);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!(std::isnan(x[i]) && std::isnan(y[i])))
      count += !same_bits(full({1}, x[i]), full({1}, y[i]));
  return count;
}

/** Matrices of finite numbers: uniform, of many magnitudes, tiny ones, and sums that cancel. */
Tensor drawn_tile(std::int64_t m, std::int64_t n, DType dtype, int kind) {
  Tensor x = randn({m, n});
  if (kind == 1) x = x * exp2(floor(rand({m, n}) * (dtype == bf16 ? 40 : 16) - 8));
  if (kind == 2) x = x * (dtype == bf16 ? 0x1p-63 : 0x1p-15);
  return x.to(dtype);
}

/** Calls f with the CPU's instructions, if it has them, and with the model. */
void with_tiles(const std::function<void()>& f) {
  const ExactProducts scope(false);
  if (!has_tiles()) {
    WARN("the kernels in use have no tiles");
    return;
  }
  if (has_tile_unit()) f();
  const TileModel tiles(true);
  f();
}

}  // namespace

TEST_CASE("the chosen instruction set is printed", "[.isa_name]") {
  std::cout << "\nchosen: " << str(cpu_isa()) << "\n";
}

TEST_CASE("products by tiles have the documented order of sums", "[tiles]") {
  with_tiles([] {
    manual_seed(1);
    for (const DType dtype : {bf16, f16})
      for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{32, 32, 32},
                                    {16, 16, 64},
                                    {33, 47, 100},
                                    {8, 40, 31},
                                    {45, 20, 1025},
                                    {9, 65, 513},
                                    {64, 33, 96}})
        for (const int kind : {0, 1, 2}) {
          const Tensor a = drawn_tile(m, k, dtype, kind), b = drawn_tile(k, n, dtype, kind);
          INFO(m << " x " << n << " x " << k << ", kind " << kind);
          const Tensor expected = expected_product(a, b);
          CHECK(differing(mm(a, b), expected) == 0);
          CHECK(differing(mm(a.t().contiguous().t(), b.t().contiguous().t()), expected) == 0);
          CHECK(differing(linear(a, b.t().contiguous()), expected) == 0);
          const Tensor wide = zeros({m, 3 * k}, {.dtype = dtype});
          wide.slice(1, 0, 3 * k, 3).copy_(a);
          CHECK(differing(mm(wide.slice(1, 0, 3 * k, 3), b), expected) == 0);
        }
  });
}

TEST_CASE("sums by tiles that cancel show the order of their terms", "[tiles]") {
  with_tiles([] {
    manual_seed(2);
    for (const DType dtype : {bf16, f16}) {
      const Tensor half = drawn_tile(12, 320, dtype, 0), other = drawn_tile(320, 24, dtype, 0);
      const Tensor order = randperm(320);
      const Tensor a = cat({half, -index_select(half, 1, order)}, 1),
                   b = cat({other, index_select(other, 0, order)}, 0);
      const Tensor y = mm(a, b);
      CHECK(differing(y, expected_product(a, b)) == 0);
      CHECK(sum((y != 0).to(f32)).item<double>() > 100);  // what is left are rounding errors
    }
  });
}

TEST_CASE("products by tiles treat inf, nan and subnormals as the model", "[tiles]") {
  with_tiles([] {
    manual_seed(3);
    Tensor a = drawn_tile(20, 70, bf16, 0), b = drawn_tile(70, 20, bf16, 0);
    a.select(0, 3).select(0, 5).fill_(kFloatInf);
    a.select(0, 4).select(0, 69).fill_(std::nan(""));
    b.select(1, 7).select(0, 64).fill_(-kFloatInf);
    b.select(1, 8).select(0, 5).fill_(0);
    a.select(0, 9).fill_(0x1p-130);
    CHECK(differing(mm(a, b), expected_product(a, b)) == 0);
  });
}

TEST_CASE("f16 products with an infinity are those of f32 arithmetic", "[tiles]") {
  with_tiles([] {
    manual_seed(4);
    Tensor a = drawn_tile(40, 64, f16, 0), w = drawn_tile(48, 64, f16, 0);
    a.select(0, 17).select(0, 30).fill_(kFloatInf);
    const Tensor y = linear(a, w);
    CHECK(same_bits(y, linear(a.to(f32), w.to(f32)).to(f16)));
    CHECK(all(isinf(y.select(0, 17))).item<bool>());
    CHECK(all(isfinite(y.slice(0, 0, 17))).item<bool>());
    Tensor x = drawn_tile(4, 32 * 36, f16, 0).view({4, 32, 6, 6}),
           filter = drawn_tile(8, 288, f16, 0).view({8, 32, 3, 3});
    x.select(0, 2).select(0, 1).select(0, 3).select(0, 3).fill_(-kFloatInf);
    const Tensor z = conv2d(x, filter, {}, {.padding = 1});
    const Tensor expected = conv2d(x.to(f32), filter.to(f32), {}, {.padding = 1}).to(f16);
    CHECK(same_bits(isnan(z), isnan(expected)));
    CHECK(same_bits(isinf(z), isinf(expected)));
    CHECK(sum(isinf(z).to(f32)).item<double>() == 72);
  });
}

TEST_CASE("convolutions by tiles sum channels by lines, or windows of few channels", "[tiles]") {
  with_tiles([] {
    manual_seed(5);
    for (const DType dtype : {bf16, f16})
      for (const auto& sizes :
           {std::pair<std::int64_t, std::int64_t>{40, 1}, {64, 2}, {3, 2}, {1, 1}}) {
        const std::int64_t channels = sizes.first, stride = sizes.second;
        const Tensor x = drawn_tile(2, channels * 63, dtype, 0).view({2, channels, 9, 7}),
                     w = drawn_tile(10, channels * 9, dtype, 0).view({10, channels, 3, 3});
        const Tensor padded = pad(x, {1, 1, 1, 1});
        const Tensor y = conv2d(x, w, {}, {.stride = stride, .padding = 1});
        INFO(channels << " channels, stride " << stride);
        for (const std::int64_t at : {0, 1, 2})
          for (std::int64_t out = 0; out < 10; ++out) {
            // steps of 32 channels of a tap; with few channels, all channels of all taps in turn
            Floats a, b;
            const auto add = [&](std::int64_t c, std::int64_t tap) {
              const bool inside = c < channels;
              a.push_back(inside ? padded.select(0, 1)
                                       .select(0, c)
                                       .select(0, at * stride + tap / 3)
                                       .select(0, stride + tap % 3)
                                       .item<float>()
                                 : 0);
              b.push_back(inside
                              ? w.select(0, out).select(0, c).view({9}).select(0, tap).item<float>()
                              : 0);
            };
            if (channels > 3)
              for (std::int64_t line = 0; line < channels; line += 32)
                for (std::int64_t tap = 0; tap < 9; ++tap)
                  for (std::int64_t c = line; c < line + 32; ++c) add(c, tap);
            else
              for (std::int64_t tap = 0; tap < 9; ++tap)
                for (std::int64_t c = 0; c < channels; ++c) add(c, tap);
            const float got =
                y.select(0, 1).select(0, out).select(0, at).select(0, 1).item<float>();
            CHECK(got == rounded_to(model(a, b, dtype), dtype));
          }
        const Tensor last =
            conv2d(x.contiguous(MemoryFormat::channels_last),
                   w.contiguous(MemoryFormat::channels_last), {}, {.stride = stride, .padding = 1});
        CHECK(same_bits(last.contiguous(), y));
      }
  });
}

TEST_CASE("every op has the same bits by tiles and by their model", "[tiles]") {
  if (!has_tile_unit()) return;
  const ExactProducts scope(false);
  const auto results = [] {
    manual_seed(6);
    std::vector<Tensor> all;
    const auto add = [&](const Tensor& y, const std::vector<Tensor>& inputs) {
      all.push_back(y.detach());
      for (const Tensor& g : grad({y}, inputs, {}, {randn(y.shape()).to(y.dtype())}))
        all.push_back(g);
    };
    const auto leaf = [](const Shape& shape, DType dtype, double scale = 1) {
      return (randn(shape) * scale).to(dtype).requires_grad_();
    };
    for (const DType dtype : {bf16, f16}) {
      Tensor a = leaf({37, 90}, dtype), b = leaf({90, 50}, dtype), c = leaf({50}, dtype);
      add(matmul(a, b), {a, b});
      add(linear(a, b.t(), c), {a, b, c});
      a = leaf({3, 20, 40}, dtype), b = leaf({3, 40, 36}, dtype);
      add(bmm(a, b), {a, b});
      add(einsum("bij,bjk->bki", {a, b}), {a, b});
      for (const auto& [channels, kernel] :
           {std::pair<std::int64_t, std::int64_t>{48, 3}, {2, 5}}) {
        Tensor x = leaf({33, channels, 10, 9}, dtype),
               w = leaf({24, channels, kernel, kernel}, dtype);
        add(conv2d(x, w, {}, {.stride = 2, .padding = 1}), {x, w});
        w = leaf({channels, 20, kernel, kernel}, dtype);
        add(conv_transpose2d(x, w, {}, {.stride = 2}), {x, w});
      }
      Tensor q = leaf({2, 3, 70, 40}, dtype), k = leaf({2, 3, 300, 40}, dtype),
             v = leaf({2, 3, 300, 48}, dtype);
      add(scaled_dot_product_attention(q, k, v), {q, k, v});
      Tensor causal = leaf({2, 3, 70, 64}, dtype);
      add(scaled_dot_product_attention(causal, causal, causal, {.is_causal = true}), {causal});
      for (const bool gru : {false, true}) {
        Tensor x = leaf({7, 17, 40}, dtype);
        manual_seed(7);
        if (gru) {
          nn::GRU layer{40, 48};
          layer.to(dtype);
          std::vector<Tensor> inputs{x};
          for (const Tensor& p : layer.parameters()) inputs.push_back(p);
          add(layer(x).output, inputs);
        } else {
          nn::LSTM layer{40, 48, {.proj_size = 20}};
          layer.to(dtype);
          std::vector<Tensor> inputs{x};
          for (const Tensor& p : layer.parameters()) inputs.push_back(p);
          add(layer(x).output, inputs);
        }
      }
    }
    return all;
  };
  const int threads = num_threads();
  set_num_threads(1);
  const auto by_cpu = results();
  for (const int count : {2, 3}) {
    set_num_threads(count);
    const auto again = results();
    for (std::size_t i = 0; i < again.size(); ++i) CHECK(same_bits(again[i], by_cpu[i]));
  }
  set_num_threads(threads);
  const TileModel tiles(true);
  const auto by_model = results();
  REQUIRE(by_model.size() == by_cpu.size());
  for (std::size_t i = 0; i < by_cpu.size(); ++i) {
    INFO("result " << i << ", " << str(by_cpu[i].shape()));
    CHECK(same_bits(by_model[i], by_cpu[i]));
  }
}

TEST_CASE("packed copies of a weight are kept until it changes", "[tiles]") {
  with_tiles([] {
    manual_seed(8);
    for (const DType dtype : {bf16, f16}) {
      const auto kept_bytes = [] { return memory_stats()[MemoryCategory::cast_cache].current; };
      const auto before = kept_bytes();
      {
        Tensor w = randn({96, 64}).to(dtype);
        w.impl()->storage->keep_packed();
        const Tensor x = randn({40, 64}).to(dtype), g = randn({40, 96}).to(dtype);
        const auto check = [&] {
          const Tensor fresh = w.clone();
          for (int use = 0; use < 4; ++use) {
            CHECK(same_bits(linear(x, w), linear(x, fresh)));
            CHECK(same_bits(mm(g, w), mm(g, fresh)));
            CHECK(same_bits(mm(g.slice(1, 0, 48), w.slice(0, 48, 96)),
                            mm(g.slice(1, 0, 48), fresh.slice(0, 48, 96))));
          }
        };
        check();
        const auto bytes = kept_bytes() - before;
        CHECK(bytes >= 2 * 96 * 64 * 2);
        CHECK(bytes <= 8 * 96 * 64 * 2);
        w.mul_(2);
        check();
        w.copy_(randn({96, 64}));
        check();
      }
      CHECK(kept_bytes() == before);
    }
  });
}

TEST_CASE("a weight of autocast is packed once for several passes", "[tiles]") {
  with_tiles([] {
    manual_seed(9);
    nn::Linear layer{64, 96};
    const Tensor x = randn({40, 64});
    const NoGrad no_grad;
    const amp::autocast guard({.dtype = bf16});
    const Tensor first = layer(x), second = layer(x), third = layer(x);
    CHECK(same_bits(second, first));
    CHECK(same_bits(third, first));
    Tensor weight = layer.weight();
    weight.mul_(-1);
    CHECK_FALSE(same_bits(layer(x), first));
  });
}
