// Vectorised kernels on views with any offset: the bits are those of aligned memory. On a sanitized
// device a misaligned load ends the program.
#include <mezzo.h>

#include <functional>
#include <memory>
#include <vector>

#include "../support/catch.h"
#include "device.h"
#include "need_device.h"

using namespace mezzo;
using testing::kDevice;

namespace {

constexpr std::int64_t kLines = 3, kColumns = 37, kSize = kLines * kColumns;

/** Returns elements [offset, offset + kSize) of longer memory as rows. */
Tensor view_at(std::int64_t offset, DType dtype, int seed) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < kSize; ++i)
    values.push_back(static_cast<double>((i * 7919 + seed) % 17) / 4);
  const Tensor all = zeros({kSize + 32}, {.dtype = dtype, .device = kDevice});
  const Tensor view = all.slice(0, offset, offset + kSize).view({kLines, kColumns});
  view.copy_(tensor(values, {kLines, kColumns}).to(dtype));
  return view;
}

using Kernel = std::function<Tensor(const Tensor& x, const Tensor& y)>;

/** Checks that a call gives the same bits for operands at two offsets as for aligned ones. The call
 *  may write to x. */
void check_bits(const char* what, DType dtype, const Kernel& kernel) {
  const std::vector<double> expected =
      kernel(view_at(0, dtype, 1), view_at(0, dtype, 5)).to_vector<double>();
  for (std::int64_t i = 0; i <= 16; ++i)
    for (const std::int64_t j : {std::int64_t{0}, i, (i * 5 + 3) % 17}) {
      INFO(what << " of " << name(dtype) << " at " << i << " and " << j);
      CHECK(kernel(view_at(i, dtype, 1), view_at(j, dtype, 5)).to_vector<double>() == expected);
    }
}

Tensor both_flat(const Tensor& a, const Tensor& b) {
  return cat({a.reshape({-1}), b.reshape({-1})});
}

}  // namespace

TEST_CASE("elementwise kernels accept views at any offset", "[gpu][alignment]") {
  NEED_DEVICE();
  for (const DType dtype : {boolean, u8, i32, i64, f16, bf16, f32, f64}) {
    check_bits("where", dtype, [](const Tensor& x, const Tensor& y) { return where(x > y, x, y); });
    check_bits("copy_", dtype, [](const Tensor& x, const Tensor& y) { return x.copy_(y); });
    check_bits("fill_", dtype, [](const Tensor& x, const Tensor&) { return x.fill_(1); });
    for (const DType other : {u8, f16, bf16, f32, f64}) {
      check_bits("a cast", dtype, [=](const Tensor& x, const Tensor&) { return x.to(other); });
      check_bits("copy_ that casts", dtype,
                 [=](const Tensor& x, const Tensor& y) { return x.copy_(y.to(other)); });
    }
  }
  for (const DType dtype : {i32, i64, f16, bf16, f32, f64}) {
    check_bits("sum of two", dtype, [](const Tensor& x, const Tensor& y) { return x + y; });
    check_bits("add_", dtype, [](const Tensor& x, const Tensor& y) { return add_(x, y); });
    check_bits("rows and a row", dtype,
               [](const Tensor& x, const Tensor& y) { return x * y.select(0, 1); });
  }
  for (const DType dtype : {f16, bf16, f32, f64}) {
    check_bits("relu", dtype, [](const Tensor& x, const Tensor&) { return relu(x - 1); });
    check_bits("dropout", dtype, [](const Tensor& x, const Tensor&) {
      manual_seed(3);
      return dropout(x, {.p = 0.5});
    });
    check_bits("numbers drawn in place", dtype, [](const Tensor& x, const Tensor&) {
      manual_seed(3);
      return uniform_(x, -1, 1);
    });
  }
}

TEST_CASE("reductions, norms and losses accept views at any offset", "[gpu][alignment]") {
  NEED_DEVICE();
  for (const DType dtype : {f16, bf16, f32, f64}) {
    check_bits("sums", dtype, [](const Tensor& x, const Tensor&) {
      return cat({sum(x).reshape({1}), sum(x, 0), sum(x, 1)});
    });
    check_bits("extremes", dtype, [](const Tensor& x, const Tensor&) {
      return cat({amax(x, 0), amin(x, 1), argmax(x, {.dim = 1}).to(x.dtype())});
    });
    check_bits("softmax", dtype, [](const Tensor& x, const Tensor& y) {
      const Tensor a = x.detach().requires_grad_(), z = log_softmax(a, 1);
      return both_flat(z.detach(), grad(TensorList(z), TensorList(a), {}, TensorList(y))[0]);
    });
    check_bits("layer_norm", dtype, [](const Tensor& x, const Tensor& y) {
      const Tensor a = x.detach().requires_grad_(), w = y.select(0, 1).detach().requires_grad_(),
                   z = layer_norm(a, {kColumns}, {.weight = w, .bias = y.select(0, 2)});
      const std::vector<Tensor> g = grad(TensorList(z), std::vector{a, w}, {}, TensorList(y));
      return cat({z.detach().reshape({-1}), g[0].reshape({-1}), g[1]});
    });
    check_bits("cross_entropy", dtype, [](const Tensor& x, const Tensor&) {
      const Tensor a = x.detach().requires_grad_(), places = arange(kLines).to(i64).to(kDevice),
                   z = cross_entropy(a, places);
      return both_flat(z.detach().to(f32), grad(TensorList(z), TensorList(a))[0].to(f32));
    });
    check_bits("cumsum", dtype, [](const Tensor& x, const Tensor&) { return cumsum(x, 1); });
    check_bits("sort", dtype, [](const Tensor& x, const Tensor&) { return sort(x).values; });
    check_bits("cat", dtype, [](const Tensor& x, const Tensor& y) { return cat({x, y, x}, 1); });
    check_bits("rows by index", dtype, [](const Tensor& x, const Tensor& y) {
      const Tensor places = tensor({2, 0, 2}, {.dtype = i64}).to(kDevice);
      return both_flat(index_select(x, 0, places), index_add(y, 0, places, x));
    });
    check_bits("a product", dtype,
               [](const Tensor& x, const Tensor& y) { return matmul(x, y.t()); });
    check_bits("a product with a bias", dtype, [](const Tensor& x, const Tensor& y) {
      return linear(x, y, x.select(0, 1).narrow(0, 1, kLines));
    });
  }
}

TEST_CASE("lists of tensors and updates accept views at any offset", "[gpu][alignment]") {
  NEED_DEVICE();
  for (const DType dtype : {f16, bf16, f32})
    for (const bool momentum : {false, true})
      check_bits(momentum ? "FusedSGD" : "FusedAdam", dtype, [=](const Tensor& x, const Tensor& y) {
        const Tensor p = x.detach().requires_grad_();
        p.set_grad(y);
        std::unique_ptr<optim::Optimizer> optimizer;
        if (momentum)
          optimizer = std::make_unique<optim::FusedSGD>(
              std::vector{p}, optim::FusedSgdOptions{.lr = 0.1, .momentum = 0.9});
        else
          optimizer = std::make_unique<optim::FusedAdam>(std::vector{p});
        for (int i = 0; i < 2; ++i) optimizer->step();
        optim::clip_grad_norm({p}, 1);
        return both_flat(p.detach(), p.grad());
      });
}
