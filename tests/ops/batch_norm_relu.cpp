// batch_norm_relu against batch_norm and relu: the same bits forward and backward; what it saves,
// counts and rejects.
#include <mezzo.h>

#include <cmath>
#include <memory>

#include "../support/catch.h"
#include "../support/throws.h"
#include "joined.h"

using namespace mezzo;
using namespace cases::joined;

namespace {

struct NormSetting {
  bool training = true, affine = true, residual = false;
};

const std::vector<NormSetting> kSettings{
    {true, true, false},  {true, true, true},  {true, false, false}, {true, false, true},
    {false, true, false}, {false, true, true}, {false, false, false}};

/** Operands for the fused op or for the separate ops, with their own running statistics. */
struct BatchNormOperands {
  Tensor x, residual, weight, bias, mean, var, batches;
  NormSetting setting;
  double eps = 1e-5;

  BatchNormOperands(DType dtype, const Shape& shape, const NormSetting& its)
      : x(leaf(shape, dtype, 2)), setting(its) {
    const Shape channels{shape[1]};
    const DType wide = dtype == f64 ? f64 : f32;
    if (its.residual) residual = leaf(shape, dtype, 1);
    if (its.affine) {
      weight = leaf(channels, wide, 1);
      bias = leaf(channels, wide, 0.5);
    }
    mean = leaf(channels, wide, 1).detach();
    var = (leaf(channels, wide, 1).detach() * 0 + 1.5);
    batches = zeros({}, {.dtype = i64, .device = x.device()});
  }
  std::vector<Tensor> leaves() const {
    std::vector<Tensor> all;
    for (const Tensor& t : {x, residual, weight, bias})
      if (t.defined() && t.requires_grad()) all.push_back(t);
    return all;
  }
  /** Returns the value, the gradients and the updated statistics. */
  std::vector<Tensor> results(bool joined) const {
    const Tensor m = mean.clone(), v = var.clone(), n = batches.clone();
    const BatchNormOptions options{.running_mean = m,
                                   .running_var = v,
                                   .weight = weight,
                                   .bias = bias,
                                   .training = setting.training,
                                   .eps = eps,
                                   .num_batches_tracked = n};
    const auto by_parts = [&] {
      const Tensor y = batch_norm(x, options);
      return relu(residual.defined() ? y + residual : y);
    };
    const Tensor y = joined ? batch_norm_relu(x, options, residual) : by_parts();
    std::vector<Tensor> out{y.detach(), m, v, n};
    std::vector<double> seed;
    for (std::int64_t i = 0; i < y.numel(); ++i)
      seed.push_back(static_cast<double>(i % 7) * 0.25 - 0.5);
    const Tensor g = tensor(seed, y.shape(), {.dtype = y.dtype(), .device = y.device()});
    for (const Tensor& gradient : grad(std::vector{y}, leaves(), {}, std::vector{g}))
      out.push_back(gradient);
    return out;
  }
  bool agree() const { return same_bits(results(true), results(false)); }
};

}  // namespace

TEST_CASE("batch_norm_relu has the bits of the separate ops", "[ops]") {
  manual_seed(15);
  for (const DType dtype : {f64, f32, f16, bf16})
    for (const Shape& shape : {Shape{4, 3}, Shape{150, 35}, Shape{2, 3, 4}, Shape{3, 2, 5, 7},
                               Shape{2, 1, 1200}, Shape{0, 2, 3}})
      for (const NormSetting& setting : kSettings) {
        INFO(name(dtype) << ", " << str(shape) << (setting.training ? ", training" : ", evaluation")
                         << (setting.affine ? ", affine" : "")
                         << (setting.residual ? ", residual" : ""));
        CHECK(BatchNormOperands(dtype, shape, setting).agree());
      }
}

TEST_CASE("batch_norm_relu has the bits of the separate ops where a channel exceeds a block",
          "[ops]") {
  manual_seed(16);
  for (const DType dtype : {f32, f16})
    for (const bool residual : {false, true})
      for (const Shape& shape : {Shape{2, 2, 260, 256}, Shape{5000, 33}}) {
        INFO(name(dtype) << ", " << str(shape) << (residual ? ", residual" : ""));
        CHECK(BatchNormOperands(dtype, shape, {.residual = residual}).agree());
      }
}

TEST_CASE("batch_norm_relu rounds to 0 where the separate ops do", "[ops]") {
  manual_seed(17);
  // Around the smallest numbers of each dtype, including half the smallest, which ties to 0.
  const NoGrad no_grad;
  for (const DType dtype : {f16, bf16, f32})
    for (const bool residual : {false, true}) {
      INFO(name(dtype) << (residual ? ", residual" : ""));
      BatchNormOperands o(dtype, {64, 3}, {.residual = residual});
      const double smallest = dtype == f16 ? 0x1p-24 : dtype == bf16 ? 0x1p-133 : 0x1p-149;
      o.weight.fill_(smallest);
      o.bias.fill_(smallest / 2);
      if (residual) o.residual.fill_(0);
      const GradMode grads(true);
      CHECK(o.agree());
    }
  BatchNormOperands tie(f16, {2, 1, 2}, {});
  tie.eps = 0;
  tie.x.copy_(tensor({1., -1, 1, -1}, {2, 1, 2}));
  tie.weight.fill_(0x1p-25);
  tie.bias.fill_(0);
  const GradMode grads(true);
  const std::vector<Tensor> got = tie.results(true);
  CHECK(same_bits(got, tie.results(false)));
  CHECK(sum(got[0].to(f32)).item<double>() == 0);
  // The bias's gradient is 0, since no element is positive.
  CHECK(sum(abs(got[6].to(f32))).item<double>() == 0);
}

TEST_CASE("batch_norm_relu propagates nan and infinity as relu does", "[ops]") {
  manual_seed(18);
  for (const DType dtype : {f32, f16}) {
    BatchNormOperands o(dtype, {6, 3, 2}, {.residual = true});
    {
      const NoGrad no_grad;
      o.x.select(1, 0).fill_(std::nan(""));
      o.residual.select(1, 1).select(0, 0).fill_(-INFINITY);
      o.residual.select(1, 1).select(0, 1).fill_(INFINITY);
      o.residual.select(1, 2).select(0, 2).fill_(std::nan(""));
    }
    CHECK(o.agree());
    CHECK(std::isnan(o.results(true)[0].to(cpu).to(f32).to_vector<float>()[0]));
    o.residual = {};
    CHECK(o.agree());
  }
}

TEST_CASE("batch_norm_relu computes only the requested gradients", "[ops]") {
  manual_seed(19);
  for (const bool residual : {false, true})
    for (int wanted = 1; wanted < 16; ++wanted) {
      BatchNormOperands o(f16, {6, 5, 3}, {.residual = residual});
      const Tensor all[] = {o.x, o.weight, o.bias, o.residual};
      for (int i = 0; i < 4; ++i)
        if (all[i].defined()) all[i].requires_grad_((wanted >> i & 1) != 0);
      if (o.leaves().empty()) continue;
      INFO("wanted " << wanted << (residual ? ", residual" : ""));
      CHECK(o.agree());
    }
}

TEST_CASE("second gradients of batch_norm_relu match the separate ops", "[ops]") {
  manual_seed(20);
  for (const NormSetting& setting : kSettings) {
    const BatchNormOperands o(f64, {4, 3, 2}, setting);
    const auto second = [&](bool joined) {
      const BatchNormOptions options{.running_mean = o.mean.clone(),
                                     .running_var = o.var.clone(),
                                     .weight = o.weight,
                                     .bias = o.bias,
                                     .training = setting.training};
      const Tensor parts = batch_norm(o.x, options);
      const Tensor y = joined ? batch_norm_relu(o.x, options, o.residual)
                              : relu(o.residual.defined() ? parts + o.residual : parts);
      Tensor total = zeros({}, {.dtype = f64, .device = y.device()});
      for (const Tensor& g : grad({sum(y * y * y)}, o.leaves(), {.create_graph = true}))
        total = total + sum(g * g);
      return grad({total}, o.leaves(), {.allow_unused = true});
    };
    const std::vector<Tensor> joined = second(true), parts = second(false);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      CHECK(joined[i].defined() == parts[i].defined());
      // Contributions are added in another order.
      if (parts[i].defined())
        CHECK(cases::difference(cases::to_array(joined[i]), cases::to_array(parts[i]),
                                {1e-11, 1e-11}) == "");
    }
  }
}

TEST_CASE("batch_norm_relu saves its result and not its residual", "[ops]") {
  manual_seed(21);
  const auto through = [](const BatchNormOperands& o) {
    return batch_norm_relu(o.x, {.weight = o.weight, .training = true}, o.residual);
  };
  const BatchNormOperands o(f32, {4, 3}, {.residual = true});
  const std::vector<Tensor> expected = grad({sum(through(o))}, {o.x, o.residual});
  const Tensor unharmed = through(o);
  o.residual.detach().fill_(7);
  CHECK(same_bits(grad({sum(unharmed)}, {o.x, o.residual}), expected));
  const Tensor y = through(o);
  y.detach().fill_(1);
  CHECK_THROWS_AS(sum(y).backward(), StateError);
  const Tensor z = through(o);
  o.x.detach().fill_(1);
  CHECK_THROWS_AS(sum(z).backward(), StateError);
}

TEST_CASE("batch norms count batches where they update their statistics", "[ops]") {
  manual_seed(22);
  const Tensor x = leaf({4, 3}, f32, 1), n = zeros({}, {.dtype = i64, .device = x.device()});
  for (const bool with_relu : {false, true}) {
    const Tensor mean = zeros({3}, {.device = x.device()}),
                 spread = zeros({6}, {.device = x.device()});
    const auto call = [&](const BatchNormOptions& options) {
      with_relu ? batch_norm_relu(x, options) : batch_norm(x, options);
    };
    n.fill_(0);
    const std::uint32_t before = n.version();
    call({.running_mean = mean, .training = true, .num_batches_tracked = n});
    CHECK((n.item<int>() == 1 && n.version() == before + 1));
    // Statistics that are not contiguous are updated outside the kernel, and so is the count.
    const Tensor apart = spread.as_strided({3}, {2}, 0);
    call({.running_mean = apart, .training = true, .num_batches_tracked = n});
    CHECK((n.item<int>() == 2 && n.version() == before + 2));
    CHECK(same_bits({apart.clone()}, {mean}));
    call({.running_mean = mean, .running_var = mean + 1, .num_batches_tracked = n});
    CHECK(n.item<int>() == 2);
    CHECK_THROWS_AS(call({.running_mean = mean,
                          .running_var = zeros({2}),
                          .training = true,
                          .num_batches_tracked = n}),
                    ShapeError);
    CHECK((n.item<int>() == 2 && n.version() == before + 2));
  }
}

TEST_CASE("batch_norm_relu rejects a residual of another dtype or device", "[ops]") {
  const Tensor x = full({4, 3}, 1);
  CHECK_THROWS_WITH_AS_TEXT(
      batch_norm_relu(x, {.training = true}, full({4, 3}, 1, {.dtype = f16})), DtypeError,
      "batch_norm_relu: the residual has another dtype than the input; got input f32[4,3]@cpu "
      "and residual f16[4,3]@cpu, expected dtype f32; use relu(batch_norm(x) + residual)");
  const Device there = cases::test_device();
  if (there == cpu) return;
  CHECK_THROWS_AS(batch_norm_relu(x.to(there), {.training = true}, x), DeviceError);
}

TEST_CASE("Sequential fuses batch norm and relu where fusing is unobservable", "[ops]") {
  manual_seed(23);
  const nn::Sequential net{nn::Linear{5, 6}, nn::BatchNorm1d{6}, nn::ReLU{},
                           nn::Linear{6, 4}, nn::BatchNorm1d{4}, nn::Tanh{}};
  const Tensor x = randn({6, 5});
  const auto p = net.parameters();
  const auto by_hand = [&] {
    const Tensor a = linear(x, p[0], p[1]);
    const Tensor b = relu(batch_norm(a, {.weight = p[2], .bias = p[3], .training = true}));
    return mezzo::tanh(
        batch_norm(linear(b, p[4], p[5]), {.weight = p[6], .bias = p[7], .training = true}));
  };
  CHECK(same_bits({net(x)}, {by_hand()}));
  CHECK(same_bits(grad({sum(net(x))}, p), grad({sum(by_hand())}, p)));
  const nn::Sequential pair{nn::BatchNorm1d{5}, nn::ReLU{}};
  CHECK(origin(pair(x)) == "batch_norm_relu");
  CHECK(origin(nn::Sequential{nn::BatchNorm1d{5}, nn::ReLU6{}}(x)) == "relu6");
  pair[1].set_call_wrapper(std::make_shared<nn::CallWrapper>());
  CHECK(origin(pair(x)) == "relu");
  pair[1].set_call_wrapper(nullptr);
  pair[0].set_call_wrapper(std::make_shared<nn::CallWrapper>());
  CHECK(origin(pair(x)) == "relu");
  pair[0].set_call_wrapper(nullptr);

  Names seen;
  (void)net(x);
  CHECK(count(seen.names, "batch_norm") == 2);
  CHECK(count(seen.names, "relu") == 1);
  CHECK(count(seen.names, "batch_norm_relu") == 0);
}
