// Sums of rows that an index selects, on 16-byte packs, on any device: the gradient of an embedding
// and index_add.
#include "../support/catch.h"
#include "../support/same_bits.h"
#include "packed.h"

using namespace mezzo;
using namespace packed;

namespace {

/** Returns `count` indices below `rows`. Most of them are 3, if `one` dominates, so that its rows
 *  lie in many chunks; else they repeat with a period. */
Tensor indices(std::int64_t count, std::int64_t rows, bool one) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(one && i % 10 != 0 ? 3 : static_cast<double>((i * 37 + 5) % rows));
  return tensor(values, {count}, {.dtype = i64});
}

void check_embedding(std::int64_t count, std::int64_t width, DType dtype, bool one,
                     const EmbeddingOptions& options) {
  const Tensor index = indices(count, 29, one);
  packed::check({randn({29, width}).to(dtype)}, [&](const std::vector<Tensor>& t) {
    return embedding(index.to(t[0].device()), t[0], options);
  });
}

}  // namespace

TEST_CASE("gradients of embeddings of packs agree with the CPU's in f64", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(51);
  for (const DType dtype : kDtypes)
    for (const bool one : {false, true}) {
      // one chunk, several, a last one of one index
      for (const std::int64_t count : {1, 16, 64, 65, 700})
        for (const std::int64_t width : {8, 40, 9}) check_embedding(count, width, dtype, one, {});
      check_embedding(300, 24, dtype, one, {.padding_idx = 3});
      check_embedding(300, 24, dtype, one, {.scale_grad_by_freq = true});
      check_embedding(64, 24, dtype, one, {.padding_idx = 7, .scale_grad_by_freq = true});
    }
}

TEST_CASE("a short index, which each block sorts, gives the bits of a long one", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(53);
  constexpr std::int64_t kLong = 1100, kRows = 29;
  for (const DType dtype : kDtypes)
    for (const bool one : {false, true})
      for (const std::int64_t count : {65, 700, 1024}) {
        INFO(name(dtype) << " " << count);
        // the elements added sort last, so that the chunks of the others are the same
        const Tensor index = indices(count, kRows, one).to(kDevice),
                     more = full({kLong - count}, kRows, {.dtype = i64, .device = kDevice}),
                     g = randn({kLong, 40}).to(dtype).to(kDevice);
        const auto summed = [&](const Tensor& rows, const Tensor& of) {
          return index_add(zeros({kRows + 1, 40}, {.dtype = dtype, .device = kDevice}), 0, rows, of)
              .narrow(0, 0, kRows);
        };
        CHECK(testing::same_bits(summed(index, g.narrow(0, 0, count)),
                                 summed(cat({index, more}), g)));
      }
}

TEST_CASE("sums of rows of packs are added to what is there", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(52);
  for (const DType dtype : kDtypes)
    for (const bool one : {false, true}) {
      const Tensor index = indices(200, 11, one);
      packed::check({randn({11, 32}).to(dtype), randn({200, 32}).to(dtype)},
                    [&](const std::vector<Tensor>& t) {
                      return index_add(t[0], 0, index.to(t[0].device()), t[1], {.alpha = 0.5});
                    });
      // rows that are not adjacent
      packed::check({randn({11, 64}).to(dtype), randn({200, 64}).to(dtype)},
                    [&](const std::vector<Tensor>& t) {
                      return index_add(t[0].narrow(1, 16, 32), 0, index.to(t[0].device()),
                                       t[1].narrow(1, 32, 32));
                    });
    }
}

TEST_CASE("sums of rows of packs propagate nan to their row alone", "[gpu][packed]") {
  NEED_DEVICE();
  const Tensor index = indices(100, 20, false).to(kDevice);
  const Tensor src = ones({100, 8}, {.dtype = bf16});
  src.select(0, 42).fill_(NAN);
  const Tensor y =
      index_add(zeros({20, 8}, {.dtype = bf16, .device = kDevice}), 0, index, src.to(kDevice))
          .to(cpu);
  CHECK(sum(isnan(y)).item<std::int64_t>() == 8);
  CHECK(sum(isnan(y.select(0, (42 * 37 + 5) % 20))).item<std::int64_t>() == 8);
}
